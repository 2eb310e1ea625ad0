package console

import (
	"context"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (c *Console) approvals(w http.ResponseWriter, r *http.Request, s *session) {
	states := []operations.ApprovalState{operations.ApprovalPending, operations.ApprovalApproved}
	all := r.URL.Query().Get("show") == "all"
	command := "drawbridge approvals"
	if all {
		states, command = nil, command+" --all"
	}
	cards, err := c.cfg.Ledger.Approvals(r.Context(), s.caller.Tenant, operations.Filter{Principal: s.caller.Principal}, states...)
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "approvals", page{Title: "Approvals", Command: command}, map[string]any{"Cards": cards, "All": all})
}

// ownCard reads an approval of a write in the person's own name, or answers. The
// ledger takes beginnings of ids, too; here an id is whole, so that nobody learns
// how others' begin.
func (c *Console) ownCard(w http.ResponseWriter, r *http.Request, s *session) (operations.Card, bool) {
	id := r.PathValue("id")
	card, err := c.cfg.Ledger.Approval(r.Context(), s.caller.Tenant, id)
	if hidden(err) || err == nil && (card.Proposer != s.caller.Principal || string(card.ID) != id) {
		c.notFound(w, r, s)
		return card, false
	}
	if err != nil {
		c.fail(w, r, s, err)
		return card, false
	}
	return card, true
}

// hidden is how the ledger says that an id does not name one thing of this tenant.
func hidden(err error) bool {
	code := connector.CodeOf(err)
	return code == connector.CodeNotFound || code == connector.CodeInvalidInput
}

func (c *Console) approval(w http.ResponseWriter, r *http.Request, s *session) {
	if card, ok := c.ownCard(w, r, s); ok {
		title := "Approve or deny?"
		if card.State != operations.ApprovalPending {
			title = "Approval: " + string(card.State) // a screen reader says it first
		}
		c.render(w, r, s, http.StatusOK, "card", page{Title: title, Command: "drawbridge approvals show " + string(card.ID)}, card)
	}
}

func (c *Console) approve(w http.ResponseWriter, r *http.Request, s *session) {
	c.decide(w, r, s, func(ctx context.Context, id string) (operations.Card, error) {
		return c.cfg.Ledger.Approve(ctx, s.caller.Tenant, id, string(s.caller.Principal))
	})
}

func (c *Console) deny(w http.ResponseWriter, r *http.Request, s *session) {
	c.decide(w, r, s, func(ctx context.Context, id string) (operations.Card, error) {
		return c.cfg.Ledger.Deny(ctx, s.caller.Tenant, id, string(s.caller.Principal), r.PostForm.Get("reason"))
	})
}

func (c *Console) withdraw(w http.ResponseWriter, r *http.Request, s *session) {
	c.decide(w, r, s, func(ctx context.Context, id string) (operations.Card, error) {
		return c.cfg.Ledger.Withdraw(ctx, s.caller.Tenant, id, string(s.caller.Principal), r.PostForm.Get("reason"))
	})
}

// decide runs a decision about a card the person may see, and shows the card again.
func (c *Console) decide(w http.ResponseWriter, r *http.Request, s *session, f func(context.Context, string) (operations.Card, error)) {
	card, ok := c.ownCard(w, r, s)
	if !ok {
		return
	}
	after, err := f(r.Context(), string(card.ID))
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.log.InfoContext(r.Context(), "approval decided", "tenant", s.caller.Tenant, "approval", card.ID, "state", after.State)
	http.Redirect(w, r, "/approvals/"+string(card.ID), http.StatusSeeOther)
}
