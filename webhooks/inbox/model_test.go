package inbox

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// modelLane is what a lane must be, kept without any SQL.
type modelLane struct {
	dirty, applied, fence int64
	until                 time.Time // of the latest lease; zero: it was settled
	parked                bool
}

// TestLanesModel runs marks, claims, completions, failures, renewals and lapses
// of time in any order, with leases that were lost among those settled, and
// compares each answer with a model. In the end everything that was marked has
// been applied by somebody who began after the mark.
//
// G2, G3, G4, W18, W32.
// Guarantee: HOO3
func TestLanesModel(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		b := open(t, d, Config{PerConnection: 3})
		ctx := t.Context()
		rapid.Check(t, func(t *rapid.T) {
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, `DELETE FROM webhook_lane`)
				if err == nil {
					_, err = tx.Exec(ctx, `DELETE FROM webhook_queue`)
				}
				return err
			}))
			b.skew = 0
			model := map[string]*modelLane{}
			lanes := map[string]Lane{}
			var held []Lease // every lease there ever was
			now := func() time.Time { return time.Now().Add(b.skew) }
			lost := func(l Lease) bool {
				m := model[l.ID()]
				return m.fence != l.Fence || m.until.IsZero()
			}
			claim := func(n int) []Lease {
				leases, err := b.Claim(ctx, n)
				check(err)
				if len(leases) > n {
					t.Fatalf("claimed %d, asked for %d", len(leases), n)
				}
				for _, l := range leases {
					m := model[l.ID()]
					switch {
					case m.dirty == m.applied:
						t.Fatalf("claimed %v, which is clean", l)
					case m.until.After(now()):
						t.Fatalf("claimed %v within a valid lease", l)
					case m.parked:
						t.Fatalf("claimed %v, which is parked", l)
					case l.Fence <= m.fence:
						t.Fatalf("claimed %v with a fence that was used before (%d)", l, m.fence)
					case l.Dirty != m.dirty:
						t.Fatalf("claimed %v, want dirty %d", l, m.dirty)
					}
					m.fence, m.until = l.Fence, l.Until
					held = append(held, l)
				}
				per := map[string]int{}
				for id, m := range model {
					if m.until.After(now()) {
						if per[lanes[id].Connection]++; per[lanes[id].Connection] > 3 {
							t.Fatalf("more than 3 leases of %s", lanes[id].Connection)
						}
					}
				}
				return leases
			}
			settle := func(l Lease, settled func(*modelLane), err error) {
				switch {
				case lost(l) && !errors.Is(err, ErrFenced):
					t.Fatalf("settling the lost %v: %v, want ErrFenced", l, err)
				case !lost(l):
					check(err)
					m := model[l.ID()]
					m.until = time.Time{}
					settled(m)
				}
			}
			applied := func(l Lease) {
				settle(l, func(m *modelLane) { m.applied = l.Dirty }, complete(b, l))
			}
			any := func() Lease { return held[rapid.IntRange(0, len(held)-1).Draw(t, "lease")] }
			skipEmpty := func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing was claimed")
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"mark": func(t *rapid.T) {
					var marks []Mark
					for range rapid.IntRange(1, 3).Draw(t, "marks") {
						l := lane(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "object")))
						l.Connection = fmt.Sprint("c", rapid.IntRange(0, 1).Draw(t, "connection"))
						marks = append(marks, Mark{Lane: l, Removes: rapid.Bool().Draw(t, "removes")})
					}
					check(b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error { return b.Mark(ctx, tx, marks) }))
					together := map[string]Lane{}
					for _, m := range marks {
						together[m.ID()] = m.Lane
					}
					for id, l := range together {
						if model[id] == nil {
							model[id], lanes[id] = &modelLane{}, l
						}
						model[id].dirty++
						v, err := b.ShowLane(ctx, l.Tenant, id)
						check(err)
						model[id].parked = v.ParkedAt != nil // a mark may revive it
					}
				},
				"claim":    func(t *rapid.T) { claim(rapid.IntRange(1, 5).Draw(t, "n")) },
				"complete": func(t *rapid.T) { skipEmpty(t); applied(any()) },
				"fail": func(t *rapid.T) {
					skipEmpty(t)
					l := any()
					settle(l, func(m *modelLane) { m.parked = l.Attempts == maxAttempts }, b.Fail(ctx, l, errors.New("no")))
				},
				"pause": func(t *rapid.T) {
					skipEmpty(t)
					l := any()
					settle(l, func(*modelLane) {}, b.Fail(ctx, l, &Pause{Reason: "RATE_LIMITED"}))
				},
				"renew": func(t *rapid.T) {
					skipEmpty(t)
					l := any()
					renewed, err := b.Renew(ctx, l)
					gone := lost(l) || !model[l.ID()].until.After(now())
					switch {
					case gone && !errors.Is(err, ErrFenced):
						t.Fatalf("renewing the lost %v: %v, want ErrFenced", l, err)
					case !gone:
						check(err)
						model[l.ID()].until = renewed.Until
					}
				},
				"pass": func(*rapid.T) {
					// Never to the moment in which a lease ends.
					b.skew += time.Duration(rapid.IntRange(1, 24).Draw(t, "steps")) * 1700 * time.Millisecond
				},
			})
			// Everybody has gone; somebody else comes.
			clean := func() bool {
				for _, m := range model {
					if m.applied != m.dirty {
						return false
					}
				}
				return true
			}
			for range 20 {
				if clean() {
					return
				}
				b.skew += 2 * time.Hour
				for id, m := range model {
					if err := b.Unpark(ctx, lanes[id].Tenant, id); err == nil {
						m.parked = false
					} else if !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
				}
				for _, l := range claim(100) {
					applied(l)
				}
			}
			for id, m := range model {
				if m.applied != m.dirty {
					t.Fatalf("lane %v: %d of %d marks were seen; the rest is lost", lanes[id], m.applied, m.dirty)
				}
			}
		})
	})
}
