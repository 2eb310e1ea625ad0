package mirror

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

func (h *house) rows() (n int) {
	h.t.Helper()
	must(h.t, h.db.QueryRowFor(h.t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM mirror_object`).Scan(&n))
	return n
}

// What a connection saw goes with it: not while it only wants to be signed in
// again, and also when the first try fails.
// Guarantee: TIX8
func TestTickForgetsWhatHasEnded(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		var refuse error
		told := 0
		h := open(t, d, Config{OnChange: func(_ context.Context, _ *store.Tx, c Change) error {
			if c.ID == "" && c.Type == Removed {
				told++
				return refuse
			}
			return nil
		}})
		h.fill(3)
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.p.set("t001", thing{state: Gone})
		h.mark(true, "t001")
		h.drain()
		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { // more than one part of the removal
			for i := range batch {
				if err := bury(t.Context(), tx, ObjectLane(h.conn, fmt.Sprint("old", i)), Gone, 1, time.Now(), 1); err != nil {
					return err
				}
			}
			return nil
		}))
		before := h.rows()

		h.p.gone = true
		must(t, h.m.Tick(t.Context()))
		if n := h.rows(); n != before {
			t.Errorf("%d of %d rows are left of a connection that is to be signed in again", n, before)
		}
		h.p.ended, h.p.authz, h.conn.AuthzVersion = true, 2, 2
		refuse = errors.New("not now")
		if err := h.m.Tick(t.Context()); !errors.Is(err, refuse) {
			t.Errorf("a removal that fails: %v", err)
		}
		if v := h.coverage(); v.State != Unknown || h.rows() == 0 {
			t.Errorf("before it is done: %+v, %d rows", v, h.rows())
		}
		refuse = nil
		must(t, h.m.Tick(t.Context()))
		if v := h.coverage(); v.State != Forgotten || h.rows() != 0 {
			t.Errorf("after: %+v, %d rows", v, h.rows())
		}
		told = 0
		must(t, h.m.Tick(t.Context()))
		if told > 0 {
			t.Error("it was forgotten twice")
		}

		// Made again: followed anew, and forgotten anew.
		h.p.gone, h.p.ended, h.p.authz, h.conn.AuthzVersion = false, false, 3, 3
		if v := h.coverage(); v.State != Unknown {
			t.Errorf("made again: %+v", v)
		}
		must(t, h.m.Tick(t.Context()))
		h.drainTwice()
		h.shows(t)
		h.p.gone, h.p.ended, h.p.authz = true, true, 4
		must(t, h.m.Tick(t.Context()))
		if n := h.rows(); n > 0 {
			t.Errorf("%d rows after the second end", n)
		}
	})
}

// A mark of the container or of the whole connection keeps its objects back as one
// of theirs does.
// Guarantee: TIX8, HOO4
func TestMarksAboveAnObjectInvalidateIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.set("t1", thing{text: "x", container: "orders"})
		h.mark(false, "t1")
		h.drain()
		for name, c := range map[string]struct {
			container string
			served    bool
		}{"its container": {"orders", false}, "another container": {"billing", true}, "the connection": {"", false}} {
			must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				return h.inbox.Mark(t.Context(), tx, []inbox.Mark{{Lane: ContainerLane(h.conn, c.container)}})
			}))
			if _, ok := h.text("t1"); ok != c.served {
				t.Errorf("a mark of %s: served %v", name, ok)
			}
			h.drain()
			if _, ok := h.text("t1"); !ok {
				t.Errorf("not served after a mark of %s was applied", name)
			}
		}
	})
}

// HOO4: what was absent when it was first asked for leaves a tombstone too, so that
// one answer of a replica that lags does not bring it back.
// Guarantee: HOO4
func TestAbsentAtFirstLeavesATombstone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		for _, state := range []State{NoAccess, Gone} {
			id := map[State]string{NoAccess: "hidden", Gone: "gone"}[state]
			h.p.set(id, thing{state: state})
			h.mark(false, id)
			h.drain()
			var was State
			var access string
			must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT state, access FROM mirror_object WHERE id = ?`, id).Scan(&was, &access))
			if was != state || access != "[]" {
				t.Errorf("the tombstone of %s: state %d, access %s", id, was, access)
			}
			h.p.set(id, thing{text: "back"})
			h.mark(false, id)
			l := h.claim()
			if err := h.m.Apply(t.Context(), l); !errors.Is(err, ErrStale) {
				t.Errorf("%s after one fetch: %v", id, err)
			}
			l.Attempts++
			must(t, h.m.Apply(t.Context(), l))
			if text, ok := h.text(id); !ok || text != "back" {
				t.Errorf("%s after two fetches: %q, %v", id, text, ok)
			}
		}
	})
}

