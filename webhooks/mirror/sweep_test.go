package mirror

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func (h *house) coverage() Coverage {
	h.t.Helper()
	v, err := h.m.Coverage(h.t.Context(), h.conn)
	must(h.t, err)
	return v
}

// A sweep finds what no event announced, deletions included, and says how much.
// Guarantee: HOO5
func TestSweepRepairs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		if v := h.coverage(); !cmp.Equal(v, Coverage{State: None}) {
			t.Errorf("before: %+v", v)
		}
		h.fill(10)
		must(t, h.m.Reconcile(t.Context(), h.conn))
		if v := h.coverage(); v.State != Partial || !cmp.Equal(v.Reasons, []string{"backlog"}) || v.SweptAt == nil || v.PolledAt == nil {
			t.Errorf("before the fetches: %+v", v)
		}
		h.drain()
		h.shows(t)
		if v := h.coverage(); v.State != Complete || v.Reasons != nil || v.Drift != 0 {
			t.Errorf("after: %+v", v)
		}
		lists, fetches := len(h.p.lists), len(h.p.fetches)
		must(t, h.m.Reconcile(t.Context(), h.conn))
		if len(h.p.lists) != lists {
			t.Error("a list was asked for that is not due")
		}
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		if len(h.p.fetches) != fetches {
			t.Errorf("a sweep that found nothing new had %v fetched", h.p.fetches[fetches:])
		}
		h.p.set("t003", thing{text: "changed"})
		h.p.set("t004", thing{state: Gone})
		h.p.set("t005", thing{text: "announced"})
		h.p.set("new", thing{text: "new"})
		h.mark(false, "t005")
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if s, err := h.m.Stats(t.Context()); err != nil || !cmp.Equal(s, Stats{Followed: 1, Drift: 2}) {
			t.Errorf("statistics: %+v, %v", s, err)
		}
		if v := h.coverage(); v.Drift != 2 {
			t.Errorf("drift %d, want t003 and new", v.Drift)
		}
	})
}

// W38: a list is never believed about what it lacks, and a sweep that was cut
// off goes on with its page; its first pages count.
// Guarantee: HOO5
func TestW38SweepGoesOnAndDeletesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(9)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		down := errors.New("down")
		h.p.list = func(q Query) (Page, error) {
			if q.Cursor != "" {
				return Page{}, down
			}
			return Page{Entries: []Entry{{"t000", "1"}, {"t001", "1"}}, Next: "t001"}, nil
		}
		if err := h.m.Sweep(t.Context(), h.conn); !errors.Is(err, down) {
			t.Fatalf("error %v", err)
		}
		h.drain()
		h.shows(t)
		// Another process goes on; the list loses t005 on the way.
		again, err := New(h.m.c)
		must(t, err)
		h.p.lists, h.p.fetches = nil, nil
		h.p.list = func(q Query) (Page, error) {
			if q.Cursor != "t001" {
				t.Errorf("page after %q", q.Cursor)
			}
			return Page{Entries: []Entry{{"t002", "1"}, {"t003", "1"}, {"t004", "1"}, {"t006", "1"}, {"t007", "1"}, {"t008", "1"}}}, nil
		}
		must(t, again.Reconcile(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if !slices.Equal(h.p.fetches, []string{"t005"}) || len(h.p.lists) != 1 {
			t.Errorf("fetched %v with %d pages", h.p.fetches, len(h.p.lists))
		}
	})
}

// W38: what became visible late is behind the checkpoint's overlap, and no event
// moves the checkpoint.
// Guarantee: HOO5
func TestW38CheckpointStaysBehind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(4)
		must(t, h.m.Poll(t.Context(), h.conn)) // without a checkpoint
		if len(h.p.lists) != 0 {
			t.Error("a poll began nowhere")
		}
		h.p.clock = h.p.clock.Add(700 * time.Millisecond)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		began := h.p.clock
		late := thing{text: "late", container: "orders", order: 1, state: OK, changed: began.Add(-3 * time.Second)}
		h.p.objects["late"] = late // visible only now
		h.p.set("t001", thing{text: "event"})
		h.mark(false, "t001")
		h.drain()
		h.p.clock = h.p.clock.Add(time.Hour)
		h.p.lists = nil
		must(t, h.m.Poll(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if since, want := h.p.lists[0].Since, began.Add(-5*time.Minute).Truncate(time.Second); !since.Equal(want) {
			t.Errorf("asked since %v, want %v", since, want)
		}
		h.p.clock = h.p.clock.Add(-24 * time.Hour) // a clock that went back does not take the checkpoint along
		must(t, h.m.Poll(t.Context(), h.conn))
		h.p.lists = nil
		must(t, h.m.Poll(t.Context(), h.conn))
		if since := h.p.lists[0].Since; !since.After(began) {
			t.Errorf("asked since %v", since)
		}
	})
}

