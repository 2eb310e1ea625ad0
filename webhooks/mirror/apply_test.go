package mirror

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// Object, access list, sequence and the end of the lease come together, once;
// the data is sealed and opens nowhere else.
// Guarantee: HOO4
func TestApply(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		changes, stop := h.m.Watch("acme", "c1", 0)
		defer stop()
		h.p.set("t1", thing{text: "a secret plan"})
		h.mark(false, "t1")
		h.drain()
		o, fetched, ok, err := h.m.Get(t.Context(), h.conn, "t1", time.Minute)
		want := Object{ID: "t1", Container: "orders", Version: "1", Order: 1, UpdatedAt: h.p.clock, Access: []string{"orders"}, Data: []byte("a secret plan")}
		if diff := cmp.Diff(want, o); diff != "" || !ok || err != nil || fetched.IsZero() {
			t.Fatalf("%v, %v (-want +got):\n%s", ok, err, diff)
		}
		if c := <-changes; c != (Change{Type: Updated, Tenant: "acme", Provider: "model", Connection: "c1", Container: "orders", ID: "t1", Seq: 1}) {
			t.Errorf("change %+v", c)
		}
		var data []byte
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT data FROM mirror_object`).Scan(&data))
		if strings.Contains(string(data), "secret") {
			t.Error("the data is not sealed")
		}
		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE mirror_object SET id = 't2'`)
			return err
		}))
		if _, _, ok, err := h.m.Get(t.Context(), h.conn, "t2", time.Minute); ok || err == nil {
			t.Error("the data opens in another row")
		}
		if lanes, err := h.inbox.Lanes(t.Context(), inbox.LaneFilter{Tenant: "acme"}); err != nil || len(lanes) > 0 {
			t.Errorf("lanes left: %v, %v", lanes, err)
		}
	})
}

// TIX8: every read is held to the authorization, the grant and the age.
// Guarantee: TIX8
func TestGetServesNoOtherScope(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.set("t1", thing{text: "x"})
		h.mark(false, "t1")
		h.drain()
		for name, edit := range map[string]func(*connector.Connection){
			"another authorization": func(c *connector.Connection) { c.AuthzVersion++ },
			"an older one":          func(c *connector.Connection) { c.AuthzVersion-- },
			"another grant":         func(c *connector.Connection) { c.Resources = []string{"billing"} },
			"another connection":    func(c *connector.Connection) { c.ID = "c2" },
			"another tenant":        func(c *connector.Connection) { c.Tenant = "globex" },
		} {
			c := h.conn
			edit(&c)
			if _, _, ok, err := h.m.Get(t.Context(), c, "t1", time.Hour); ok || err != nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
		}
		if _, _, ok, _ := h.m.Get(t.Context(), h.conn, "t1", -time.Hour); ok {
			t.Error("an object that is too old was served")
		}
		if _, ok := h.text("t1"); !ok {
			t.Error("its own connection does not see it")
		}
		ended := h.conn
		ended.AuthzVersion++ // as a disconnect does
		must(t, h.m.Forget(t.Context(), ended))
		if _, ok := h.text("t1"); ok {
			t.Error("a forgotten connection sees it")
		}
		// A fetch that was on its way when the connection went writes nothing.
		h.mark(false, "t1")
		if err := h.m.Apply(t.Context(), h.claim()); !errors.Is(err, ErrAuthorization) {
			t.Errorf("a late fetch: %v", err)
		}
	})
}

