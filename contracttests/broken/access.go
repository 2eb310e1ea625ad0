package broken

import (
	"context"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// access gives somebody what is not theirs, or says what must not be said.
func access() []Connector {
	return []Connector{
		{Name: "declares fewer scopes than it uses", Check: "B1", Subject: func() kit.Subject {
			s := subject(&driver{facts: func(f *tickets.Facts) { f.WriteScopes = f.ReadScopes }})
			s.Connector.Auth.Scopes = append(s.Connector.Auth.Scopes, "tickets:write")
			reading(&s, func(o *connector.Spec) { o.Scopes = []string{"tickets:read", "tickets:write"} }, guarded)
			return s
		}},
		by("B5", "calls a refused credential an outage", func() *driver {
			return &driver{classify: func(_ connector.Request, r connector.Response) *connector.Error {
				if r.Status == 401 {
					return connector.Fail(connector.CodeUnavailable, "")
				}
				return nil
			}}
		}),
		edited("B7", "remembers tickets for everybody, for when the provider has them not", func(s *kit.Subject) {
			var kept sync.Map
			reading(s, nil, func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := guarded(ctx, a, id)
				if old, ok := kept.Load(id); ok && connector.CodeOf(err) == connector.CodeNotFound {
					return old.(tickets.Ticket), nil
				}
				if err == nil {
					kept.Store(id, t)
				}
				return t, err
			})
		}),
		edited("B8", "reads what is outside of the grant", func(s *kit.Subject) { reading(s, nil, honest.Get) }),
		edited("D7", "tells a hidden ticket from an absent one", func(s *kit.Subject) {
			reading(s, nil, func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := honest.Get(ctx, a, id)
				if err == nil && !a.Allowed(t.Project) {
					return tickets.Ticket{}, connector.Fail(connector.CodePermissionDenied, "the ticket is in another project")
				}
				return t, err
			})
		}),
		by("D8", "shows who asked, with the address", func() *driver {
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := honest.Get(ctx, a, id)
				if err != nil {
					return t, err
				}
				wire, _, err := connector.Get[struct {
					Email string `json:"requester_email"`
				}](ctx, a, connector.Request{Path: "/api/v1/tickets/" + id})
				t.Author = tickets.Some(wire.Email)
				return t, err
			}}
		}),
	}
}
