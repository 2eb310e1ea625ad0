package console

import (
	"encoding/json"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (c *Console) operations(w http.ResponseWriter, r *http.Request, s *session) {
	lines, err := c.cfg.Ledger.Operations(r.Context(), s.caller.Tenant, operations.Filter{Principal: s.caller.Principal})
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "operations", page{Title: "Operations", Command: "drawbridge operations"}, lines)
}

// receipt is what the ledger keeps of what was proven.
type receipt struct {
	Proof       connector.Proof    `json:"proof"`
	How         string             `json:"how"`
	ExternalID  string             `json:"external_id"`
	Differences []connector.Change `json:"differences"`
}

func (c *Console) ownOperation(w http.ResponseWriter, r *http.Request, s *session) (operations.Detail, bool) {
	id := r.PathValue("id")
	d, err := c.cfg.Ledger.Operation(r.Context(), s.caller.Tenant, id)
	if hidden(err) || err == nil && (d.Principal != s.caller.Principal || string(d.ID) != id) {
		c.notFound(w, r, s)
		return d, false
	}
	if err != nil {
		c.fail(w, r, s, err)
		return d, false
	}
	return d, true
}

func (c *Console) operation(w http.ResponseWriter, r *http.Request, s *session) {
	d, ok := c.ownOperation(w, r, s)
	if !ok {
		return
	}
	var proven *receipt
	if len(d.Record.Receipt) > 0 {
		if err := json.Unmarshal(d.Record.Receipt, &proven); err != nil {
			c.fail(w, r, s, err)
			return
		}
	}
	c.render(w, r, s, http.StatusOK, "operation", page{Title: "Operation", Command: "drawbridge operations show " + string(d.ID)}, map[string]any{
		"Detail": d, "Receipt": proven,
		"Open": d.State == connector.StateUnknown || d.State == connector.StateUnresolved,
		"Look": d.State == connector.StateUnknown && c.cfg.LookUp != nil,
	})
}

// look asks the provider once. What it finds, or that it found nothing yet, is on
// the operation's page.
func (c *Console) look(w http.ResponseWriter, r *http.Request, s *session) {
	d, ok := c.ownOperation(w, r, s)
	if !ok {
		return
	}
	if c.cfg.LookUp == nil {
		c.notFound(w, r, s)
		return
	}
	_, err := c.cfg.LookUp(r.Context(), d.Record)
	// CONFLICT and OUTCOME_UNKNOWN: another process looks, or it is over.
	if code := connector.CodeOf(err); err != nil && code != connector.CodeConflict && code != connector.CodeOutcomeUnknown {
		c.fail(w, r, s, err)
		return
	}
	http.Redirect(w, r, "/operations/"+string(d.ID), http.StatusSeeOther)
}

func (c *Console) settle(w http.ResponseWriter, r *http.Request, s *session) {
	d, ok := c.ownOperation(w, r, s)
	if !ok {
		return
	}
	verdict := operations.Verdict{State: connector.OperationState(r.PostForm.Get("state")), By: string(s.caller.Principal),
		Reason: r.PostForm.Get("reason"), ExternalID: r.PostForm.Get("external_id")}
	if _, err := c.cfg.Ledger.Settle(r.Context(), s.caller.Tenant, string(d.ID), verdict); err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.log.InfoContext(r.Context(), "operation settled by hand", "tenant", s.caller.Tenant, "operation", d.ID, "state", verdict.State)
	http.Redirect(w, r, "/operations/"+string(d.ID), http.StatusSeeOther)
}
