package inbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// W18, G4: a mark that comes while the lane is being applied is not lost, and
// the lane is not applied by two at once.
func TestMarkDuringApplyIsNotLost(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("7")})
		first := claimOne(t, b, "7")
		mark(t, b, Mark{Lane: lane("7")})
		if l := claim(t, b, 10); len(l) != 0 {
			t.Fatalf("claimed %v while the lane is leased", l)
		}
		must(t, complete(b, first))
		second := claimOne(t, b, "7")
		if second.Dirty != 2 || second.Fence != first.Fence+1 || second.Attempts != 1 {
			t.Errorf("second lease %+v", second)
		}
		must(t, complete(b, second))
		if l := claim(t, b, 10); len(l) != 0 {
			t.Errorf("claimed %v, want nothing", l)
		}
	})
}

// W32: whoever lost the lease can settle nothing, neither with success nor with
// failure; neither can anyone settle twice.
func TestStaleLeaseIsFenced(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("7")})
		stale := claimOne(t, b, "7")
		b.skew = b.lease + time.Second
		fresh := claimOne(t, b, "7")
		if fresh.Attempts != 2 {
			t.Errorf("attempts %d, want 2", fresh.Attempts)
		}
		_, renewed := b.Renew(t.Context(), stale)
		for what, err := range map[string]error{
			"renew": renewed, "complete": complete(b, stale), "fail": b.Fail(t.Context(), stale, errors.New("late")),
			"pause": b.Fail(t.Context(), stale, &Pause{}),
		} {
			if !errors.Is(err, ErrFenced) {
				t.Errorf("%s with a stale lease: %v, want ErrFenced", what, err)
			}
		}
		must(t, complete(b, fresh))
		if err := complete(b, fresh); !errors.Is(err, ErrFenced) {
			t.Errorf("second complete: %v, want ErrFenced", err)
		}
		if s := stats(t, b); s.Paused != 0 {
			t.Error("a stale lease paused the connection")
		}
	})
}

// What an apply stored and its lease's end are one transaction.
func TestFencedCompleteRollsBack(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("7")})
		stale := claimOne(t, b, "7")
		b.skew = b.lease + time.Second
		claimOne(t, b, "7")
		err := b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			if err := b.Mark(t.Context(), tx, []Mark{{Lane: lane("8")}}); err != nil {
				return err
			}
			return b.Complete(t.Context(), tx, stale)
		})
		if !errors.Is(err, ErrFenced) {
			t.Fatalf("err = %v, want ErrFenced", err)
		}
		if l := claim(t, b, 10); len(l) != 0 {
			t.Errorf("claimed %v: what was stored with a stale lease stayed", l)
		}
	})
}

// G7: a renewed lease lasts from the renewal.
func TestRenew(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("7")})
		l := claimOne(t, b, "7")
		b.skew = b.lease * 2 / 3
		renewed, err := b.Renew(t.Context(), l)
		must(t, err)
		if !renewed.Until.After(l.Until) {
			t.Errorf("until %v, was %v", renewed.Until, l.Until)
		}
		b.skew = b.lease + time.Second
		if l := claim(t, b, 10); len(l) != 0 {
			t.Fatalf("claimed %v in spite of the renewal", l)
		}
		b.skew = 2 * b.lease
		claimOne(t, b, "7")
	})
}

