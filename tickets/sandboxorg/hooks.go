package sandboxorg

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

type wireHook struct {
	ID      string     `json:"id"`
	URL     string     `json:"url"`
	Secret  string     `json:"secret"`
	Expires *time.Time `json:"expires_at"`
}

func (w wireHook) hook() tickets.Hook {
	return tickets.Hook{ID: w.ID, Address: w.URL, SigningKey: w.Secret, ExpiresAt: w.Expires}
}

// Subscribing: the organisation makes the key and covers all of the account's
// projects.
func (Driver) Subscribing() tickets.Subscribing {
	return tickets.Subscribing{Scopes: []string{"webhooks:manage"}, Scheme: "standard", MakesKey: true}
}

// Hooks lists the account's subscriptions; there are no pages.
func (Driver) Hooks(ctx context.Context, a *connector.Access, _ string) ([]tickets.Hook, error) {
	list, _, err := connector.Get[struct {
		Items []wireHook `json:"items"`
	}](ctx, a, connector.Request{Path: "/api/v1/webhooks"})
	if err == nil && list.Items == nil {
		err = connector.Fail(connector.CodeProviderContract, "the list has no items")
	}
	var all []tickets.Hook
	for _, w := range list.Items {
		all = append(all, w.hook())
	}
	return all, err
}

// PlanHook asks for all events that there are.
func (Driver) PlanHook(_ context.Context, _ *connector.Access, d tickets.HookDraft) (connector.Request, error) {
	body, err := json.Marshal(map[string]string{"url": d.Address})
	return connector.Request{Method: http.MethodPost, Path: "/api/v1/webhooks", ContentType: "application/json", Body: body}, err
}

// HookMade reads the 201 answer, the only one with the key, and that to a renewal.
func (Driver) HookMade(r connector.Response) (tickets.Hook, error) {
	w, err := connector.DecodeJSON[wireHook](r)
	return w.hook(), err
}

// PlanRenewal asks for a life as long as that of a new subscription.
func (Driver) PlanRenewal(_ context.Context, _ *connector.Access, _, id string) (connector.Request, error) {
	return connector.Request{Method: http.MethodPost, Path: hookPath(id) + "/renew", ContentType: "application/json", Body: []byte("{}")}, nil
}

func hookPath(id string) string { return "/api/v1/webhooks/" + url.PathEscape(id) }

// FailedDeliveries reads them in the order in which they were given up.
func (Driver) FailedDeliveries(ctx context.Context, a *connector.Access, _, id, after string) (tickets.Failures, error) {
	list, _, err := connector.Get[struct {
		Items []struct {
			Seq     int    `json:"seq"`
			ID      string `json:"id"`
			Type    string `json:"type"`
			Payload string `json:"payload"`
		} `json:"items"`
		More bool `json:"more"`
	}](ctx, a, connector.Request{Path: hookPath(id) + "/failed", Query: url.Values{"after": {after}}})
	if err == nil && list.Items == nil {
		err = connector.Fail(connector.CodeProviderContract, "the list has no items")
	}
	page := tickets.Failures{After: after, More: list.More}
	for _, w := range list.Items {
		page.Deliveries = append(page.Deliveries, tickets.FailedDelivery{ID: w.ID, EventType: w.Type, Payload: w.Payload})
		page.After = strconv.Itoa(w.Seq)
	}
	return page, err
}
