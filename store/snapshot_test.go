package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: OPS4
func TestSnapshot(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		path := filepath.Join(t.TempDir(), "copy.db")
		if db.Engine() != store.SQLite {
			if err := db.Snapshot(t.Context(), path); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v", err)
			}
			return
		}
		// The sum stays as it is in every transaction, so it is in every snapshot.
		update(t, db, `INSERT INTO counters (name, n) VALUES ('a', 0), ('b', 1000)`)
		var stop atomic.Bool
		var moved atomic.Int64
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for !stop.Load() {
					err := db.Update(context.Background(), func(tx *store.Tx) error {
						for _, statement := range []string{`UPDATE counters SET n = n + 1 WHERE name = 'a'`, `UPDATE counters SET n = n - 1 WHERE name = 'b'`} {
							if _, err := tx.Exec(context.Background(), statement); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
					moved.Add(1)
				}
			})
		}
		for moved.Load() < 20 && !t.Failed() {
			runtime.Gosched()
		}
		before := moved.Load()
		err := db.Snapshot(t.Context(), path)
		stop.Store(true)
		writers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if err := db.Snapshot(t.Context(), path); !errors.Is(err, os.ErrExist) {
			t.Errorf("over an existing file: %v", err)
		}
		copied, err := store.Open(t.Context(), store.Config{URL: path, Migrations: []store.Migrations{counters}})
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		if sum := count(t, copied, `SELECT sum(n) FROM counters`); sum != 1000 {
			t.Errorf("the sum is %d", sum)
		}
		if n := count(t, copied, `SELECT n FROM counters WHERE name = 'a'`); n < before || n > moved.Load() {
			t.Errorf("%d changes are in it: %d were there before it was made, %d after", n, before, moved.Load())
		}
	})
}