// W34, G6: one poison resource waits longer and longer and is parked in the
// end; the others go on.
//
// Guarantee: HOO3
func TestPoisonIsIsolated(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		b.reason = func(error) string { return "PROVIDER_CONTRACT" }
		mark(t, b, Mark{Lane: lane("poison")})
		var last time.Duration
		for attempt := 1; attempt <= maxAttempts; attempt++ {
			l := claimOne(t, b, "poison")
			if l.Attempts != attempt {
				t.Fatalf("attempt %d, want %d", l.Attempts, attempt)
			}
			must(t, b.Fail(t.Context(), l, errors.New("it never works")))
			mark(t, b, Mark{Lane: lane("poison")}, Mark{Lane: lane(fmt.Sprint(attempt))})
			must(t, complete(b, claimOne(t, b, fmt.Sprint(attempt))))
			if attempt == maxAttempts {
				break
			}
			v, err := b.ShowLane(t.Context(), "acme", lane("poison").ID())
			must(t, err)
			now, err := b.db.Now(t.Context())
			must(t, err)
			wait := v.DueAt.Sub(now.Add(b.skew))
			if most := maxBackoff; wait > most || wait < min(last, minBackoff) || v.Reason != "PROVIDER_CONTRACT" {
				t.Errorf("after attempt %d: due in %v, reason %q", attempt, wait, v.Reason)
			}
			last = wait
			b.skew += wait + time.Second
		}
		parked, err := b.Lanes(t.Context(), LaneFilter{Tenant: "acme", Parked: true})
		must(t, err)
		if len(parked) != 1 || parked[0].Object != "poison" || parked[0].Reason != "PROVIDER_CONTRACT" {
			t.Fatalf("parked %+v", parked)
		}
		// An event revives it for one attempt, at most every 15 minutes.
		b.skew += reviveGap / 2
		mark(t, b, Mark{Lane: lane("poison")})
		if l := claim(t, b, 10); len(l) != 0 {
			t.Fatalf("claimed %v, parked just now", l)
		}
		b.skew += reviveGap
		mark(t, b, Mark{Lane: lane("poison")})
		must(t, b.Fail(t.Context(), claimOne(t, b, "poison"), errors.New("still not")))
		if s := stats(t, b); s.Parked != 1 {
			t.Errorf("parked %d, want 1", s.Parked)
		}
		// A person gives it all its attempts back.
		if err := b.Unpark(t.Context(), "globex", parked[0].ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant's unpark: %v", err)
		}
		must(t, b.Unpark(t.Context(), "acme", parked[0].ID))
		if l := claimOne(t, b, "poison"); l.Attempts != 1 {
			t.Errorf("attempts %d, want 1", l.Attempts)
		}
	})
}

// An apply that ends its process never fails; it is parked all the same.
func TestLaneThatKillsIsParked(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("deadly")})
		for range maxAttempts {
			claimOne(t, b, "deadly")
			b.skew += b.lease + time.Second
		}
		if l := claim(t, b, 10); len(l) != 0 {
			t.Fatalf("claimed %v for the eleventh time", l)
		}
		v, err := b.ShowLane(t.Context(), "acme", lane("deadly").ID())
		must(t, err)
		if v.ParkedAt == nil || v.Reason != "abandoned" {
			t.Errorf("lane %+v", v)
		}
	})
}

// G6: when the provider turns a connection away, its lanes rest without being
// charged, and other connections go on.
func TestPauseRestsTheConnection(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		other := lane("x")
		other.Connection = "c2"
		mark(t, b, Mark{Lane: lane("7")}, Mark{Lane: lane("8")})
		l := claim(t, b, 10)
		must(t, b.Fail(t.Context(), l[0], fmt.Errorf("get: %w", &Pause{Reason: "RATE_LIMITED", For: 5 * time.Minute})))
		must(t, b.Fail(t.Context(), l[1], &Pause{Reason: "RATE_LIMITED"}))
		mark(t, b, Mark{Lane: other})
		must(t, complete(b, claimOne(t, b, "x")))
		b.skew = 4 * time.Minute
		if got := claim(t, b, 1); len(got) != 0 {
			t.Fatalf("claimed %v during the pause", got)
		}
		b.skew = 5*time.Minute + time.Second
		again := claim(t, b, 10)
		if len(again) != 2 || again[0].Attempts != 1 || again[1].Attempts != 1 {
			t.Fatalf("claimed %+v after the pause, want two first attempts", again)
		}
		// Pauses without a time grow, and a success ends that.
		must(t, b.Fail(t.Context(), again[0], &Pause{Reason: "UNAUTHORIZED"}))
		b.skew += 3 * time.Minute
		if got := claim(t, b, 10); len(got) != 0 {
			t.Fatalf("claimed %v: the third pause in a row is over after 3 minutes", got)
		}
		if err := b.Unpark(t.Context(), "acme", again[0].ID()); !errors.Is(err, ErrNotFound) {
			t.Errorf("unpark of a lane that is not parked: %v", err)
		}
	})
}

