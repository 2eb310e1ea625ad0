package scenarios

import (
	"encoding/json"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

type search struct {
	Query    string  `json:"query"`
	PageSize int     `json:"page_size"`
	Cursor   *string `json:"cursor"`
}

// page runs one search and tells what it found.
func (s *stage) page(q search) (connector.Result, []tickets.Ticket) {
	r := s.call("tickets.search", q)
	var found struct {
		Items []tickets.Ticket `json:"items"`
	}
	s.check(len(r.Data) == 0 || json.Unmarshal(r.Data, &found) == nil, "the data is not a list of tickets")
	for _, t := range found.Items {
		s.say("    %-18s %s", t.ID, operations.Visible(t.Title).Shown)
	}
	return r, found.Items
}

// investigate reads two pages and one ticket. Nothing may change.
func investigate(s *stage) {
	s.say("tickets.search \"customer\", 2 a page")
	first, one := s.page(search{"customer", 2, nil})
	s.expect(first, connector.StatusSuccess, 0)
	if first.NextCursor == nil || len(one) == 0 {
		s.check(false, "the first page has no ticket or no cursor")
		return
	}
	s.say("the next page, by the sealed cursor (%d characters that open for this call only)", len(*first.NextCursor))
	second, two := s.page(search{"customer", 2, first.NextCursor})
	s.expect(second, connector.StatusSuccess, 0)
	s.check(len(two) > 0 && two[0].ID != one[0].ID, "the second page is not a new page")
	one0 := s.call("tickets.get", map[string]string{"id": one[0].ID})
	s.expect(one0, connector.StatusSuccess, 0)
	s.say("tickets.get %s: version %s, fetched %s", one[0].ID, one0.Provenance.ObjectVersions[one[0].ID],
		one0.Provenance.FetchedAt.Format(time.TimeOnly))
}

// approvedCreate proposes, is refused until a person approves, creates once,
// and answers the repeated call with the same receipt.
func approvedCreate(s *stage) {
	s.wantWrites, s.wantMade = 1, 1
	draft := tickets.Draft{Project: "orders", Title: "Checkout times out since the last release",
		Body: "Three customers wrote within an hour. The gateway answers after 31 s.", Severity: "high",
		Labels: []string{"bug"}, Evidence: []string{"007"}}
	s.say("tickets.create in orders: %q", draft.Title)
	asked := s.call("tickets.create", draft)
	s.expect(asked, connector.StatusError, connector.CodeApprovalRequired)
	if asked.Pending == nil {
		s.check(false, "the refusal does not say what would be sent")
		return
	}
	s.say("refused for now: APPROVAL_REQUIRED. This would be sent, and nothing else:")
	s.say("    %s %s", asked.Pending.Method, asked.Pending.Path)
	s.say("    %s", asked.Pending.Body)
	s.say("    digest %s", asked.Pending.Digest)
	if _, err := s.host.Ledger.Approve(s.ctx, s.caller.Tenant, string(asked.Pending.Approval), "maria"); err != nil {
		s.check(false, "approve: %v", connector.CodeOf(err))
		return
	}
	s.say("maria reads it and approves (once, these bytes, half an hour)")
	done := s.call("tickets.create", draft)
	s.expect(done, connector.StatusSuccess, 0)
	if done.Receipt == nil {
		s.check(false, "no receipt")
		return
	}
	s.check(done.Receipt.Proof() == connector.ProofVerified, "the receipt is %s, want verified", done.Receipt.Proof())
	s.say("created: ticket %s, receipt %s (read back and compared), operation %s", done.Receipt.ExternalID(),
		done.Receipt.Proof(), done.Receipt.Operation())
	again := s.call("tickets.create", draft)
	s.expect(again, connector.StatusSuccess, 0)
	s.check(again.Replayed && again.Receipt != nil && again.Receipt.ExternalID() == done.Receipt.ExternalID() &&
		again.Receipt.Operation() == done.Receipt.Operation(), "the repeated call did not answer with the same receipt")
	s.say("the agent calls again: the same receipt, and still one ticket")
}

// lostAnswer loses the provider's answer after the commit. The call must say
// that it does not know; a look-up settles it; nothing is sent twice.
func lostAnswer(s *stage) {
	s.wantWrites, s.wantMade = 1, 1
	if err := s.org.AddRule(sandbox.Rule{
		Match:  sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Times: 1},
		Effect: sandbox.Effect{Kind: "lose_answer_after_commit"},
	}); err != nil {
		s.check(false, "the sandbox does not know the fault: %v", err)
		return
	}
	draft := tickets.Draft{Project: "web", Title: "Basket is empty after sign-in", Body: "Seen on two phones.", Severity: "medium"}
	s.say("tickets.create in web: %q; approved as before", draft.Title)
	asked := s.call("tickets.create", draft)
	s.expect(asked, connector.StatusError, connector.CodeApprovalRequired)
	if asked.Pending == nil {
		return
	}
	if _, err := s.host.Ledger.Approve(s.ctx, s.caller.Tenant, string(asked.Pending.Approval), "maria"); err != nil {
		s.check(false, "approve: %v", connector.CodeOf(err))
		return
	}
	lost := s.call("tickets.create", draft)
	s.expect(lost, connector.StatusUnknown, connector.CodeOutcomeUnknown)
	s.check(lost.Effect.Disposition == connector.DispositionUnknown && lost.Effect.Operation != "", "the effect is not unknown with an operation id")
	s.say("the answer is lost: OUTCOME_UNKNOWN, operation %s. A ticket may exist.", lost.Effect.Operation)
	s.say("Drawbridge does not send it again; it asks the provider what became of it")
	rec, err := s.host.Ledger.Get(s.ctx, s.caller.Tenant, lost.Effect.Operation)
	if err == nil {
		rec, err = s.host.Settle(s.ctx, rec)
	}
	s.check(err == nil && rec.State == connector.StateApplied, "settled to %q (%v), want applied", rec.State, connector.CodeOf(err))
	settled := s.call("tickets.create", draft)
	s.expect(settled, connector.StatusSuccess, 0)
	if settled.Receipt == nil {
		s.check(false, "no receipt after settling")
		return
	}
	s.check(settled.Receipt.How() == "look_up", "the receipt is proven by %q, want look_up", settled.Receipt.How())
	s.say("settled by look-up: applied, ticket %s, receipt %s", settled.Receipt.ExternalID(), settled.Receipt.Proof())
}

