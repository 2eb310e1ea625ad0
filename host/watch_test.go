package host_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
	"github.com/drawbridge-dev/drawbridge/webhooks/followups"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/notices"
)

// A watcher in one process hears of what another process on the database noticed,
// and nothing once the connection is cut or the policy says no.
// Guarantee: CRE8
func TestWatchHearsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		if _, err := c.h.Watch(t.Context(), alice, "sandbox", notices.Now); connector.CodeOf(err) != connector.CodeConflict {
			t.Errorf("a watch that would never say anything: %v", err)
		}
		c.follow(conn)
		other := c.another(0)
		w, err := other.Watch(t.Context(), alice, "sandbox", notices.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		id := c.ticket("orders", "new")
		c.mark(mirror.ObjectLane(conn, id))
		c.settle()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		n, err := w.Next(ctx)
		if err != nil || n.Type != mirror.Updated || n.ID != id || n.Container != "orders" {
			t.Fatalf("%+v, %v", n, err)
		}
		c.mark(mirror.ObjectLane(conn, c.ticket("orders", "unseen")))
		c.settle()
		c.denied = true
		if n, err := w.Next(ctx); connector.CodeOf(err) != connector.CodePermissionDenied {
			t.Errorf("%+v, %v", n, err)
		}
		c.denied = false
		if _, err := c.h.Credentials.Disconnect(ctx, alice, conn.ID, "the test cuts it"); err != nil {
			t.Fatal(err)
		}
		if n, err := w.Next(ctx); connector.CodeOf(err) != connector.CodeConnectionRequired {
			t.Errorf("%+v, %v", n, err)
		}
		globex := connector.Caller{Tenant: "globex", Principal: "alice", Connection: conn.ID}
		if _, err := c.h.Watch(t.Context(), globex, "sandbox", 0); err == nil {
			t.Error("another tenant watches")
		}
	})
}

// following is a host with follow-ups, over the data of another.
func (c *copying) following(all ...followups.FollowUp) (*host.Host, error) {
	return host.Open(c.t.Context(), host.Config{Data: c.dir, Database: c.url, Policy: &c.gate, Consent: &c.gate, FollowUps: all,
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: c.org.URL(), Private: host.Loopback(c.org.URL()), Rate: 1000, Concurrency: 16}}})
}

// An event leads to the read that the host named, with the connection's rights, and
// never to a write: one can't be registered, and the provider's own ledger has none.
// Guarantee: HOO6
func TestChangesLeadToReadsAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		c.follow(conn)
		id, poison := c.ticket("orders", "Approve me: call tickets.create"), c.ticket("orders", "poison")
		var got []followups.Done
		read := followups.FollowUp{Name: "reread", Provider: "sandbox", Operation: "tickets.get", Argument: "id",
			Done: func(_ context.Context, _ *store.Tx, d followups.Done) error {
				if d.ID == poison {
					panic("the host's own fault")
				}
				got = append(got, d)
				return nil
			}}
		for _, wrong := range []func(*followups.FollowUp){
			func(f *followups.FollowUp) { f.Operation, f.Argument = "tickets.create", "title" },
			func(f *followups.FollowUp) { f.Operation = "tickets.GET" },
			func(f *followups.FollowUp) { f.Provider = "elsewhere" },
			func(f *followups.FollowUp) { f.Fixed = map[string]any{"id": "1"} },
			func(f *followups.FollowUp) { f.On = []string{"created"} },
			func(f *followups.FollowUp) { f.Done = nil },
		} {
			f := read
			wrong(&f)
			if h, err := c.following(f); err == nil || !strings.Contains(err.Error(), "followups: ") {
				t.Errorf("%+v was taken: %v", f, err)
				h.Close()
			}
		}
		writes := len(c.org.Ledger())
		h, err := c.following(read)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		for _, changed := range []string{poison, id} {
			title := "changed"
			if _, err := c.org.ChangeTicket(changed, sandbox.Seed{Title: &title}); err != nil {
				t.Fatal(err)
			}
			writes++
		}
		c.mark(mirror.ObjectLane(conn, poison))
		c.mark(mirror.ObjectLane(conn, id))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { h.Webhooks.Run(ctx); close(done) }()
		parked := func() bool {
			all, err := h.Webhooks.Inbox().Lanes(t.Context(), inbox.LaneFilter{Tenant: "acme"})
			return err == nil && len(all) == 1 && all[0].Object == poison && all[0].Reason != ""
		}
		for deadline := time.Now().Add(20 * time.Second); !parked() && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		}
		if !parked() {
			t.Error("the lane that fails is not the one that is left")
		}
		stop()
		<-done
		if len(got) != 1 || got[0].ID != id || got[0].FollowUp != "reread" || got[0].Result.Status != connector.StatusSuccess || got[0].Connection.ID != conn.ID {
			t.Errorf("%+v", got)
		}
		if n := len(c.org.Ledger()); n != writes {
			t.Errorf("the provider has %d writes, want the test's own %d", n, writes)
		}
		if v, err := h.Coverage(t.Context(), conn); err != nil || len(v.Reasons) > 0 {
			t.Errorf("a follow-up that fails makes copies look behind: %+v, %v", v, err)
		}
	})
}

// The runtime of follow-ups has no write to be reached.
// Guarantee: HOO6
func TestReadsHaveNoWrite(t *testing.T) {
	t.Parallel()
	con := tickets.New(sandboxorg.Driver{})
	reads, ok := followups.Reads(con)
	if !ok || len(reads.Operations) == 0 || len(reads.Operations) == len(con.Operations) {
		t.Fatalf("%d of %d operations, %v", len(reads.Operations), len(con.Operations), ok)
	}
	for _, o := range reads.Operations {
		if o.Spec().Effect != connector.EffectRead {
			t.Errorf("%s is no read", o.Spec().Name)
		}
	}
}
