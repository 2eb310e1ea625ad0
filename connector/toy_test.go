package connector_test

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// The toy is a desk of notes: one read, one list, one write. A test replaces
// the author function that it is about.
type toy struct {
	get      func(context.Context, *connector.Access, getIn) (note, error)
	search   func(context.Context, *connector.Access, searchIn, connector.Position) (connector.Page[note], error)
	steps    connector.Steps[createIn, note]
	classify func(connector.Request, connector.Response) *connector.Error
	identify func(context.Context, *connector.Access) (connector.Identity, error)
	edit     func(*connector.Connector)
}

type getIn struct {
	ID    string `json:"id"`
	Depth int    `json:"depth,omitempty"`
}

type searchIn struct {
	Query    string   `json:"query"`
	Projects []string `json:"projects,omitempty"`
}

type createIn struct {
	Title    string   `json:"title"`
	Body     string   `json:"body,omitempty"`
	Severity float64  `json:"severity,omitempty"`
	Labels   []string `json:"labels,omitempty"`
}

type note struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

func spec(name string, effect connector.Effect) connector.Spec {
	return connector.Spec{
		Name: name, Title: "Note", Doc: "Something about a note.", Effect: effect,
		Sensitivity: connector.SensitivityInternal, Scopes: []string{"notes"},
	}
}

func newToy(s *stages) *toy {
	t := &toy{
		get: func(ctx context.Context, a *connector.Access, in getIn) (note, error) {
			n, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/" + in.ID})
			return n, err
		},
		search: func(context.Context, *connector.Access, searchIn, connector.Position) (connector.Page[note], error) {
			return connector.Page[note]{Items: []note{{"n1", "one"}}}, nil
		},
		identify: func(context.Context, *connector.Access) (connector.Identity, error) {
			return connector.Identity{Account: connector.Account{Subject: "sub"}}, nil
		},
	}
	t.steps = connector.Steps[createIn, note]{
		Plan: func(_ context.Context, _ *connector.Access, in createIn) (connector.Request, error) {
			s.saw("plan")
			body, err := json.Marshal(in)
			return connector.Request{
				Method: http.MethodPost, Path: "/notes", ContentType: "application/json", Body: body,
				Summary: "create a note", Notes: []string{"the desk mails its owner"},
			}, err
		},
		Decode: connector.DecodeJSON[note],
		ID:     func(n note) string { return n.ID },
		Find: func(ctx context.Context, a *connector.Access, id connector.OperationID, _ createIn) (note, connector.Found, error) {
			s.saw("find")
			n, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/operations/" + string(id)})
			if connector.CodeOf(err) == connector.CodeNotFound {
				return note{}, connector.FoundNo, nil
			}
			return n, connector.FoundYes, err
		},
		Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Operation-Id"},
	}
	return t
}

// connector mounts what the toy is now; handlers are counted.
func (t *toy) connector(s *stages) connector.Connector {
	c := connector.Connector{
		ID: "desk", Version: "1.2.3", Owner: "tests", Provider: "notes", ProviderVersion: "v1",
		Auth:        connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"notes"}},
		Excluded:    []string{"private"},
		Limitations: []string{"notes are not versioned"},
		Classify:    t.classify,
		Identify:    t.identify,
		Operations: []connector.Operation{
			connector.Read(spec("desk.get", connector.EffectRead), func(ctx context.Context, a *connector.Access, in getIn) (note, error) {
				s.saw("handler")
				return t.get(ctx, a, in)
			}),
			connector.List(spec("desk.search", connector.EffectRead), func(ctx context.Context, a *connector.Access, in searchIn, p connector.Position) (connector.Page[note], error) {
				s.saw("handler")
				return t.search(ctx, a, in, p)
			}),
			connector.Write(spec("desk.create", connector.EffectCompensable), t.steps),
		},
	}
	if t.edit != nil {
		t.edit(&c)
	}
	return c
}
