package sandboxorg

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// DecodeEvent reads a delivery of the organisation. The type is in the body,
// where the signature covers it; a header has no say.
func (Driver) DecodeEvent(_ string, payload []byte) ([]tickets.Changed, error) {
	type object struct {
		ID string `json:"id"`
	}
	e, err := connector.DecodeJSON[struct {
		Type string `json:"type"`
		Data struct {
			Ticket *struct {
				ID      string `json:"id"`
				Project object `json:"project"`
			} `json:"ticket"`
			Project *object `json:"project"`
		} `json:"data"`
	}](connector.Response{Body: payload})
	if err != nil {
		return nil, tickets.ErrEvent
	}
	resource, action, _ := strings.Cut(e.Type, ".")
	switch {
	case resource == "ticket" && e.Data.Ticket != nil:
		return []tickets.Changed{{ID: e.Data.Ticket.ID, Project: e.Data.Ticket.Project.ID, Removes: action == "deleted"}}, nil
	case resource == "project" && e.Data.Project != nil:
		// Whose access changed and to what is not believed, it is read anew. Until
		// then nobody has it.
		return []tickets.Changed{{Project: e.Data.Project.ID, Removes: true}}, nil
	case resource == "ticket", resource == "project", e.Type == "":
		return nil, tickets.ErrEvent
	}
	return nil, nil
}

// Sweep lists by creation, an order that no change disturbs.
func (Driver) Sweep(ctx context.Context, a *connector.Access, q tickets.SweepQuery) (tickets.Inventory, error) {
	query := url.Values{"project": q.Projects, "state": {"all"}, "type": {"ticket"}, "archived": {"include"}, "limit": {"100"}}
	if q.Cursor != "" {
		query.Set("cursor", q.Cursor)
	}
	if !q.Since.IsZero() {
		query.Set("updated_since", q.Since.UTC().Format(time.RFC3339))
	}
	var page tickets.Inventory
	list, resp, err := connector.Get[struct {
		Items      []wireTicket `json:"items"`
		NextCursor *string      `json:"next_cursor"`
	}](ctx, a, connector.Request{Path: "/api/v1/tickets", Query: query})
	if err == nil && list.Items == nil {
		err = connector.Fail(connector.CodeProviderContract, "the list has no items")
	}
	if err != nil {
		return page, err
	}
	for _, w := range list.Items {
		if w.Type == "ticket" {
			t := w.ticket()
			page.Entries = append(page.Entries, tickets.Entry{ID: t.ID, Project: t.Project, Version: t.Version})
		}
	}
	if list.NextCursor != nil {
		page.Next = *list.NextCursor
	}
	page.Clock, _ = http.ParseTime(resp.Header.Get("Date"))
	return page, nil
}
