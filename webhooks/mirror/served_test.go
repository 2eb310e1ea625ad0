package mirror

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// In whatever order objects change, are announced, are fetched and lose or regain
// their access: what is served is what the last fetch found, under the grant of
// now, with no mark of it, its container or the connection that waits.
// Guarantee: TIX8, HOO4, CUR3
func TestWhatIsServedIsTheLastFetchUnderTheGrantOfNow(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		h := open(t, d, Config{})
		check := 0
		rapid.Check(t, func(rt *rapid.T) {
			check++
			h.p.objects, h.p.authz, h.p.resources = map[string]thing{}, 1, []string{"orders", "billing"}
			connection := connector.ConnectionID(fmt.Sprint("s", check))
			now := func() {
				h.conn, _ = h.p.Connection(t.Context(), "acme", connection)
			}
			now()
			must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { // what a check that failed has left
				_, err := tx.Exec(t.Context(), `DELETE FROM webhook_lane`)
				return err
			}))
			type fetched struct {
				thing
				authz int64
			}
			held := map[string]fetched{}
			waiting := map[inbox.Lane]bool{}
			mark := func(l inbox.Lane, removes bool) {
				waiting[l] = true
				must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
					return h.inbox.Mark(t.Context(), tx, []inbox.Mark{{Lane: l, Removes: removes}})
				}))
			}
			apply := func() bool {
				leases, err := h.inbox.Claim(t.Context(), 1)
				must(t, err)
				if len(leases) == 0 {
					return false
				}
				l := leases[0]
				if err = h.m.Apply(t.Context(), l); errors.Is(err, ErrStale) {
					l.Attempts++
					err = h.m.Apply(t.Context(), l)
				}
				must(t, err)
				delete(waiting, l.Lane)
				if l.Kind == KindObject {
					held[l.Object] = fetched{h.p.objects[l.Object], h.p.authz}
				}
				return true
			}
			ids, containers := []string{"a", "b", "c"}, []string{"orders", "billing"}
			for _, id := range ids {
				h.p.set(id, thing{text: "first", container: rapid.SampledFrom(containers).Draw(rt, "begins in")})
				mark(ObjectLane(h.conn, id), false)
			}
			for range rapid.IntRange(4, 14).Draw(rt, "steps") {
				id := rapid.SampledFrom(ids).Draw(rt, "id")
				switch rapid.SampledFrom([]string{"apply", "apply", "apply", "change", "mark", "mark above", "grant"}).Draw(rt, "step") {
				case "apply":
					apply()
				case "change":
					h.p.set(id, thing{text: fmt.Sprint(h.p.clock.Unix()), container: rapid.SampledFrom(containers).Draw(rt, "container"),
						state: rapid.SampledFrom([]State{OK, OK, NoAccess}).Draw(rt, "state")})
				case "mark":
					mark(ObjectLane(h.conn, id), rapid.Bool().Draw(rt, "removes"))
				case "mark above":
					mark(ContainerLane(h.conn, rapid.SampledFrom([]string{"", "orders", "billing"}).Draw(rt, "above")), rapid.Bool().Draw(rt, "removes"))
				case "grant":
					h.p.authz++
					h.p.resources = rapid.SampledFrom([][]string{{"orders", "billing"}, {"orders"}, {}}).Draw(rt, "resources")
					now()
				}
				for _, id := range ids {
					o, _, ok, err := h.m.Get(t.Context(), h.conn, id, time.Hour)
					must(t, err)
					if !ok {
						continue
					}
					was := held[id]
					if was.state != OK || string(o.Data) != was.text || o.Container != was.container || was.authz != h.p.authz || !slices.Contains(h.p.resources, o.Container) {
						rt.Errorf("%s: %q of %s is served; the last fetch found %+v, the grant is %d %v", id, o.Data, o.Container, was, h.p.authz, h.p.resources)
					}
					for _, l := range []inbox.Lane{ObjectLane(h.conn, id), ContainerLane(h.conn, o.Container), ContainerLane(h.conn, "")} {
						if waiting[l] {
							rt.Errorf("%s is served while a mark of its %s %q waits", id, l.Kind, l.Object)
						}
					}
				}
			}
			// And nothing is kept back for ever.
			for _, id := range ids {
				mark(ObjectLane(h.conn, id), false)
			}
			for apply() {
			}
			for _, id := range ids {
				want := h.p.objects[id]
				visible := want.state == OK && slices.Contains(h.p.resources, want.container)
				if text, ok := h.text(id); ok != visible || ok && text != want.text {
					rt.Errorf("in the end %s: %q, %v; the provider has %+v for %v", id, text, ok, want, h.p.resources)
				}
			}
		})
	})
}
