package broken

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// writes do more than was approved, or say something false about what they did.
func writes() []Connector {
	return []Connector{
		{Name: "writes while it plans", Check: "E1", Subject: func() kit.Subject {
			org := &backDoor{Harness: kit.SandboxOrg()}
			s := subject(&driver{plan: func(ctx context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
				if _, err := org.Seed(ctx, kit.Object{Container: d.Project, Title: d.Title}); err != nil {
					return connector.Request{}, err
				}
				return honest.PlanCreate(ctx, a, d)
			}})
			s.Harness = org
			return s
		}},
		by("W0", "does not read the id of what it made", func() *driver {
			return &driver{created: func(r connector.Response) (tickets.Ticket, error) {
				t, err := honest.Created(r)
				t.ID = ""
				return t, err
			}}
		}),
		by("E5", "looks up no write that it has no answer to", func() *driver {
			var answered sync.Map // by operation
			return &driver{
				classify: func(q connector.Request, _ connector.Response) *connector.Error {
					answered.Store(q.OperationID, true)
					return nil
				},
				find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
					if _, ok := answered.Load(id); !ok {
						return tickets.Ticket{}, connector.CannotTell, nil
					}
					return honest.FindCreated(ctx, a, id, d)
				},
			}
		}),
		by("E8", "takes a server error for a write that did not happen", func() *driver {
			var failed sync.Map // by operation
			return &driver{
				classify: func(q connector.Request, r connector.Response) *connector.Error {
					if q.Method == http.MethodPost && r.Status >= 500 {
						failed.Store(q.OperationID, true)
					}
					return nil
				},
				find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
					if _, ok := failed.Load(id); ok {
						return tickets.Ticket{}, connector.FoundNo, nil
					}
					return honest.FindCreated(ctx, a, id, d)
				},
			}
		}),
		by("E7", "assumes that a write went well when nothing is found", func() *driver {
			return &driver{find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
				t, found, err := honest.FindCreated(ctx, a, id, d)
				if err == nil && found == connector.FoundNo {
					return tickets.Ticket{ID: "assumed", Project: d.Project}, connector.FoundYes, nil
				}
				return t, found, err
			}}
		}),
		by("E10", "believes an index that says no", func() *driver {
			return &driver{find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
				return newest(ctx, a, url.Values{"external_ref": {string(id)}, "project": {d.Project}}, connector.FoundNo)
			}}
		}),
		by("E11", "calls a success that it can't read a refusal", func() *driver {
			return &driver{classify: func(q connector.Request, r connector.Response) *connector.Error {
				if _, err := connector.DecodeJSON[map[string]any](r); q.Method == http.MethodPost && r.Status == http.StatusCreated && err != nil {
					e := connector.Fail(connector.CodeProviderContract, "the answer can't be read")
					e.Effect = connector.DispositionNotApplied
					return e
				}
				return nil
			}}
		}),
		by("E12", "plans one thing in two ways", func() *driver {
			return &driver{plan: func(ctx context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
				d.Body += "\nsent as " + rand.Text()
				return honest.PlanCreate(ctx, a, d)
			}}
		}),
		by("E14", "claims an idempotency key that the provider does not know", func() *driver {
			return &driver{facts: func(f *tickets.Facts) { f.Dedupe.Name = "X-Request-Key" }}
		}),
		by("E15", "makes up an id for a success without one", func() *driver {
			return &driver{created: func(r connector.Response) (tickets.Ticket, error) {
				t, err := honest.Created(r)
				if err == nil && t.ID == "" {
					t.ID = "created-" + strconv.FormatInt(r.FetchedAt.UnixNano(), 36)
				}
				return t, err
			}}
		}),
		by("E16", "takes the newest ticket for the one that it looks for", func() *driver {
			return &driver{find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
				t, found, err := newest(ctx, a, url.Values{"project": {d.Project}}, connector.CannotTell)
				if err != nil || t.CreatedAt.Before(a.Dispatched().Truncate(time.Millisecond)) {
					return honest.FindCreated(ctx, a, id, d)
				}
				return t, found, nil
			}}
		}),
		by("E17", "takes a look-up that is not there for an absence", func() *driver {
			return &driver{find: func(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
				t, found, err := honest.FindCreated(ctx, a, id, d)
				if connector.CodeOf(err) == connector.CodeNotFound {
					return tickets.Ticket{}, connector.FoundNo, nil
				}
				return t, found, err
			}}
		}),
		by("E18", "calls a refusal an unknown outcome", func() *driver {
			return &driver{classify: func(q connector.Request, r connector.Response) *connector.Error {
				if q.Method == http.MethodPost && r.Status == http.StatusUnprocessableEntity {
					e := connector.Fail(connector.CodeOutcomeUnknown, "")
					e.Effect = connector.DispositionUnknown
					return e
				}
				return nil
			}}
		}),
	}
}

// newest is the first ticket of a list, or what its absence is taken for.
func newest(ctx context.Context, a *connector.Access, query url.Values, none connector.Found) (tickets.Ticket, connector.Found, error) {
	query.Set("state", "all")
	r, err := a.Get(ctx, connector.Request{Path: "/api/v1/tickets", Query: query})
	if err != nil {
		return tickets.Ticket{}, connector.CannotTell, err
	}
	list, err := decoded(r)
	if err != nil || len(list.Items) == 0 {
		return tickets.Ticket{}, none, err
	}
	return list.Items[0], connector.FoundYes, nil
}

// backDoor keeps the provider of a run within reach of the connector.
type backDoor struct {
	kit.Harness
	kit.Provider
}

// Start starts the provider and remembers it.
func (b *backDoor) Start(ctx context.Context, dir string, seed int64) (kit.Provider, error) {
	var err error
	b.Provider, err = b.Harness.Start(ctx, dir, seed)
	return b.Provider, err
}
