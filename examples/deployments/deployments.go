// Package deployments is an example of a connector that has nothing to do with
// tickets: it reads what runs where, and starts a deployment that a person approved.
//
// A connection may touch some environments and no others; they are its resources.
package deployments

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// New describes the connector. Making it has no effect, and it holds no secret.
func New() connector.Connector {
	spec := func(name, title, doc string, effect connector.Effect, scopes ...string) connector.Spec {
		return connector.Spec{Name: name, Title: title, Doc: doc, Effect: effect, Sensitivity: connector.SensitivityInternal, Scopes: scopes}
	}
	return connector.Connector{
		ID: "deployments", Version: "0.1.0", Owner: "release engineering", Provider: "deployments", ProviderVersion: "v1",
		Auth:        connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"deployments:read", "deployments:write"}},
		Excluded:    []string{"secrets", "env"},
		Limitations: []string{"a deployment that was started may still fail; read it again for its state"},
		Identify:    identify,
		Operations: []connector.Operation{
			connector.List(spec("deployments.list", "List deployments", "Lists deployments of an environment, newest first.",
				connector.EffectRead, "deployments:read"), list),
			connector.Read(spec("deployments.get", "Get a deployment", "Reads one deployment by its id.",
				connector.EffectRead, "deployments:read"), get),
			connector.Write(spec("deployments.start", "Start a deployment", "Proposes to put a version of a service into an environment; a person approves it.",
				connector.EffectCompensable, "deployments:read", "deployments:write"),
				connector.Steps[Start, Deployment]{
					Plan: plan, Decode: connector.DecodeJSON[Deployment], ID: func(d Deployment) string { return d.ID }, Find: find, Verify: verify,
					Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Request-Key"},
					Settle: time.Second, // the provider's list is consistent within that
				}),
		},
	}
}

// A Deployment is what callers see of one.
type Deployment struct {
	ID          string `json:"id"`
	Service     string `json:"service"`
	Version     string `json:"version"`
	Environment string `json:"environment"`
	State       string `json:"state"`
}

// A Start is what callers propose.
type Start struct {
	Service     string `json:"service" jsonschema:"the service's name"`
	Version     string `json:"version" jsonschema:"an existing version of it"`
	Environment string `json:"environment" jsonschema:"where to put it"`
}

type inEnvironment struct {
	Environment string `json:"environment" jsonschema:"the environment's name"`
}

type byID struct {
	ID string `json:"id" jsonschema:"the id of a deployment"`
}

// page is how the provider answers with several.
type page struct {
	Items    []Deployment `json:"items"`
	Next     string       `json:"next"`
	Complete bool         `json:"complete"` // nothing was left out, not even by an index
}

// identify reads the account and the environments that it may touch.
func identify(ctx context.Context, a *connector.Access) (connector.Identity, error) {
	me, _, err := connector.Get[struct {
		ID           string               `json:"id"`
		Login        string               `json:"login"`
		Environments []connector.Resource `json:"environments"`
	}](ctx, a, connector.Request{Path: "/me"})
	return connector.Identity{Account: connector.Account{Subject: me.ID, Login: me.Login}, Resources: me.Environments}, err
}

func list(ctx context.Context, a *connector.Access, in inEnvironment, at connector.Position) (connector.Page[Deployment], error) {
	if _, err := a.Narrow([]string{in.Environment}); err != nil {
		return connector.Page[Deployment]{}, err
	}
	query := url.Values{"environment": {in.Environment}, "limit": {strconv.Itoa(at.PageSize)}}
	if at.Cursor != "" {
		query.Set("after", at.Cursor)
	}
	p, _, err := connector.Get[page](ctx, a, connector.Request{Path: "/deployments", Query: query})
	return connector.Page[Deployment]{Items: p.Items, Next: p.Next}, err
}

// get answers for a deployment outside the grant as for one that is not there.
func get(ctx context.Context, a *connector.Access, in byID) (Deployment, error) {
	d, _, err := connector.Get[Deployment](ctx, a, connector.Request{Path: "/deployments/" + url.PathEscape(in.ID)})
	if err == nil && !a.Allowed(d.Environment) {
		return Deployment{}, connector.Fail(connector.CodeNotFound, "")
	}
	return d, err
}

// plan makes the one request. A person approves exactly these bytes.
func plan(_ context.Context, a *connector.Access, in Start) (connector.Request, error) {
	if _, err := a.Narrow([]string{in.Environment}); err != nil {
		return connector.Request{}, err
	}
	body, err := json.Marshal(in)
	return connector.Request{Method: http.MethodPost, Path: "/deployments", ContentType: "application/json", Body: body,
		Summary: fmt.Sprintf("Put %s %s into %s as %s", in.Service, in.Version, in.Environment, a.Connection().Account.Login),
		Notes:   []string{"what runs there now is replaced", "everyone on call is notified"}}, err
}

// find looks a deployment up by the key that it was started with.
func find(ctx context.Context, a *connector.Access, id connector.OperationID, in Start) (Deployment, connector.Found, error) {
	p, _, err := connector.Get[page](ctx, a, connector.Request{Path: "/deployments",
		Query: url.Values{"environment": {in.Environment}, "request_key": {string(id)}}})
	switch {
	case err != nil:
		return Deployment{}, connector.CannotTell, err
	case len(p.Items) == 1:
		return p.Items[0], connector.FoundYes, nil
	case len(p.Items) == 0 && p.Complete:
		return Deployment{}, connector.FoundNo, nil
	}
	return Deployment{}, connector.CannotTell, nil // a filter that was ignored, or an index behind
}

// verify reads back what was made and tells where it differs.
func verify(ctx context.Context, a *connector.Access, made Deployment, in Start) (changes []connector.Change, err error) {
	stored, err := get(ctx, a, byID{made.ID})
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ pointer, sent, stored string }{
		{"/service", in.Service, stored.Service}, {"/version", in.Version, stored.Version}, {"/environment", in.Environment, stored.Environment},
	} {
		if f.sent != f.stored {
			changes = append(changes, connector.Change{Pointer: f.pointer, Sent: f.sent, Stored: f.stored})
		}
	}
	return changes, nil
}
