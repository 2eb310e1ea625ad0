package broken

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// A Connector is a broken one.
type Connector struct {
	Name  string // what is wrong, in words
	Check string // the one check of the kit that must fail
	// Subject makes a new one; state of the connector is not shared.
	Subject func() kit.Subject
	// Done ends what the connector left behind. Nil: nothing.
	Done func()
}

// Connectors are all of them.
func Connectors() []Connector {
	return slices.Concat(definitions(), reads(), access(), wire(), writes(), parts(), hygiene())
}

type (
	searching func(context.Context, *connector.Access, tickets.Query, connector.Position) (connector.Page[tickets.Ticket], error)
	getting   func(context.Context, *connector.Access, string) (tickets.Ticket, error)
	planning  func(context.Context, *connector.Access, tickets.Draft) (connector.Request, error)
	finding   func(context.Context, *connector.Access, connector.OperationID, tickets.Draft) (tickets.Ticket, connector.Found, error)
)

// driver is the honest driver with some of its functions replaced.
type driver struct {
	sandboxorg.Driver
	facts    func(*tickets.Facts)
	search   searching
	get      getting
	plan     planning
	created  func(connector.Response) (tickets.Ticket, error)
	find     finding
	classify func(connector.Request, connector.Response) *connector.Error
}

var honest sandboxorg.Driver

// Facts have a short settle time: the sandbox is one process with one clock.
func (d *driver) Facts() tickets.Facts {
	f := honest.Facts()
	f.Settle = 200 * time.Millisecond
	if d.facts != nil {
		d.facts(&f)
	}
	return f
}

func (d *driver) Search(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (connector.Page[tickets.Ticket], error) {
	if d.search != nil {
		return d.search(ctx, a, q, p)
	}
	return honest.Search(ctx, a, q, p)
}

func (d *driver) Get(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
	if d.get != nil {
		return d.get(ctx, a, id)
	}
	return honest.Get(ctx, a, id)
}

func (d *driver) PlanCreate(ctx context.Context, a *connector.Access, draft tickets.Draft) (connector.Request, error) {
	if d.plan != nil {
		return d.plan(ctx, a, draft)
	}
	return honest.PlanCreate(ctx, a, draft)
}

func (d *driver) Created(r connector.Response) (tickets.Ticket, error) {
	if d.created != nil {
		return d.created(r)
	}
	return honest.Created(r)
}

func (d *driver) FindCreated(ctx context.Context, a *connector.Access, id connector.OperationID, draft tickets.Draft) (tickets.Ticket, connector.Found, error) {
	if d.find != nil {
		return d.find(ctx, a, id, draft)
	}
	return honest.FindCreated(ctx, a, id, draft)
}

func (d *driver) Classify(q connector.Request, r connector.Response) *connector.Error {
	if d.classify != nil {
		if e := d.classify(q, r); e != nil {
			return e
		}
	}
	return honest.Classify(q, r)
}

func subject(d *driver) kit.Subject {
	c := tickets.New(d)
	c.Provider = "sandbox"
	return kit.Tickets(c, kit.SandboxOrg())
}

// by is a broken driver behind the three ticket tools. It is made anew for each
// subject.
func by(check, name string, broken func() *driver) Connector {
	return Connector{Name: name, Check: check, Subject: func() kit.Subject { return subject(broken()) }}
}

// edited is the honest connector with its value changed.
func edited(check, name string, edit func(*kit.Subject)) Connector {
	return Connector{Name: name, Check: check, Subject: func() kit.Subject {
		s := subject(&driver{})
		edit(&s)
		return s
	}}
}

type byID struct {
	ID     string `json:"id"`
	MaxAge int    `json:"max_age_seconds,omitempty"` // how old a stored copy may be; these keep none
}

// reading puts another tickets.get in the place of the honest one.
func reading(s *kit.Subject, edit func(*connector.Spec), get getting) {
	spec := s.Connector.Operations[1].Spec()
	if edit != nil {
		edit(&spec)
	}
	s.Connector.Operations[1] = connector.Read(spec, func(ctx context.Context, a *connector.Access, in byID) (tickets.Ticket, error) {
		t, err := get(ctx, a, in.ID)
		if t.Labels == nil {
			t.Labels = []string{}
		}
		if t.Evidence == nil {
			t.Evidence = []string{}
		}
		return t, err
	})
}

// guarded is what an honest tickets.get does: outside the grant is not there.
func guarded(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
	t, err := honest.Get(ctx, a, id)
	if err == nil && !a.Allowed(t.Project) {
		return tickets.Ticket{}, connector.Fail(connector.CodeNotFound, "")
	}
	return t, err
}
