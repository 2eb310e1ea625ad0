package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// What is stored of a connection can be seen, a sweep that stopped is let go on by
// whose connection it is, and what is stored goes with the connection.
// Guarantee: TIX8, HOO5
func TestDeliveriesCoverage(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	if r := c.run("deliveries", "coverage"); r.code != 0 || !strings.Contains(r.out, "no connection is followed") {
		t.Errorf("nothing is followed: %d %s", r.code, r.out)
	}
	instances, err := host.Instances(c.data)
	if err != nil {
		t.Fatal(err)
	}
	instances[0].Rate = 1000
	h, err := host.Open(t.Context(), host.Config{Data: c.data, Instances: instances, Policy: host.Local{}, Consent: host.Local{}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	conn, err := h.Credentials.Resolve(t.Context(), connector.Caller{Tenant: "acme", Principal: "alice"}, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	settle := func() {
		t.Helper()
		for {
			leases, err := h.Webhooks.Inbox().Claim(t.Context(), 8)
			if err != nil {
				t.Fatal(err)
			}
			if len(leases) == 0 {
				return
			}
			for _, l := range leases {
				if err := h.Mirror.Apply(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var made []string
	for i := range 25 {
		ticket, err := org.AddTicket(sandbox.Seed{Project: new("orders"), Title: new(fmt.Sprint("number ", i)), Body: new("b")})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, ticket.ID)
	}
	if err := h.Mirror.Sweep(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	shows := func(state string, reasons ...string) {
		t.Helper()
		got := c.json(0, "deliveries", "coverage")
		var why []string
		list, _ := got["coverage"].(map[string]any)["reasons"].([]any)
		for _, r := range list {
			why = append(why, fmt.Sprint(r))
		}
		if text(got, "connection_id") != string(conn.ID) || text(got, "coverage", "state") != state || !cmp.Equal(why, reasons) {
			t.Errorf("coverage %v, want %s %v", got, state, reasons)
		}
	}
	shows("partial", "backlog")
	settle()
	shows("complete")
	instances[0].MaxAge = 300
	if err := host.SaveInstance(c.data, instances[0]); err != nil {
		t.Fatal(err)
	}
	for arguments, copied := range map[string]bool{fmt.Sprintf(`{"id":%q,"max_age_seconds":300}`, made[0]): true, fmt.Sprintf(`{"id":%q}`, made[0]): false} {
		if r := c.run("call", "tickets.get", arguments); r.code != 0 || strings.Contains(r.out, "a stored copy, fetched") != copied {
			t.Errorf("call tickets.get %s: %d %s %s", arguments, r.code, r.out, r.err)
		}
	}
	if r := c.run("deliveries", "accept", string(conn.ID), "--yes"); r.code == 0 || !strings.Contains(r.err, "has stopped") {
		t.Errorf("there is nothing to accept: %d %s", r.code, r.err)
	}
	for _, id := range made {
		if err := org.DeleteTicket(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Mirror.Sweep(t.Context(), conn); !errors.Is(err, mirror.ErrVanished) {
		t.Fatalf("25 tickets are gone: %v", err)
	}
	shows("partial", "vanished")
	if r := c.run("deliveries", "coverage"); r.code != 0 || !strings.Contains(r.out, "next: look at sandbox, then drawbridge deliveries accept "+string(conn.ID)) {
		t.Errorf("for people: %d %s", r.code, r.out)
	}
	if r := c.run("deliveries", "accept", string(conn.ID)); r.code == 0 || !strings.Contains(r.err, `Type "accept"`) {
		t.Errorf("nobody said yes: %d %s %s", r.code, r.out, r.err)
	}
	shows("partial", "vanished")
	bob := &cli{t: t, data: c.data, as: "acme/bob"}
	if r := bob.run("deliveries", "accept", string(conn.ID), "--yes"); r.code == 0 {
		t.Errorf("another's connection was accepted: %s", r.out)
	}
	if r := c.runWith("accept\n", "deliveries", "accept", string(conn.ID)); r.code != 0 || !strings.Contains(r.out, "sweeps "+string(conn.ID)+" again") {
		t.Errorf("accepted: %d %s %s", r.code, r.out, r.err)
	}
	if err := h.Mirror.Reconcile(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	settle()
	if err := h.Mirror.Reconcile(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	shows("complete")

	c.json(0, "connections", "disconnect", string(conn.ID), "--yes")
	shows("forgetting")
	if _, err := h.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows("forgotten")
}
