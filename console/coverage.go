package console

import (
	"net/http"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Coverage is how far what is stored of a connection can be relied on.
type Coverage struct {
	Connection connector.ConnectionID
	Provider   string
	Account    connector.Account
	State      string   // complete, partial, unknown, forgetting or forgotten
	Reasons    []string // of partial
	Drift      int64    // changes that no event had announced
	SweptAt    time.Time
	// Vanished: a sweep stopped because it did not find much of what is stored.
	// Accept has an effect.
	Vanished bool
}

// accept lets a sweep go on. The form says what that means.
func (c *Console) accept(w http.ResponseWriter, r *http.Request, s *session) {
	if c.cfg.Deliveries == nil {
		c.notFound(w, r, s)
		return
	}
	id := connector.ConnectionID(r.PathValue("id"))
	if err := c.cfg.Deliveries.Accept(r.Context(), s.caller, id); err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.log.InfoContext(r.Context(), "a sweep that stopped is accepted", "tenant", s.caller.Tenant, "connection", id)
	http.Redirect(w, r, "/deliveries", http.StatusSeeOther)
}
