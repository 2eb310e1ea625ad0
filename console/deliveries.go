package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Deliveries is what the pages do with events that providers sent. Which ones a
// caller may see is the implementation's to decide; one that they may not see and
// one that is not there are both NOT_FOUND.
type Deliveries interface {
	Deliveries(context.Context, connector.Caller) ([]Delivery, error) // newest first
	Delivery(ctx context.Context, caller connector.Caller, id string) (Delivery, error)
	// Replay handles a delivery again.
	Replay(ctx context.Context, caller connector.Caller, id string) error
	// Unpark lets the lane of a parked delivery go on.
	Unpark(ctx context.Context, caller connector.Caller, id string) error

	// Coverage is of each connection that something is stored of.
	Coverage(context.Context, connector.Caller) ([]Coverage, error)
	// Accept lets the next sweep of a connection remove what it does not find,
	// after one has stopped at how much that was.
	Accept(ctx context.Context, caller connector.Caller, connection connector.ConnectionID) error
}

// A Delivery is one event that a provider sent. Texts may be foreign.
type Delivery struct {
	ID         string // safe in a path: letters, digits, - and _
	Provider   string
	Kind       string
	Resource   string // what it is about
	State      string // received, done, parked, dead, as the inbox calls it
	Problem    string // why it is not done; empty: nothing
	Attempts   int
	ReceivedAt time.Time
	NextAt     time.Time // zero: not planned
	Parked     bool      // Unpark has an effect
	Fetched    bool      // from the provider's list of failures: nobody signed it
}

func (c *Console) deliveries(w http.ResponseWriter, r *http.Request, s *session) {
	if c.cfg.Deliveries == nil {
		c.notFound(w, r, s)
		return
	}
	all, err := c.cfg.Deliveries.Deliveries(r.Context(), s.caller)
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	coverage, err := c.cfg.Deliveries.Coverage(r.Context(), s.caller)
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "deliveries", page{Title: "Deliveries", Command: "drawbridge deliveries"}, map[string]any{"Deliveries": all, "Coverage": coverage})
}

func (c *Console) delivery(w http.ResponseWriter, r *http.Request, s *session) {
	if c.cfg.Deliveries == nil {
		c.notFound(w, r, s)
		return
	}
	d, err := c.cfg.Deliveries.Delivery(r.Context(), s.caller, r.PathValue("id"))
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "delivery", page{Title: "Delivery", Command: "drawbridge deliveries show " + d.ID}, d)
}

func (c *Console) replay(w http.ResponseWriter, r *http.Request, s *session) {
	c.moveDelivery(w, r, s, Deliveries.Replay)
}

func (c *Console) unpark(w http.ResponseWriter, r *http.Request, s *session) {
	c.moveDelivery(w, r, s, Deliveries.Unpark)
}

func (c *Console) moveDelivery(w http.ResponseWriter, r *http.Request, s *session, move func(Deliveries, context.Context, connector.Caller, string) error) {
	if c.cfg.Deliveries == nil {
		c.notFound(w, r, s)
		return
	}
	id := r.PathValue("id")
	if err := move(c.cfg.Deliveries, r.Context(), s.caller, id); err != nil {
		c.fail(w, r, s, err)
		return
	}
	http.Redirect(w, r, "/deliveries/"+url.PathEscape(id), http.StatusSeeOther)
}
