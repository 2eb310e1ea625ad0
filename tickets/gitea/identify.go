package gitea

import (
	"context"
	"net/url"
	"strconv"

	"github.com/drawbridge-dev/drawbridge/connector"
)

const (
	perPage  = 50 // Gitea's ceiling
	maxRepos = 1000
)

// Identify reads the account and the repositories it may see. Gitea's token
// answer names no scope, and an unknown or missing scope silently becomes "all",
// so Identify also tries a door that was not asked for.
func (Driver) Identify(ctx context.Context, a *connector.Access) (connector.Identity, error) {
	me, _, err := connector.Get[person](ctx, a, connector.Request{Path: "/api/v1/user"})
	if err == nil && (me.ID <= 0 || me.Login == "") {
		// Without an id every account would be the same one.
		err = connector.Fail(connector.CodeProviderContract, "the provider does not say whose token this is")
	}
	if err != nil {
		return connector.Identity{}, err
	}
	id := connector.Identity{Account: connector.Account{
		Subject: strconv.FormatInt(me.ID, 10), Login: me.Login, Organisation: "Gitea",
	}}
	for page := 1; len(id.Resources) < maxRepos; page++ {
		repos, _, err := connector.Get[[]struct {
			FullName string `json:"full_name"`
		}](ctx, a, connector.Request{Path: "/api/v1/user/repos",
			Query: url.Values{"limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}})
		if err != nil {
			return id, err
		}
		// A shorter page need not be the last: its size is an administrator's choice.
		if len(repos) == 0 {
			break
		}
		for _, r := range repos {
			id.Resources = append(id.Resources, connector.Resource{ID: r.FullName, Name: r.FullName})
		}
	}
	if len(id.Resources) >= maxRepos {
		id.Notes = append(id.Notes, "only the first "+strconv.Itoa(maxRepos)+" repositories were taken")
	}
	widened, err := widened(ctx, a)
	if err != nil {
		return id, err
	}
	if widened {
		id.Notes = append(id.Notes, "Gitea gave more than was asked for: this token also reads notifications, "+
			"so it very likely reaches everything the account can. Drawbridge uses only the scopes it asked for.")
	}
	return id, nil
}

// widened asks for the count of unread notifications, which needs a scope that
// this driver never requests. Only a refusal shows that scopes are enforced.
func widened(ctx context.Context, a *connector.Access) (bool, error) {
	_, err := a.Get(ctx, connector.Request{Path: "/api/v1/notifications/new"})
	switch connector.CodeOf(err) {
	case 0:
		return true, nil
	case connector.CodeScopeRequired, connector.CodePermissionDenied:
		return false, nil
	}
	return false, err
}
