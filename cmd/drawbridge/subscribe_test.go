package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

// subscriber connects two accounts: alice's reads tickets, bob's may subscribe.
func (c *cli) subscriber(org *sandbox.Server) (reads, subscribes string) {
	c.t.Helper()
	if err := host.SaveInstance(c.data, host.Instance{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()),
		MoreScopes: []string{"webhooks:manage"}}); err != nil {
		c.t.Fatal(err)
	}
	connect := func(login string, scopes ...string) string {
		args := []string{"connect", "--provider", "sandbox", "--login", login + ":" + password(c.t, org, login)}
		return text(c.json(0, append(args, scopes...)...), "connection_id")
	}
	return connect("alice"), connect("bob", "--scope", "webhooks:manage,profile:read,tickets:read,offline_access")
}

// decoded waits for a delivery that was decoded, and returns it.
func (c *cli) decoded(where string, holds func(map[string]any) bool) map[string]any {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		for line := range strings.Lines(c.run("deliveries", "--json").out) {
			var r map[string]any
			if json.Unmarshal([]byte(line), &r) == nil && r["state"] == "decoded" && holds(r) {
				return r
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %s", where, c.run("deliveries").out)
		}
	}
}

// Guarantee: TIX4, TIX5, HOO1, HOO4
func TestSubscribeByACommand(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	reads, subscribes := c.subscriber(org)
	s := c.serve()
	command := []string{"endpoints", "subscribe", reads, "--with", subscribes, "--origin", s.base}

	// The connection that reads may not.
	if r := c.json(4, "endpoints", "subscribe", subscribes, "--with", reads, "--origin", s.base); text(r, "error", "code") != "SCOPE_REQUIRED" {
		t.Errorf("without the scope: %v", r["error"])
	}
	asked := c.json(4, command...)
	approval := text(asked, "error", "approval_id")
	if text(asked, "error", "code") != "APPROVAL_REQUIRED" || approval == "" || text(asked, "subscription", "state") != "asked" {
		t.Fatalf("asked: %v", asked)
	}
	// What is printed by the command is no address; the card has what will be sent.
	if printed := c.seen.String(); strings.Contains(printed, "/webhooks/") {
		t.Error("the address is printed")
	}
	if card := c.run("approvals", "show", approval).out; !strings.Contains(card, s.base+"/webhooks/") || !strings.Contains(card, "Have Acme post events") {
		t.Errorf("the card: %s", card)
	}
	if n := org.Hits("POST /api/v1/webhooks"); n != 0 {
		t.Errorf("%d requests before the approval", n)
	}
	c.json(0, "approvals", "approve", approval)
	made := c.json(0, command...)
	endpoint := text(made, "subscription", "endpoint")
	if text(made, "subscription", "state") != "active" || text(made, "subscription", "hook") == "" || endpoint != text(asked, "subscription", "endpoint") {
		t.Errorf("made: %v", made)
	}
	if again := c.json(0, command...); text(again, "subscription", "endpoint") != endpoint || org.Hits("POST /api/v1/webhooks") != 1 {
		t.Errorf("again: %v", again)
	}

	ticket, err := org.AddTicket(sandbox.Seed{Project: new("orders"), Title: new("Announced by an event"), Body: new("b")})
	if err != nil {
		t.Fatal(err)
	}
	got := c.decoded("the event", func(r map[string]any) bool { return true })
	if got["pull"] != nil || text(got, "connection") != reads || text(got, "endpoint") != endpoint {
		t.Errorf("delivered: %v", got)
	}
	mirrored(t, c, ticket.ID, reads)

	listed := c.run("endpoints")
	if !strings.Contains(listed.out, "subscribed as hook_") || strings.Contains(listed.out, "!") {
		t.Errorf("listed: %s", listed.out)
	}
	r := c.run("endpoints", "disable", endpoint)
	if r.code != 0 || !strings.Contains(r.out, "delete webhook "+text(made, "subscription", "hook")+" there") {
		t.Errorf("disabled: %d %s", r.code, r.out)
	}
	c.leaksNothing(org)
}

