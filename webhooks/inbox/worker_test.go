package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// work runs a worker until the returned function is called.
func work(t *testing.T, b *Inbox, apply func(context.Context, Lease) error) (stop func()) {
	t.Helper()
	w, err := NewWorker(WorkerConfig{Inbox: b, Decode: decodeLines, Apply: apply, Concurrency: 4})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func until(t *testing.T, b *Inbox, what string, holds func(Stats) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if s := stats(t, b); holds(s) {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20 seconds: %+v", what, s)
		}
	}
}

// HOO3: what was received is decoded and applied without being asked for, and
// many deliveries for one resource take few applies.
//
// Guarantee: HOO3
func TestWorkerAppliesEverything(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		var applies atomic.Int64
		var together, most [5]atomic.Int64
		work(t, b, func(ctx context.Context, l Lease) error {
			i := l.Object[0] - '0'
			if n := together[i].Add(1); n > most[i].Load() {
				most[i].Store(n)
			}
			// Before the commit: the next claim may come right behind it.
			over := sync.OnceFunc(func() { together[i].Add(-1) })
			defer over()
			applies.Add(1)
			return b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
				defer over()
				return b.Complete(ctx, tx, l)
			})
		})
		for i := range 200 {
			d := delivery(fmt.Sprint(i), fmt.Sprint(i%5))
			d.IDSigned = true
			ingest(t, b, Stored, d)
		}
		until(t, b, "everything is applied", func(s Stats) bool { return s.Waiting == 0 && s.Dirty == 0 })
		for i := range most {
			if n := most[i].Load(); n != 1 {
				t.Errorf("lane %d: %d applies at once, want 1", i, n)
			}
		}
		if n := applies.Load(); n < 5 || n > 200 {
			t.Errorf("%d applies of 200 deliveries for 5 resources", n)
		}
	})
}

// An apply that fails, panics or is turned away does not stop the worker.
func TestWorkerSurvivesApplies(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{})
	work(t, b, func(ctx context.Context, l Lease) error {
		switch l.Object {
		case "error":
			return errors.New("no")
		case "panic":
			panic("apply")
		}
		return b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error { return b.Complete(ctx, tx, l) })
	})
	ingest(t, b, Stored, delivery("d1", "error", "panic", "fine"))
	until(t, b, "one lane is clean, two wait", func(s Stats) bool { return s.Waiting == 0 && s.Dirty == 2 && s.Leased == 0 })
	for _, object := range []string{"error", "panic"} {
		v, err := b.ShowLane(t.Context(), "acme", lane(object).ID())
		must(t, err)
		if v.Attempts != 1 || v.Reason != "failed" {
			t.Errorf("%s: %+v", object, v)
		}
	}
}

// OPS5: a worker that is stopped gives back what it holds, at no charge, and
// the next process begins with it at once.
//
// Guarantee: OPS5
func TestStoppedWorkerLeavesNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		applying := make(chan struct{}, 10)
		stop := work(t, b, func(ctx context.Context, _ Lease) error {
			applying <- struct{}{}
			<-ctx.Done()
			return errors.New("broken off") // in the words of some transport
		})
		ingest(t, b, Stored, delivery("d1", "7"))
		<-applying
		stop()
		if l := claimOne(t, b, "7"); l.Attempts != 1 {
			t.Errorf("attempts %d, want 1", l.Attempts)
		}
	})
}

// G7: a lease is renewed while its apply lasts, and the apply of a lease that
// was lost is broken off.
func TestWorkerRenews(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{Lease: 3 * time.Second}) // short, and long enough for a busy machine to renew
	finish, broken := make(chan struct{}), make(chan error, 1)
	applying := make(chan Lease, 10)
	work(t, b, func(ctx context.Context, l Lease) error {
		applying <- l
		select {
		case <-finish:
			return b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error { return b.Complete(ctx, tx, l) })
		case <-ctx.Done():
			broken <- ctx.Err()
			return ctx.Err()
		}
	})
	mark(t, b, Mark{Lane: lane("7")})
	first := <-applying
	for {
		v, err := b.ShowLane(t.Context(), "acme", lane("7").ID())
		must(t, err)
		if v.LeasedUntil == nil {
			t.Fatal("the lease was lost instead of renewed")
		}
		if v.LeasedUntil.After(first.Until) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(finish)
	until(t, b, "the lane is clean", func(s Stats) bool { return s.Dirty == 0 })

	finish = make(chan struct{})
	mark(t, b, Mark{Lane: lane("8")})
	<-applying
	must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { // as if somebody else had claimed it
		_, err := tx.Exec(t.Context(), `UPDATE webhook_lane SET fence = fence + 1 WHERE object = '8'`)
		return err
	}))
	if err := <-broken; !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// A worker's lease that nobody settled comes back.
func TestForgottenLeaseComesBack(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{Lease: 100 * time.Millisecond})
	applies := make(chan Lease, 10)
	work(t, b, func(_ context.Context, l Lease) error { applies <- l; return nil })
	mark(t, b, Mark{Lane: lane("7")})
	first, second := <-applies, <-applies
	if second.Fence != first.Fence+1 || second.Attempts != 2 {
		t.Errorf("first %+v, second %+v", first, second)
	}
}

func TestConfigIsChecked(t *testing.T) {
	db := storetest.SQLite(t).Open(Migrations())
	for _, c := range []Config{{}, {DB: db}, {Sealer: ring()}, {DB: db, Sealer: ring(), Lease: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if _, err := NewWorker(WorkerConfig{}); err == nil {
		t.Error("an empty worker was made")
	}
}
