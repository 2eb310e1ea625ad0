package broken

import (
	"context"
	texts "html"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// hygiene leaves something behind, or lets text be more than text.
func hygiene() []Connector {
	forever := make(chan struct{})
	return []Connector{
		{Name: "leaves work behind that nobody ends", Check: "G2", Done: func() { close(forever) }, Subject: func() kit.Subject {
			return subject(&driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				go func() { <-forever }()
				return honest.Get(ctx, a, id)
			}})
		}},
		by("G4", "keeps the page size of whoever came last", func() *driver {
			var size atomic.Int64
			return &driver{search: func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
				if p.Cursor == "" {
					size.Store(int64(p.PageSize))
				}
				p.PageSize = int(size.Load())
				return honest.Search(ctx, a, q, p)
			}}
		}),
		by("G5", "shows what it read before", func() *driver {
			type key struct {
				connection connector.ConnectionID
				ticket     string
			}
			var kept sync.Map
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				k := key{a.Connection().ID, id}
				if old, ok := kept.Load(k); ok {
					return old.(tickets.Ticket), nil
				}
				t, err := honest.Get(ctx, a, id)
				if err == nil {
					kept.Store(k, t)
				}
				return t, err
			}}
		}),
		by("G6", "puts a ticket's text where the framework speaks", func() *driver {
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := honest.Get(ctx, a, id)
				t.Version = t.Title
				return t, err
			}}
		}),
		by("G7", "escapes what a person approved", func() *driver {
			return &driver{plan: func(ctx context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
				d.Title = texts.EscapeString(d.Title)
				return honest.PlanCreate(ctx, a, d)
			}}
		}),
		by("G8", "falls over a ticket without an id", func() *driver {
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				t, err := honest.Get(ctx, a, id)
				if connector.CodeOf(err) == connector.CodeProviderContract && t.ID == "" {
					panic("a ticket has an id")
				}
				return t, err
			}}
		}),
	}
}