// Who narrows a grant is not asked whether that many objects may vanish.
// Guarantee: HOO5, TIX8
func TestANarrowerGrantIsNoAlarm(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		for i := range 30 {
			h.p.set(fmt.Sprintf("t%02d", i), thing{text: "x", container: []string{"orders", "billing"}[min(i/5, 1)]})
		}
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.p.resources, h.p.authz = []string{"orders"}, 2
		h.conn, _ = h.p.Connection(t.Context(), "acme", "c1")
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		must(t, h.m.Reconcile(t.Context(), h.conn))
		var live, held int64
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT (SELECT COUNT(*) FROM mirror_object WHERE state = 1),
			(SELECT COUNT(*) FROM mirror_object WHERE data IS NOT NULL)`).Scan(&live, &held))
		if v := h.coverage(); v.State != Complete || live != 5 || held != 5 {
			t.Errorf("%+v, %d objects, %d with text", v, live, held)
		}
		// The same number of objects without a narrower grant is one.
		for i := range 25 {
			h.p.set(fmt.Sprintf("u%02d", i), thing{text: "x", container: "orders"})
		}
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		for i := range 25 {
			h.p.set(fmt.Sprintf("u%02d", i), thing{state: NoAccess, container: "orders"})
		}
		if err := h.m.Sweep(t.Context(), h.conn); !errors.Is(err, ErrVanished) {
			t.Errorf("a provider that shows less: %v", err)
		}
	})
}

// Guarded by row: a statement without its tenant finds nothing of others.
func TestTenantsAreGuardedByRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(2)
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		if h.db.Engine() != store.PostgreSQL {
			t.Skip("SQLite has no guard by row")
		}
		count := func(s store.Scope) (objects, streams int64) {
			must(t, h.db.QueryRowFor(t.Context(), s, `SELECT (SELECT COUNT(*) FROM mirror_object), (SELECT COUNT(*) FROM mirror_stream)`).Scan(&objects, &streams))
			return objects, streams
		}
		got := map[string][2]int64{}
		for name, s := range map[string]store.Scope{"none": {}, "another": store.Tenant("globex"), "its own": store.Tenant("acme"), "all": store.AllTenants()} {
			a, b := count(s)
			got[name] = [2]int64{a, b}
		}
		want := map[string][2]int64{"none": {}, "another": {}, "its own": {2, 1}, "all": {2, 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rows by scope (-want +got):\n%s", diff)
		}
	})
}

// Data that another version of the code made is not served, and the next sweep has
// it fetched again, which is no drift.
// Guarantee: TIX8
func TestAnotherProjectionIsFetchedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(3)
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		next, err := New(Config{DB: h.db, Inbox: h.inbox, Source: h.p, Sealer: ring(), Projection: "2"})
		must(t, err)
		h.m = next
		if _, ok := h.text("t001"); ok {
			t.Error("data of another projection is served")
		}
		fetches := len(h.p.fetches)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if v := h.coverage(); v.State != Complete || v.Drift != 0 || len(h.p.fetches) != fetches+3 {
			t.Errorf("%+v, %d fetches", v, len(h.p.fetches)-fetches)
		}
	})
}
