package notices

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "30"); err != nil { // each step is a commit that reaches the disk
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// house is two processes' logs on one database, and who may see connection c1.
type house struct {
	t        testing.TB
	db       *store.DB
	log      *Log
	other    *Log // what is recorded here wakes nobody of log
	conn     connector.Connection
	refuse   error
	seq      int64
	recorded []Notice
}

// silent is a mirror that nobody fetches for.
type silent struct{ mirror.Source }

var ring = sync.OnceValue(func() *keys.Ring {
	text, err := keys.Generate()
	if err != nil {
		panic(err)
	}
	r, err := keys.Parse(text)
	if err != nil {
		panic(err)
	}
	return r
})

func open(t testing.TB, d storetest.Database, keep int64) *house {
	t.Helper()
	h := &house{t: t, db: d.Open(inbox.Migrations(), mirror.Migrations(), Migrations()),
		conn: connector.Connection{ID: "c1", Tenant: "acme", Resources: []string{"orders"}, AuthzVersion: 1}}
	box, err := inbox.New(inbox.Config{DB: h.db, Sealer: ring()})
	must(t, err)
	for _, l := range []**Log{&h.log, &h.other} {
		m, err := mirror.New(mirror.Config{DB: h.db, Inbox: box, Source: silent{}, Sealer: ring()})
		must(t, err)
		*l, err = New(Config{DB: h.db, Mirror: m, PollEvery: time.Millisecond, Keep: keep})
		must(t, err)
	}
	return h
}

func each(t *testing.T, keep int64, fn func(*testing.T, *house)) {
	t.Helper()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(t, open(t, d, keep)) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) authorize(context.Context) (connector.Connection, error) { return h.conn, h.refuse }

func (h *house) watch(after int64) *Watcher {
	h.t.Helper()
	w, err := h.log.Watch(context.Background(), h.authorize, after)
	must(h.t, err)
	return w
}

// record is a change that the other process made.
func (h *house) record(c mirror.Change) {
	h.t.Helper()
	h.seq++
	c.Seq = h.seq
	if c.Tenant == "" {
		c.Tenant, c.Connection = "acme", "c1"
	}
	must(h.t, h.db.UpdateFor(context.Background(), store.Tenant(c.Tenant), func(tx *store.Tx) error { return h.other.Record(context.Background(), tx, c) }))
	h.recorded = append(h.recorded, Notice{c.Type, c.Container, c.ID, c.Seq})
}

func (h *house) updated(id string) {
	h.record(mirror.Change{Type: mirror.Updated, Container: "orders", ID: id})
}

// next has to have something.
func next(t testing.TB, w *Watcher) Notice {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n, err := w.Next(ctx)
	must(t, err)
	return n
}

// rest is what there is, without waiting.
func rest(t testing.TB, w *Watcher) (all []Notice) {
	t.Helper()
	for {
		n, ok, err := w.next(context.Background())
		must(t, err)
		if !ok {
			return all
		}
		all = append(all, n)
	}
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What another process records reaches a watcher that waits, in order; a position
// goes on where it was, and nobody hears of others' objects.
func TestWatcherHearsOtherProcesses(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, h *house) {
		h.updated("before")
		w := h.watch(Now)
		defer w.Close()
		heard := make(chan Notice)
		var waiting sync.WaitGroup
		waiting.Go(func() { heard <- next(t, w) })
		h.record(mirror.Change{Type: mirror.Updated, Tenant: "acme", Connection: "c2", Container: "orders", ID: "of another principal"})
		h.record(mirror.Change{Type: mirror.Updated, Tenant: "globex", Connection: "c1", Container: "orders", ID: "of another tenant"})
		h.updated("t1")
		first := <-heard
		waiting.Wait()
		same(t, first, Notice{mirror.Updated, "orders", "t1", 4})
		h.record(mirror.Change{Type: mirror.Removed, ID: "t1"})
		h.record(mirror.Change{Type: mirror.Denied, Container: "orders"})
		want := []Notice{{mirror.Removed, "", "t1", 5}, {mirror.Denied, "orders", "", 6}}
		same(t, rest(t, w), want)
		resumed := h.watch(first.Seq)
		defer resumed.Close()
		same(t, rest(t, resumed), want)
	})
}