// The process that stops gives back what it held, at no charge.
func TestStoppingGivesBack(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		mark(t, b, Mark{Lane: lane("7")})
		must(t, b.Fail(t.Context(), claimOne(t, b, "7"), fmt.Errorf("get: %w", context.Canceled)))
		if l := claimOne(t, b, "7"); l.Attempts != 1 {
			t.Errorf("attempts %d, want 1", l.Attempts)
		}
	})
}

// G8: a connection with a large backlog holds no more than its budget, and
// those with little to do are served at once.
func TestClaimIsFair(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		var marks []Mark
		for i := range 300 {
			marks = append(marks, Mark{Lane: lane(fmt.Sprint(i))})
		}
		for c := range 5 {
			l := lane("only")
			l.Connection = fmt.Sprint("small", c)
			marks = append(marks, Mark{Lane: l})
		}
		mark(t, b, marks...)
		got := map[string]int{}
		for round := range 4 {
			for _, l := range claim(t, b, 8) {
				got[l.Connection]++
			}
			if round == 0 && len(got) != 6 {
				t.Fatalf("the first claim served %v, want all six connections", got)
			}
		}
		if got["c1"] != b.perConnection {
			t.Errorf("%d lanes of one connection are leased at once, want %d", got["c1"], b.perConnection)
		}
	})
}

// The connections take turns, also from one claim of one lane to the next.
func TestConnectionsTakeTurns(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		for i := range 6 {
			for _, c := range []string{"c1", "c2", "c3"} {
				l := lane(fmt.Sprint(i))
				l.Connection = c
				mark(t, b, Mark{Lane: l})
			}
		}
		got := map[string]int{}
		for range 9 {
			b.skew += time.Millisecond
			l := claim(t, b, 1)
			got[l[0].Connection]++
		}
		if got["c1"] != 3 || got["c2"] != 3 || got["c3"] != 3 {
			t.Errorf("served %v, want three of each", got)
		}
	})
}

// G10: what takes something away goes first, however long the others wait.
func TestRemovalsGoFirst(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		for i := range 20 {
			mark(t, b, Mark{Lane: lane(fmt.Sprint(i))})
		}
		b.skew = time.Second
		mark(t, b, Mark{Lane: lane("gone"), Removes: true})
		mark(t, b, Mark{Lane: lane("gone")})
		l := claim(t, b, 1)
		if len(l) != 1 || l[0].Object != "gone" || !l[0].Removes {
			t.Fatalf("claimed %+v, want the removal", l)
		}
		must(t, complete(b, l[0]))
		mark(t, b, Mark{Lane: lane("gone")})
		for _, l := range claim(t, b, 10) {
			if l.Removes {
				t.Errorf("%+v is still a removal", l)
			}
		}
	})
}

// OPS5 and G9: several pools, as several replicas have, share the lanes, and
// together keep to the budget of a connection.
func TestManyClaimersShareTheLanes(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		replicas := []*Inbox{open(t, d, Config{PerConnection: 3}), open(t, d, Config{PerConnection: 3}), open(t, d, Config{PerConnection: 3})}
		var marks []Mark
		for i := range 60 {
			l := lane(fmt.Sprint(i))
			l.Connection = fmt.Sprint("c", i%2)
			marks = append(marks, Mark{Lane: l})
		}
		mark(t, replicas[0], marks...)
		answers := make(chan []Lease)
		for _, b := range replicas {
			for range 4 {
				go func() {
					l, err := b.Claim(context.Background(), 10)
					if err != nil {
						t.Error(err)
					}
					answers <- l
				}()
			}
		}
		per, seen := map[string]int{}, map[string]bool{}
		for range 12 {
			for _, l := range <-answers {
				per[l.Connection]++
				if seen[l.ID()] {
					t.Errorf("lane %v was claimed twice", l.Lane)
				}
				seen[l.ID()] = true
			}
		}
		if per["c0"] != 3 || per["c1"] != 3 {
			t.Errorf("leased %v, want 3 of each connection", per)
		}
	})
}
