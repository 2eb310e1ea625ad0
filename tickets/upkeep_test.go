package tickets_test

import (
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// A renewal is a write: approved, sent once, and settled by the later end when its
// answer was lost.
// Guarantee: TIX5
func TestRenewal(t *testing.T) {
	t.Parallel()
	p := subscriber(t)
	life := sandbox.WebhookFaults{LifeSeconds: 30 * 24 * 3600}
	must(t, p.org.SetBehaviour(sandbox.Behaviour{Webhooks: life}))
	draft := tickets.HookDraft{Address: "http://127.0.0.1:1/webhooks/a"}
	p.approvedHook(draft)
	made, _ := p.subscribe(draft)
	if made.ExpiresAt == nil {
		t.Fatal("it has no end")
	}
	renew := func(want connector.Status, code connector.Code, d connector.Disposition) (tickets.Hook, connector.Result) {
		t.Helper()
		listed := p.hooks()[0]
		h, r := tickets.RenewHook(t.Context(), p.runtime, p.caller, "renew once", tickets.Renewal{ID: made.ID, ExpiresAt: *made.ExpiresAt})
		p.expect("renewal", r, want, code, d)
		if !p.hooks()[0].ExpiresAt.Equal(*listed.ExpiresAt) && d == connector.DispositionNone {
			t.Error("the end moved without an approval")
		}
		return h, r
	}
	_, r := renew(connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	_, err := p.host.Ledger.Approve(t.Context(), p.caller.Tenant, string(r.Pending.Approval), "maria")
	must(t, err)
	lose := sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/webhooks/"}, Effect: sandbox.Effect{Kind: "status", When: "after", Status: 500}}
	must(t, p.org.SetBehaviour(sandbox.Behaviour{Webhooks: life, Rules: []sandbox.Rule{lose}}))
	_, r = renew(connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
	must(t, p.org.SetBehaviour(sandbox.Behaviour{Webhooks: life}))
	if rec := p.settle(r.Effect.Operation); rec.State != connector.StateApplied {
		t.Errorf("settled as %s (%s)", rec.State, rec.Reason)
	}
	h, r := renew(connector.StatusSuccess, 0, connector.DispositionApplied)
	if !r.Replayed || h.ID != made.ID || !h.ExpiresAt.After(*made.ExpiresAt) || h.SigningKey != "" {
		t.Errorf("renewed: %+v, replayed %v", h, r.Replayed)
	}
}

func TestFailedDeliveries(t *testing.T) {
	t.Parallel()
	p := subscriber(t)
	must(t, p.org.SetBehaviour(sandbox.Behaviour{Webhooks: sandbox.WebhookFaults{Tries: 1}}))
	draft := tickets.HookDraft{Address: "http://127.0.0.1:1/webhooks/nobody"}
	p.approvedHook(draft)
	made, _ := p.subscribe(draft)
	read := func(after string) tickets.Failures {
		t.Helper()
		page, err := tickets.ListFailures(t.Context(), p.runtime, p.caller, "", made.ID, after)
		must(t, err)
		return page
	}
	if page := read(""); len(page.Deliveries) != 0 || page.After != "" || page.More {
		t.Errorf("at first: %+v", page)
	}
	ticket, err := p.org.AddTicket(sandbox.Seed{Project: new("web")})
	must(t, err)
	for p.org.Deliveries()[0].State != "failed" {
		time.Sleep(time.Millisecond)
	}
	page := read("")
	if len(page.Deliveries) != 1 || page.After == "" {
		t.Fatalf("failed: %+v", page)
	}
	d := page.Deliveries[0]
	changed, _, err := tickets.Decode(sandboxorg.Driver{}, p.connection, d.EventType, []byte(d.Payload))
	if err != nil || len(changed) != 1 || changed[0].ID != ticket.ID || d.ID != p.org.Deliveries()[0].ID {
		t.Errorf("it names %+v, %v", changed, err)
	}
	if rest := read(page.After); len(rest.Deliveries) != 0 || rest.After != page.After {
		t.Errorf("after it: %+v", rest)
	}
	if _, err := tickets.ListFailures(t.Context(), p.runtime, p.caller, "", "hook_of_nobody", ""); connector.CodeOf(err) != connector.CodeNotFound {
		t.Errorf("another hook: %v", err)
	}
}

// Only what a provider has is offered.
func TestUpkeepOfProviders(t *testing.T) {
	t.Parallel()
	for d, want := range map[tickets.Driver]int{sandboxorg.Driver{}: 4, gitea.Driver{}: 2} {
		c, _ := tickets.NewHooks(d)
		if err := connector.Lint(c); err != nil || len(c.Operations) != want {
			t.Errorf("%s: %d operations, %v", d.Facts().Provider, len(c.Operations), err)
		}
	}
}