// revokedMidway cuts the connection between two pages.
func revokedMidway(s *stage) {
	s.say("tickets.search \"customer\", 2 a page")
	first, _ := s.page(search{"customer", 2, nil})
	s.expect(first, connector.StatusSuccess, 0)
	if first.NextCursor == nil {
		s.check(false, "the first page has no cursor")
		return
	}
	revokedBefore := s.org.OAuthStats().RevocationRequests
	steps, err := s.host.Credentials.Disconnect(s.ctx, s.caller, s.connection.ID, "scenario")
	s.check(err == nil, "disconnect: %v", connector.CodeOf(err))
	s.check(steps.RevokedAtProvider == "yes" && s.org.OAuthStats().RevocationRequests > revokedBefore, "the provider saw no revocation")
	s.say("alice disconnects; the tokens are revoked at the provider: %s", steps.RevokedAtProvider)
	asked := s.org.Hits("GET /api/v1/tickets")
	next := s.call("tickets.search", search{"customer", 2, first.NextCursor})
	s.expect(next, connector.StatusError, connector.CodeConnectionRequired)
	s.say("the next page: CONNECTION_REQUIRED, and no request left")
	s.connect() // a new connection does not bring the old cursor back to life
	dead := s.call("tickets.search", search{"customer", 2, first.NextCursor})
	s.expect(dead, connector.StatusError, connector.CodeCursorInvalid)
	s.check(s.org.Hits("GET /api/v1/tickets") == asked, "a request reached the provider after the disconnect")
	s.say("even after a new sign-in the old cursor is dead: CURSOR_INVALID")
}
