package gitea

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

type wireHook struct {
	ID     int64 `json:"id"`
	Config struct {
		URL string `json:"url"`
	} `json:"config"`
}

func (w wireHook) hook(repo string) tickets.Hook {
	h := tickets.Hook{Project: repo, Address: w.Config.URL}
	if w.ID > 0 {
		h.ID = strconv.FormatInt(w.ID, 10)
	}
	return h
}

// Subscribing: Gitea has webhooks per repository, for its administrators, and a
// scope that also lets its code be written.
func (Driver) Subscribing() tickets.Subscribing {
	return tickets.Subscribing{Scopes: []string{"write:repository"}, Scheme: "gitea", PerProject: true}
}

const maxHooks = 1000

// Hooks reads all pages: a subscription that is behind the last one that was read
// would be made again.
func (Driver) Hooks(ctx context.Context, a *connector.Access, repo string) ([]tickets.Hook, error) {
	var all []tickets.Hook
	for page := 1; len(all) < maxHooks; page++ {
		list, _, err := connector.Get[[]wireHook](ctx, a, connector.Request{Path: hooksPath(repo),
			Query: url.Values{"limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}})
		if err == nil && list == nil {
			err = connector.Fail(connector.CodeProviderContract, "the list is null")
		}
		if err != nil || len(list) == 0 {
			return all, err
		}
		for _, w := range list {
			all = append(all, w.hook(repo))
		}
	}
	return all, connector.Fail(connector.CodeTooLarge, "the repository has more than %d webhooks", maxHooks)
}

func hooksPath(repo string) string { return strings.TrimSuffix(issues(repo), "/issues") + "/hooks" }

// PlanHook asks for what DecodeEvent reads, as JSON.
func (Driver) PlanHook(_ context.Context, _ *connector.Access, d tickets.HookDraft) (connector.Request, error) {
	body, err := json.Marshal(map[string]any{
		"type": "gitea", "active": true, "events": []string{"issues", "issue_comment", "repository"},
		"config": map[string]string{"url": d.Address, "content_type": "json", "secret": d.SigningKey},
	})
	return connector.Request{Method: http.MethodPost, Path: hooksPath(d.Project), ContentType: "application/json", Body: body,
		Notes: []string{"the repository's administrators see the subscription and its address"}}, err
}

// HookMade reads the 201 answer. It names no repository.
func (Driver) HookMade(r connector.Response) (tickets.Hook, error) {
	w, err := connector.DecodeJSON[wireHook](r)
	return w.hook(""), err
}
