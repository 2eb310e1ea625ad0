package console

import (
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/operations"
)

// needs is what waits for this person.
type needs struct {
	Approvals  []operations.Card
	Reconnect  []credentials.View
	Unresolved []operations.Line
	Connected  int // connections that work
}

func (n needs) Nothing() bool { return len(n.Approvals)+len(n.Reconnect)+len(n.Unresolved) == 0 }

func (c *Console) home(w http.ResponseWriter, r *http.Request, s *session) {
	ctx := r.Context()
	var n needs
	views, err := c.cfg.Credentials.List(ctx, s.caller)
	for _, v := range views {
		switch {
		case v.Status == credentials.StatusReconnectRequired:
			n.Reconnect = append(n.Reconnect, v)
		case v.Status.Usable():
			n.Connected++
		}
	}
	own := operations.Filter{Principal: s.caller.Principal}
	if err == nil {
		n.Approvals, err = c.cfg.Ledger.Approvals(ctx, s.caller.Tenant, own, operations.ApprovalPending)
	}
	if err == nil {
		n.Unresolved, err = c.cfg.Ledger.Operations(ctx, s.caller.Tenant, own, connector.StateUnknown, connector.StateUnresolved)
	}
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "home", page{Title: "What needs you", Command: "drawbridge approvals"}, n)
}