// A hook whose key was in the answer that was lost is replaced by a person's choice,
// and --yes is that person's approval.
// Guarantee: TIX5
func TestSubscribeLostAnswerIsReplacedByChoice(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	_, conn := c.subscriber(org)
	command := []string{"endpoints", "subscribe", conn, "--origin", "http://127.0.0.1:1", "--yes"}
	misbehave := func(rules ...sandbox.Rule) {
		t.Helper()
		if err := org.SetBehaviour(sandbox.Behaviour{Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	misbehave(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/webhooks", Exact: true}, Effect: sandbox.Effect{Kind: "status", When: "after", Status: 500}})
	lost := c.json(5, command...)
	op := text(lost, "effect", "operation_id")
	misbehave()
	if settled := c.json(0, "operations", "show", op); text(settled, "state") != "applied" {
		t.Fatalf("settled: %v", settled)
	}
	found := c.json(0, command...)
	old := text(found, "subscription", "endpoint")
	if diff := cmp.Diff([]any{"subscription_keyless"}, at(found, "subscription", "troubles")); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if r := c.json(4, command...); text(r, "error", "code") != "CONFLICT" {
		t.Errorf("by itself: %v", r)
	}
	advice := c.run("deliveries").out
	if !strings.Contains(advice, "--replace "+old) {
		t.Errorf("deliveries: %s", advice)
	}
	fresh := c.json(0, append(command, "--replace", old)...)
	if at(fresh, "subscription", "troubles") != nil || text(fresh, "subscription", "replaces") != old || org.Hits("POST /api/v1/webhooks") != 2 {
		t.Errorf("replaced: %v", fresh)
	}
	if out := c.run("deliveries").out; strings.Contains(out, "!") {
		t.Errorf("deliveries: %s", out)
	}
}

// Guarantee: HOO2, HOO5
func TestFailedDeliveriesAreFetchedAndNeverCalledSigned(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	_, conn := c.subscriber(org)
	if err := org.SetBehaviour(sandbox.Behaviour{Webhooks: sandbox.WebhookFaults{Tries: 1}}); err != nil {
		t.Fatal(err)
	}
	c.json(0, "endpoints", "subscribe", conn, "--origin", "http://127.0.0.1:1", "--yes") // where nobody listens
	ticket, err := org.AddTicket(sandbox.Seed{Project: new("orders"), Title: new("Announced by an event"), Body: new("b")})
	if err != nil {
		t.Fatal(err)
	}
	for org.Deliveries()[0].State != "failed" {
		time.Sleep(time.Millisecond)
	}
	due(t, c)
	s := c.serve()
	got := c.decoded("the failed delivery", func(r map[string]any) bool { return r["pull"] == true })
	if text(got, "secret") != "" || text(got, "delivery_id") != org.Deliveries()[0].ID {
		t.Errorf("pulled: %v", got)
	}
	mirrored(t, c, ticket.ID, conn)
	if out := c.run("deliveries").out; !strings.Contains(out, "no, read from the provider") {
		t.Errorf("deliveries: %s", out)
	}
	_, page := s.do("GET", s.signIn, nil)
	s.do("POST", "/signin/local", fields(page))
	if _, page := s.do("GET", "/deliveries/"+text(got, "id"), nil); !strings.Contains(page, "without a signature") {
		t.Errorf("the page does not say that nobody signed it:\n%s", page)
	}
}

// What the provider ends is told where a person looks, and to callers.
// W35
// Guarantee: HOO5
func TestAnEndedSubscriptionIsTold(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	_, conn := c.subscriber(org)
	if err := org.SetBehaviour(sandbox.Behaviour{Webhooks: sandbox.WebhookFaults{LifeSeconds: 30 * 24 * 3600}}); err != nil {
		t.Fatal(err)
	}
	made := c.json(0, "endpoints", "subscribe", conn, "--origin", "http://127.0.0.1:1", "--yes")
	endpoint := text(made, "subscription", "endpoint")
	org.AgeWebhooks(16 * 24 * time.Hour)
	look := func() map[string]any {
		t.Helper()
		due(t, c)
		c.onHost(func(h *host.Host) {
			if _, err := h.Tick(t.Context()); err != nil {
				t.Error(err)
			}
		})
		v, _ := at(c.json(0, "endpoints"), "subscription").(map[string]any)
		return v
	}
	expiring := look()
	if out := c.run("endpoints").out; !strings.Contains(out, "approvals approve "+text(expiring, "renewal")) {
		t.Errorf("endpoints: %s", out)
	}
	c.json(0, "approvals", "approve", text(expiring, "renewal"))
	renewed := look()
	if at(renewed, "troubles") != nil || renewed["renewal"] != nil || text(renewed, "expires_at") <= text(expiring, "expires_at") {
		t.Errorf("renewed: %v", renewed)
	}
	org.AgeWebhooks(31 * 24 * time.Hour)
	if diff := cmp.Diff([]any{"subscription_missing"}, look()["troubles"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out := c.run("deliveries").out; !strings.Contains(out, "--replace "+endpoint) {
		t.Errorf("deliveries: %s", out)
	}
	c.onHost(func(h *host.Host) {
		coverage, err := h.Coverage(t.Context(), connector.Connection{Tenant: "acme", ID: connector.ConnectionID(conn)})
		if err != nil || coverage.State == mirror.Complete || !slices.Contains(coverage.Reasons, "subscription_missing") {
			t.Errorf("coverage %+v, %v", coverage, err)
		}
	})
}

// due has the keeper look at its next tick instead of in a quarter of an hour.
func due(t *testing.T, c *cli) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URL: filepath.Join(c.data, "drawbridge.db"), Migrations: []store.Migrations{subscriptions.Migrations()}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE webhook_subscription SET due_at = 0`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
