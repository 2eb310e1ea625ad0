package mirror

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Whatever is lost, repeated or reordered of what the provider announces, and
// whenever it is applied in between: a sweep ends in the provider's state.
// Guarantee: HOO4, HOO5
func TestAnyDeliveriesAndASweepEndInTheProvidersState(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		h := open(t, d, Config{})
		check := 0
		rapid.Check(t, func(rt *rapid.T) {
			check++
			h.conn.ID = connector.ConnectionID(fmt.Sprint("c", check))
			h.p.objects = map[string]thing{}
			must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { // what a check that failed has left
				_, err := tx.Exec(t.Context(), `DELETE FROM webhook_lane`)
				return err
			}))
			type event struct {
				id      string
				removes bool
			}
			var events []event
			for _, id := range []string{"a", "b", "c"} {
				h.p.set(id, thing{text: "first"})
			}
			must(t, h.m.Sweep(t.Context(), h.conn))
			h.drain()
			for range rapid.IntRange(1, 8).Draw(rt, "changes") {
				id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "id")
				state := rapid.SampledFrom([]State{OK, OK, OK, NoAccess, Gone}).Draw(rt, "state")
				if _, was := h.p.objects[id]; !was {
					state = OK
				}
				h.p.set(id, thing{text: fmt.Sprint("text ", len(events)), state: state,
					container: rapid.SampledFrom([]string{"orders", "billing"}).Draw(rt, "container")})
				for range rapid.IntRange(0, 2).Draw(rt, "deliveries") {
					events = append(events, event{id, state != OK})
				}
				if rapid.IntRange(0, 3).Draw(rt, "sweep now") == 0 {
					must(t, h.m.Sweep(t.Context(), h.conn))
				}
				if rapid.IntRange(0, 2).Draw(rt, "fetch now") == 0 {
					h.drainTwice()
				}
			}
			events = rapid.Permutation(events).Draw(rt, "order")
			for _, e := range events {
				h.mark(e.removes, e.id)
				if rapid.Bool().Draw(rt, "apply now") {
					h.drainTwice()
				}
			}
			h.drainTwice()
			must(t, h.m.Sweep(t.Context(), h.conn))
			h.drainTwice()
			h.shows(rt)
		})
	})
}
