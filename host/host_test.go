package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

var alice = connector.Caller{Tenant: "acme", Principal: "alice"}

func startOrg(t *testing.T) *sandbox.Server {
	t.Helper()
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	return org
}

func open(t *testing.T, dir, url string, org *sandbox.Server) *host.Host {
	t.Helper()
	h, err := host.Open(t.Context(), host.Config{
		Data: dir, Database: url, Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1000, Concurrency: 16}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func connect(t *testing.T, h *host.Host, org *sandbox.Server) connector.Connection {
	t.Helper()
	const browser = "the browser of the host tests"
	begun, err := h.Credentials.Begin(t.Context(), alice, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		t.Fatal(err)
	}
	var password string
	for _, u := range org.Users() {
		if u.Login == "alice" {
			password = u.Password
		}
	}
	back, err := sandbox.Login(t.Context(), &http.Client{}, begun.URL, "alice", password, true)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := h.Runtime("sandbox")
	c, err := h.Credentials.Finish(t.Context(), alice, browser, back.Query(), r.Identify)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, h *host.Host, title string) connector.Result {
	t.Helper()
	raw, err := json.Marshal(tickets.Draft{Project: "orders", Title: title, Body: "b", Severity: "low"})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := h.Runtime("sandbox")
	return r.Execute(t.Context(), alice, connector.Call{Tool: "tickets.create", Arguments: raw})
}

// Two hosts on one database are two replicas: what one proposes the other may
// dispatch, once, and what one lost the other settles.
// Guarantee: TIX5, OPS1
func TestTwoHostsShareOneDatabase(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		org := startOrg(t)
		dir := t.TempDir()
		one, two := open(t, dir, d.URL, org), open(t, dir, d.URL, org)
		connect(t, one, org)

		asked := create(t, one, "shared")
		if asked.Pending == nil {
			t.Fatalf("no proposal: %+v", asked.Error)
		}
		if _, err := two.Ledger.Approve(t.Context(), "acme", string(asked.Pending.Approval), "maria"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				r := create(t, []*host.Host{one, two}[i%2], "shared")
				if r.Status != connector.StatusSuccess && r.Status != connector.StatusUnknown {
					t.Errorf("%s: %+v", r.Status, r.Error)
				}
			})
		}
		wg.Wait()
		if n := org.Count("shared"); n != 1 {
			t.Errorf("the provider holds %d tickets, want 1", n)
		}

		if err := org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Times: 1},
			Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}}); err != nil {
			t.Fatal(err)
		}
		asked = create(t, one, "lost")
		if _, err := one.Ledger.Approve(t.Context(), "acme", string(asked.Pending.Approval), "maria"); err != nil {
			t.Fatal(err)
		}
		lost := create(t, one, "lost")
		if lost.Status != connector.StatusUnknown {
			t.Fatalf("lost answer: %s %+v", lost.Status, lost.Error)
		}
		// The first look is not due at once; Tick says how many it did.
		for {
			if _, err := two.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			rec, err := two.Ledger.Get(t.Context(), "acme", lost.Effect.Operation)
			if err != nil {
				t.Fatal(err)
			}
			if rec.State == connector.StateApplied {
				break
			}
			if rec.State != connector.StateUnknown {
				t.Fatalf("the lost write became %s: %s", rec.State, rec.Reason)
			}
			select {
			case <-t.Context().Done():
				t.Fatal("never settled")
			case <-time.After(50 * time.Millisecond):
			}
		}
		if r := create(t, one, "lost"); !r.Replayed || r.Receipt == nil || r.Receipt.How() != "look_up" || org.Count("lost") != 1 {
			t.Errorf("after settling: %s %+v, %d tickets", r.Status, r.Error, org.Count("lost"))
		}
	})
}

// Guarantee: RUN6
func TestOpenRefusesWhatItCannotGuard(t *testing.T) {
	good := func() host.Config {
		return host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{},
			Instances: []host.Instance{{Name: "s", Driver: "sandbox", URL: "https://s.example"}}}
	}
	for name, edit := range map[string]func(*host.Config){
		"no policy":    func(c *host.Config) { c.Policy = nil },
		"no consent":   func(c *host.Config) { c.Consent = nil },
		"bad instance": func(c *host.Config) { c.Instances[0].URL = "http://s.example" },
		"no folder":    func(c *host.Config) { c.Data = "/dev/null/x" },
	} {
		t.Run(name, func(t *testing.T) {
			c := good()
			edit(&c)
			if h, err := host.Open(t.Context(), c); err == nil {
				h.Close()
				t.Error("opened")
			}
		})
	}
	h, err := host.Open(t.Context(), good())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// Guarantee: CRE8, TIX4
func TestADisconnectKillsApprovals(t *testing.T) {
	org := startOrg(t)
	h := open(t, t.TempDir(), "", org)
	c := connect(t, h, org)
	asked := create(t, h, "never")
	if _, err := h.Credentials.Disconnect(t.Context(), alice, c.ID, "test"); err != nil {
		t.Fatal(err)
	}
	if card, err := h.Ledger.Approve(t.Context(), "acme", string(asked.Pending.Approval), "maria"); err == nil {
		t.Errorf("approved after the disconnect: %s", card.State)
	}
	connect(t, h, org)
	if r := create(t, h, "never"); r.Pending == nil || r.Pending.Approval == asked.Pending.Approval || org.Count("never") != 0 {
		t.Errorf("a new connection uses the old approval: %s, %d tickets", r.Status, org.Count("never"))
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	org := startOrg(t)
	h := open(t, t.TempDir(), "", org)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx, time.Millisecond) }()
	cancel(errors.New("enough"))
	<-done
}
