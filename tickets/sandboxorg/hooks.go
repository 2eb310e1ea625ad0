package sandboxorg

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

type wireHook struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Secret string `json:"secret"`
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
		all = append(all, tickets.Hook{ID: w.ID, Address: w.URL})
	}
	return all, err
}

// PlanHook asks for all events that there are.
func (Driver) PlanHook(_ context.Context, _ *connector.Access, d tickets.HookDraft) (connector.Request, error) {
	body, err := json.Marshal(map[string]string{"url": d.Address})
	return connector.Request{Method: http.MethodPost, Path: "/api/v1/webhooks", ContentType: "application/json", Body: body}, err
}

// HookMade reads the 201 answer, the only one with the key.
func (Driver) HookMade(r connector.Response) (tickets.Hook, error) {
	w, err := connector.DecodeJSON[wireHook](r)
	return tickets.Hook{ID: w.ID, Address: w.URL, SigningKey: w.Secret}, err
}