// W17: an older state that comes last changes nothing, and is asked about again.
// Guarantee: HOO4
func TestW17OrderNeverGoesBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.set("t1", thing{order: 7, text: "seven"})
		h.mark(false, "t1")
		h.drain()
		h.p.set("t1", thing{order: 6, text: "six"}) // a replica that lags
		h.mark(false, "t1")
		if err := h.m.Apply(t.Context(), h.claim()); !errors.Is(err, ErrStale) || Reason(err) != "stale_read" {
			t.Errorf("error %v", err)
		}
		var version string
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT version FROM mirror_object`).Scan(&version))
		if _, ok := h.text("t1"); ok || version != "7" {
			t.Errorf("version %s; served although a change waits: %v", version, ok)
		}
	})
}

// W17, a tie: two changes in one second have one version. What the provider has
// now wins, not what arrived first, and a sweep looks once more.
// Guarantee: HOO4
func TestW17TieIsFetchedAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.clock = time.Now()
		h.p.set("t1", thing{order: 7, coarse: true, text: "first"})
		h.mark(false, "t1")
		h.drain()
		h.p.set("t1", thing{order: 7, coarse: true, text: "second"})
		must(t, h.m.Sweep(t.Context(), h.conn)) // no event said so
		h.drain()
		if got, _ := h.text("t1"); got != "second" {
			t.Errorf("the mirror has %q", got)
		}
	})
}

// W37: whoever may have lost access reads nothing more, whether the provider can
// be asked or not; the fetch decides.
// Guarantee: HOO4
func TestW37AccessGoesFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.p.set("t1", thing{text: "x"})
		h.p.set("b1", thing{text: "y", container: "billing"})
		h.mark(false, "t1", "b1")
		h.drain()
		changes, stop := h.m.Watch("acme", "c1", 0)
		defer stop()

		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			return h.inbox.Mark(t.Context(), tx, []inbox.Mark{{Lane: ContainerLane(h.conn, "orders"), Removes: true}})
		}))
		must(t, h.m.Apply(t.Context(), h.claim()))
		if c := <-changes; c.Type != Denied || c.Container != "orders" || c.ID != "" {
			t.Errorf("change %+v", c)
		}
		if _, ok := h.text("t1"); ok {
			t.Error("the object is served although access may be gone")
		}
		if _, ok := h.text("b1"); !ok {
			t.Error("another container is hidden too")
		}
		l := h.claim()
		if l.Object != "t1" {
			t.Fatalf("the next lane is %q", l.Object)
		}
		h.p.fetch = func(string) (Object, State, error) {
			return Object{}, OK, connector.Fail(connector.CodeUnavailable, "")
		}
		if err := h.m.Apply(t.Context(), l); connector.CodeOf(err) != connector.CodeUnavailable {
			t.Errorf("error %v", err)
		}
		if _, ok := h.text("t1"); ok {
			t.Error("the object is served although nobody could be asked")
		}
		h.p.fetch = nil
		must(t, h.m.Apply(t.Context(), l))
		if _, ok := h.text("t1"); !ok {
			t.Error("access that was confirmed is not served")
		}
		s, _, err := h.m.readStream(t.Context(), h.conn)
		if err != nil || !s.sweepDue {
			t.Errorf("no sweep is due for what a wider grant shows: %+v, %v", s, err)
		}
	})
}

// A tombstone has no text. What is gone comes back with a newer version only,
// what was hidden also with the same one when a second fetch agrees.
// Guarantee: HOO4
func TestTombstones(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		var lease inbox.Lease
		apply := func(want error) {
			t.Helper()
			h.mark(false, "t1")
			lease = h.claim()
			if err := h.m.Apply(t.Context(), lease); !errors.Is(err, want) {
				t.Fatalf("error %v, want %v", err, want)
			}
		}
		second := func(want error) { // as the inbox gives it out again after a failure
			t.Helper()
			lease.Attempts++
			if err := h.m.Apply(t.Context(), lease); !errors.Is(err, want) {
				t.Fatalf("second fetch: error %v, want %v", err, want)
			}
		}
		serves := func(want bool) {
			t.Helper()
			if _, ok := h.text("t1"); ok != want {
				t.Fatalf("served: %v", ok)
			}
		}
		h.p.set("t1", thing{order: 5, text: "x"})
		apply(nil)
		h.p.set("t1", thing{order: 5, state: NoAccess})
		apply(nil)
		serves(false)
		h.p.set("t1", thing{order: 5, text: "x"})
		apply(ErrStale)
		serves(false)
		second(nil)
		serves(true)
		h.p.set("t1", thing{order: 5, state: Gone})
		apply(nil)
		serves(false)
		var held int
		must(t, h.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM mirror_object WHERE data IS NOT NULL OR access <> '[]'`).Scan(&held))
		if held > 0 {
			t.Error("the tombstone holds content")
		}
		h.p.set("t1", thing{order: 5, text: "late"})
		apply(ErrStale)
		second(ErrStale)
		serves(false)
		h.p.set("t1", thing{order: 6, text: "again"})
		second(nil)
		serves(true)
	})
}

// W32, W33: who lost the lease leaves no trace, and neither does an apply whose
// hook fails.
// Guarantee: HOO4
func TestApplyIsOneTransaction(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		var fail error
		var seen []Change
		h := open(t, d, Config{OnChange: func(_ context.Context, _ *store.Tx, c Change) error { seen = append(seen, c); return fail }})
		h.p.set("t1", thing{text: "x"})
		h.mark(false, "t1")
		l := h.claim()
		fail = errors.New("the hook failed")
		if err := h.m.Apply(t.Context(), l); !errors.Is(err, fail) {
			t.Fatalf("error %v", err)
		}
		if _, ok := h.text("t1"); ok {
			t.Error("the object stayed without its hook")
		}
		fail = nil
		must(t, h.m.Apply(t.Context(), l))
		if len(seen) != 2 || seen[0] != seen[1] {
			t.Errorf("the hook saw %+v", seen)
		}
		h.p.set("t1", thing{text: "y"})
		if err := h.m.Apply(t.Context(), l); !errors.Is(err, inbox.ErrFenced) {
			t.Fatalf("error %v", err)
		}
		if got, _ := h.text("t1"); got != "x" {
			t.Errorf("a settled lease wrote %q", got)
		}
	})
}

// A refusal of the whole connection charges no lane.
func TestApplyPausesAConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.mark(false, "t1")
		l := h.claim()
		h.p.fetch = func(string) (Object, State, error) {
			e := connector.Fail(connector.CodeRateLimited, "")
			e.RetryAfter = 3 * time.Minute
			return Object{}, OK, e
		}
		var pause *inbox.Pause
		if err := h.m.Apply(t.Context(), l); !errors.As(err, &pause) || pause.For != 3*time.Minute || pause.Reason != "rate_limited" {
			t.Errorf("error %v", err)
		}
		if err := h.m.Apply(t.Context(), inbox.Lease{Lane: inbox.Lane{Kind: "other"}}); err == nil {
			t.Error("a lane of another kind was taken")
		}
	})
}

// A watcher that does not read delays nothing and learns that it missed some.
func TestWatchIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		changes, stop := h.m.Watch("acme", "c1", 2)
		other, stopOther := h.m.Watch("globex", "c1", 2)
		defer stopOther()
		h.fill(5)
		for id := range h.p.objects {
			h.mark(false, id)
		}
		h.drain()
		stop()
		stop()
		var types []string
		for c := range changes {
			types = append(types, c.Type)
		}
		if !slices.Equal(types, []string{Updated, Updated, Lost}) || len(other) != 0 {
			t.Errorf("%v, and %d of another tenant", types, len(other))
		}
	})
}
