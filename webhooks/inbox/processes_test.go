package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

const childVariable = "DRAWBRIDGE_INBOX_CHILD"

const childLease = time.Second

// order is what a worker process is told.
type order struct{ Database, Keys string }

// trial_busy shows who is applying a lane by his own account; a claim that finds
// somebody else there within a valid lease is an overlap.
var trial = store.Migrations{Service: "trial", FS: fstest.MapFS{"00001_trial.sql": {Data: []byte(`-- +goose Up
CREATE TABLE trial_busy (lane TEXT PRIMARY KEY, fence BIGINT NOT NULL, lease_until BIGINT NOT NULL);
CREATE TABLE trial_apply (lane TEXT NOT NULL, version BIGINT NOT NULL, fence BIGINT NOT NULL, PRIMARY KEY (lane, version));
CREATE TABLE trial_note (what TEXT NOT NULL);
`)}}}

// child works until it is killed. Some of its applies stall past their lease,
// as a process does that the machine forgot for a while.
func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	r, err := keys.Parse(o.Keys)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{URL: o.Database, Migrations: []store.Migrations{Migrations(), trial}})
	if err != nil {
		return err
	}
	b, err := New(Config{DB: db, Sealer: r, Lease: childLease, PerConnection: 6})
	if err != nil {
		return err
	}
	var stalls atomic.Int64
	w, err := NewWorker(WorkerConfig{Inbox: b, Decode: decodeLines, Apply: func(ctx context.Context, l Lease) error {
		if err := begin(ctx, b, l); err != nil {
			return err
		}
		if rand.IntN(20) == 0 && stalls.Add(1) <= 3 {
			// The worker renews in vain: the fence has moved on.
			if err := steal(ctx, b, l); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
		return finish(ctx, b, l)
	}})
	if err != nil {
		return err
	}
	w.Run(ctx)
	return nil
}

func begin(ctx context.Context, b *Inbox, l Lease) error {
	return b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if !now.Before(l.Until) {
			return ErrFenced // it took longer than the lease to come here
		}
		n, err := tx.Exec(ctx, `INSERT INTO trial_busy (lane, fence, lease_until) VALUES (?1, ?2, ?3)
			ON CONFLICT (lane) DO UPDATE SET fence = ?2, lease_until = ?3 WHERE trial_busy.lease_until <= ?4 AND trial_busy.fence < ?2`,
			l.ID(), l.Fence, l.Until.UnixMilli(), now.UnixMilli())
		if err == nil && n == 0 {
			_, err = tx.Exec(ctx, `INSERT INTO trial_note (what) VALUES ('overlap')`)
		}
		return err
	})
}

// steal lets the lease run out at once, so that somebody else gets the lane
// while this apply is still at it.
func steal(ctx context.Context, b *Inbox, l Lease) error {
	err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE webhook_lane SET lease_until = 1, due_at = 0 WHERE id = ? AND fence = ?`, l.ID(), l.Fence)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE trial_busy SET lease_until = 0 WHERE lane = ? AND fence = ?`, l.ID(), l.Fence)
		}
		return err
	})
	if err != nil {
		return err
	}
	for range 1000 {
		var fence int64
		if err := b.db.QueryRowFor(ctx, store.AllTenants(), `SELECT fence FROM webhook_lane WHERE id = ?`, l.ID()).Scan(&fence); err != nil {
			return err
		}
		if fence > l.Fence {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

func finish(ctx context.Context, b *Inbox, l Lease) error {
	ctx = context.WithoutCancel(ctx) // a process that missed that its lease is gone
	err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		if err := b.Complete(ctx, tx, l); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE trial_busy SET lease_until = 0 WHERE lane = ? AND fence = ?`, l.ID(), l.Fence); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO trial_apply (lane, version, fence) VALUES (?, ?, ?)`, l.ID(), l.Dirty, l.Fence)
		return err
	})
	if err != nil {
		_ = b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
			what := "error"
			if err == ErrFenced {
				what = "fenced"
			}
			_, err := tx.Exec(ctx, `INSERT INTO trial_note (what) VALUES (?)`, what)
			return err
		})
	}
	return err
}

// TestWorkerProcesses lets four processes work on one database, with leases
// that are lost in the middle of an apply, and kills one of them at a time.
//
// W18, W32; G2, G3, G4, G9.
// Guarantee: HOO3, OPS5
func TestWorkerProcesses(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		text, err := keys.Generate()
		must(t, err)
		r, err := keys.Parse(text)
		must(t, err)
		db := d.Open(Migrations(), trial)
		b, err := New(Config{DB: db, Sealer: r})
		must(t, err)
		var processes [4]*exec.Cmd
		var output [4]bytes.Buffer
		begin := func(i int) {
			self, err := os.Executable()
			must(t, err)
			raw, err := json.Marshal(order{d.URL, text})
			must(t, err)
			processes[i] = exec.Command(self)
			processes[i].Env = append(os.Environ(), childVariable+"="+string(raw))
			processes[i].Stderr = &output[i]
			must(t, processes[i].Start())
		}
		kill := func(i int) {
			_ = processes[i].Process.Kill()
			_ = processes[i].Wait()
		}
		for i := range processes {
			begin(i)
		}
		defer func() {
			for i := range processes {
				kill(i)
			}
		}()
		var senders sync.WaitGroup
		for s := range 8 {
			senders.Go(func() {
				for i := range 100 {
					body := delivery(fmt.Sprintf("%d-%d", s, i), fmt.Sprint(rand.IntN(20)))
					body.IDSigned = true
					body.Connection = fmt.Sprint("c", s%2)
					if _, err := b.Ingest(t.Context(), body); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 3 {
			time.Sleep(time.Duration(200+rand.IntN(300)) * time.Millisecond)
			i := rand.IntN(len(processes))
			kill(i)
			begin(i)
		}
		senders.Wait()
		until(t, b, "everything is applied", func(s Stats) bool { return s.Waiting == 0 && s.Dirty == 0 })
		notes := map[string]int{}
		for _, what := range []string{"overlap", "error", "fenced"} {
			var n int
			must(t, db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM trial_note WHERE what = ?`, what).Scan(&n))
			notes[what] = n
		}
		var unapplied, disorder, applies int
		must(t, db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM webhook_lane l WHERE NOT EXISTS
			(SELECT 1 FROM trial_apply a WHERE a.lane = l.id AND a.version = l.dirty)`).Scan(&unapplied))
		must(t, db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM trial_apply a JOIN trial_apply b ON a.lane = b.lane
			AND a.version < b.version AND a.fence >= b.fence`).Scan(&disorder))
		must(t, db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM trial_apply`).Scan(&applies))
		s := stats(t, b)
		if notes["overlap"] > 0 || notes["error"] > 0 || unapplied > 0 || disorder > 0 || s.Parked > 0 || len(s.Quarantined) > 0 {
			t.Errorf("notes %v, %d lanes not applied, %d applies out of order, stats %+v", notes, unapplied, disorder, s)
		}
		t.Logf("figure: workers %v: 4 processes, 3 killed, 800 deliveries in %d applies, %d overlaps, %d stale completions fenced",
			d.Engine, applies, notes["overlap"], notes["fenced"])
	})
}
