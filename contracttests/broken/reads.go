package broken

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

type page = connector.Page[tickets.Ticket]

// wireList is as much of a list as some of the broken ones read by themselves.
type wireList struct {
	Items []struct {
		ID      string `json:"id"`
		Project struct {
			ID string `json:"id"`
		} `json:"project"`
		Title     string    `json:"title"`
		State     string    `json:"state"`
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
		UpdatedAt time.Time `json:"updated_at"`
	} `json:"items"`
	Next  *string `json:"next_cursor"`
	Total *int    `json:"total"`
}

func decoded(r connector.Response) (page, error) {
	list, err := connector.DecodeJSON[wireList](r)
	if err == nil && list.Items == nil {
		err = connector.Fail(connector.CodeProviderContract, "the list has no items")
	}
	if err != nil {
		return page{}, err
	}
	out := page{Total: list.Total}
	for _, w := range list.Items {
		out.Items = append(out.Items, tickets.Ticket{ID: w.ID, Project: w.Project.ID, Title: w.Title, State: w.State, Status: w.Status,
			CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt})
	}
	if list.Next != nil {
		out.Next = *list.Next
	}
	return out, nil
}

// reads say something false about what was found.
func reads() []Connector {
	return []Connector{
		by("D0", "ignores the page size", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				p.PageSize = 50
				return honest.Search(ctx, a, q, p)
			}}
		}),
		by("D0", "gives the same next page for ever", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				p.Cursor = ""
				out, err := honest.Search(ctx, a, q, p)
				if out.Next != "" {
					out.Next = "2"
				}
				return out, err
			}}
		}),
		by("D0", "loses the last item of a full page", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				out, err := honest.Search(ctx, a, q, p)
				if len(out.Items) > 1 && len(out.Items) == p.PageSize {
					out.Items = out.Items[:len(out.Items)-1]
				}
				return out, err
			}}
		}),
		by("R0", "leaves the text out of what it reads", func() *driver {
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := honest.Get(ctx, a, id)
				t.Title, t.Body = "", ""
				return t, err
			}}
		}),
		edited("A5", "promises a text that tickets need not have", func(s *kit.Subject) {
			reading(s, func(o *connector.Spec) {
				o.Output = bytes.Replace(o.Output, []byte("\"body\": {\n      \"type\": \"string\""), []byte("\"body\": {\n      \"minLength\": 1, \"type\": \"string\""), 1)
			}, guarded)
		}),
		by("D5", "calls nothing found an error", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				out, err := honest.Search(ctx, a, q, p)
				if err == nil && len(out.Items) == 0 {
					err = connector.Fail(connector.CodeNotFound, "")
				}
				return out, err
			}}
		}),
		by("D1", "takes a failure for an empty list", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				out, err := honest.Search(ctx, a, q, p)
				if connector.CodeOf(err) == connector.CodePermissionDenied && p.Cursor == "" {
					return page{}, nil
				}
				return out, err
			}}
		}),
		by("D2", "hides that a later page is missing", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				out, err := honest.Search(ctx, a, q, p)
				if err != nil && p.Cursor != "" {
					return page{}, nil
				}
				return out, err
			}}
		}),
		by("D3", "counts pages, so that a provider that stands still is walked for ever", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				n, theirs, _ := strings.Cut(p.Cursor, " ")
				p.Cursor = theirs
				out, err := honest.Search(ctx, a, q, p)
				if out.Next != "" {
					count, _ := strconv.Atoi(n) // the first page has none
					out.Next = strconv.Itoa(count+1) + " " + out.Next
				}
				return out, err
			}}
		}),
		by("D6", "takes any document for an empty list", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				out, err := honest.Search(ctx, a, q, p)
				if e := connector.AsError(err); err != nil && e.Message == "the list has no items" {
					return page{}, nil
				}
				return out, err
			}}
		}),
		by("D9", "refuses fields that it does not know", func() *driver {
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				query := url.Values{"q": {q.Text}, "project": q.Projects, "state": {q.State}, "limit": {strconv.Itoa(p.PageSize)}}
				if p.Cursor != "" {
					query.Set("cursor", p.Cursor)
				}
				r, err := a.Get(ctx, connector.Request{Path: "/api/v1/tickets", Query: query})
				if err != nil {
					return page{}, err
				}
				names, err := connector.DecodeJSON[map[string]any](r)
				if err != nil {
					return page{}, err
				}
				for name := range names {
					if name != "items" && name != "next_cursor" && name != "total" {
						return page{}, connector.Fail(connector.CodeProviderContract, "a field that is not in the contract")
					}
				}
				return decoded(r)
			}}
		}),
	}
}