// More than a fifth missing stops a sweep until a person accepts it.
// Guarantee: HOO5
func TestSweepGuard(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.page = 50
		h.fill(60)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		for i := range 21 {
			h.p.set(fmt.Sprintf("t%03d", i), thing{state: NoAccess})
		}
		h.p.fetches = nil
		if err := h.m.Sweep(t.Context(), h.conn); !errors.Is(err, ErrVanished) {
			t.Fatalf("error %v", err)
		}
		h.drain()
		if v := h.coverage(); v.State != Partial || !slices.Contains(v.Reasons, "vanished") || len(h.p.fetches) > 0 {
			t.Errorf("%+v, fetched %v", v, h.p.fetches)
		}
		// Until somebody has looked, it may be a revocation: what was not found is not served.
		for i := range 60 {
			_, _, ok, err := h.m.Get(t.Context(), h.conn, fmt.Sprintf("t%03d", i), time.Hour)
			if must(t, err); ok != (i >= 21) {
				t.Errorf("t%03d: served %v", i, ok)
			}
		}
		must(t, h.m.Reconcile(t.Context(), h.conn)) // not again at once
		must(t, h.m.Accept(t.Context(), h.conn))
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if v := h.coverage(); v.State != Complete {
			t.Errorf("%+v", v)
		}
	})
}

// CUR3: with another authorization everything begins anew, and a list that was
// made under one counts for no other.
// Guarantee: HOO5
func TestSweepIsOfOneAuthorization(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(5)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		h.p.authz = 2
		if err := h.m.Sweep(t.Context(), h.conn); !errors.Is(err, ErrAuthorization) {
			t.Errorf("error %v", err)
		}
		old := h.conn
		h.conn.AuthzVersion = 2
		if v := h.coverage(); v.State != Unknown {
			t.Errorf("%+v", v)
		}
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.shows(t)
		if err := h.m.Reconcile(t.Context(), old); !errors.Is(err, ErrAuthorization) {
			t.Errorf("the older authorization: %v", err)
		}
	})
}

// Cursors that lead nowhere end a sweep with an error and the next one begins
// at the first page.
func TestSweepCursors(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(5)
		h.p.list = func(q Query) (Page, error) { return Page{Next: "same"}, nil }
		if err := h.m.Sweep(t.Context(), h.conn); connector.CodeOf(err) != connector.CodeProviderContract {
			t.Errorf("error %v", err)
		}
		h.p.list = func(q Query) (Page, error) { return Page{}, connector.Fail(connector.CodeCursorInvalid, "") }
		if err := h.m.Sweep(t.Context(), h.conn); connector.CodeOf(err) == 0 {
			t.Error("a dead cursor was no error")
		}
		h.p.list = nil
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.shows(t)
	})
}

// Tombstones outlive their time and two sweeps.
func TestTombstonesExpire(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		h := open(t, d, Config{KeepTombstones: time.Millisecond})
		h.fill(2)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		h.p.set("t000", thing{state: Gone})
		h.mark(true, "t000")
		h.drain()
		rows := func() (n int) {
			must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM mirror_object`).Scan(&n))
			return n
		}
		must(t, h.m.Sweep(t.Context(), h.conn))
		if rows() != 2 {
			t.Error("the tombstone is gone after one sweep")
		}
		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { // its time is over, whatever the clock's step
			_, err := tx.Exec(t.Context(), `UPDATE mirror_object SET changed_at = 1 WHERE state = 2`)
			return err
		}))
		must(t, h.m.Sweep(t.Context(), h.conn))
		if rows() != 1 {
			t.Error("the tombstone stays")
		}
	})
}

func TestCoverageNamesWhatIsParked(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.mark(false, "t1")
		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE webhook_lane SET parked_at = 1`)
			return err
		}))
		if v := h.coverage(); !slices.Contains(v.Reasons, "parked") {
			t.Errorf("%+v", v)
		}
	})
}

// W37: rights that were taken away without a word are noticed at the first object that
// is asked for, and the next reconciliation looks at all of them.
// Guarantee: HOO4
func TestOneLossHasAllLookedAt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.page = 50
		h.fill(5)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		for i := range 3 {
			h.p.set(fmt.Sprintf("t%03d", i), thing{state: NoAccess})
		}
		h.mark(false, "t000")
		h.drain()
		must(t, h.m.Reconcile(t.Context(), h.conn))
		for i := range 3 {
			if _, _, ok, err := h.m.Get(t.Context(), h.conn, fmt.Sprintf("t%03d", i), time.Hour); ok || err != nil {
				t.Errorf("t%03d: served %v, %v", i, ok, err)
			}
		}
		h.drain()
		h.shows(t)
		h.p.fetches = nil
		must(t, h.m.Reconcile(t.Context(), h.conn)) // what that found is looked at once more
		h.drain()
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		if len(h.p.fetches) > 0 {
			t.Errorf("it goes on fetching %v", h.p.fetches)
		}
	})
}