// A watcher that was asleep when it was cut gets no name that it found before.
func TestWatcherIsAuthorizedForEach(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, h *house) {
		w := h.watch(Now)
		defer w.Close()
		h.updated("t1")
		h.updated("t2")
		same(t, next(t, w).ID, "t1") // t2 was read with it
		h.refuse = connector.Fail(connector.CodeConnectionRequired, "cut")
		if n, err := w.Next(t.Context()); connector.CodeOf(err) != connector.CodeConnectionRequired || n != (Notice{}) {
			t.Fatalf("%+v, %v", n, err)
		}
		h.refuse = errors.New("the policy store is down")
		if n, err := w.Next(t.Context()); err == nil || n != (Notice{}) {
			t.Fatalf("%+v, %v", n, err)
		}
		h.refuse = nil
		same(t, next(t, w).ID, "t2") // nothing was lost by a fault that passed

		h.updated("t3")
		h.updated("t4")
		same(t, next(t, w).ID, "t3")
		h.conn.AuthzVersion, h.conn.Resources = 2, []string{"billing"}
		same(t, rest(t, w), []Notice{{Type: mirror.Lost, Seq: h.seq}}) // and not t4
		h.updated("t5")                                                // fetched before the grant was narrowed, say
		h.record(mirror.Change{Type: mirror.Updated, Container: "billing", ID: "t6"})
		same(t, rest(t, w), []Notice{{mirror.Updated, "billing", "t6", h.seq}})

		h.conn.ID = "c2"
		if _, err := w.Next(t.Context()); connector.CodeOf(err) != connector.CodeConnectionRequired {
			t.Errorf("another connection: %v", err)
		}
	})
}

// Who is slow hears one Lost, and costs the others nothing but the rows that are
// kept for everybody.
func TestSlowWatcherHearsOneLost(t *testing.T) {
	t.Parallel()
	each(t, 10, func(t *testing.T, h *house) {
		slow, quick := h.watch(Now), h.watch(Now)
		defer slow.Close()
		defer quick.Close()
		for i := range 40 {
			h.updated(fmt.Sprint("t", i))
			same(t, len(rest(t, quick)), 1)
		}
		same(t, rest(t, slow), []Notice{{Type: mirror.Lost, Seq: 40}})
		h.updated("t40")
		same(t, rest(t, slow), []Notice{{mirror.Updated, "orders", "t40", 41}})
		var rows int
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM notice`).Scan(&rows))
		same(t, rows, 10)

		// A backup that was restored has an older sequence.
		future := h.watch(1000)
		defer future.Close()
		same(t, rest(t, future), []Notice{{Type: mirror.Lost, Seq: 41}})

		h.record(mirror.Change{Type: mirror.Removed})
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM notice`).Scan(&rows))
		same(t, rows, 1) // no name of a connection that is over
	})
}

// Waiting ends with the context, and what this process changes wakes at once.
func TestNextWaits(t *testing.T) {
	t.Parallel()
	h := open(t, storetest.SQLite(t), 0)
	h.log.c.PollEvery = time.Hour
	w := h.watch(Now)
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	wake := make(chan mirror.Change, 1)
	w.wake = wake
	heard := make(chan Notice)
	var waiting sync.WaitGroup
	waiting.Go(func() { heard <- next(t, w) })
	h.updated("t1")
	wake <- mirror.Change{}
	same(t, (<-heard).ID, "t1")
	waiting.Wait()
}

// Whatever the pace, a watcher hears of every change after its position, in order,
// or of Lost in place of those that it does not.
func TestNothingIsSkippedInSilence(t *testing.T) {
	t.Parallel()
	h := open(t, storetest.SQLite(t), 5)
	rapid.Check(t, func(r *rapid.T) {
		w := h.watch(Now)
		defer w.Close()
		heard := h.seq // what the watcher knows up to
		for range rapid.IntRange(1, 6).Draw(r, "rounds") {
			for range rapid.IntRange(0, 9).Draw(r, "changes") {
				h.updated(fmt.Sprint("t", rapid.IntRange(0, 3).Draw(r, "ticket")))
			}
			for _, n := range rest(t, w) {
				switch {
				case n.Type == mirror.Lost && n.Seq-heard > 5:
				case n.Type != mirror.Lost && n.Seq == heard+1:
					if n != h.recorded[n.Seq-1] {
						r.Fatalf("%+v, recorded %+v", n, h.recorded[n.Seq-1])
					}
				default:
					r.Fatalf("%+v after %d", n, heard)
				}
				heard = n.Seq
			}
			if heard != h.seq {
				r.Fatalf("heard up to %d of %d", heard, h.seq)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	h := open(t, storetest.SQLite(t), 0)
	for _, c := range []Config{{}, {DB: h.db}, {DB: h.db, Mirror: h.log.c.Mirror, Keep: -1}, {DB: h.db, Mirror: h.log.c.Mirror, PollEvery: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	h.refuse = connector.Fail(connector.CodePermissionDenied, "")
	if _, err := h.log.Watch(t.Context(), h.authorize, Now); connector.CodeOf(err) != connector.CodePermissionDenied {
		t.Errorf("%v", err)
	}
}
