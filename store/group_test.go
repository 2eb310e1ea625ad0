package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
)

// crowd is a database on which calls of Update can be made to share a commit.
type crowd struct {
	t  *testing.T
	db *DB
	wg sync.WaitGroup

	mu     sync.Mutex
	shared map[*sql.Tx][]string // who ran in which transaction
	ended  map[string]error
}

// crowded runs fn in a bubble, in which it is known when everybody waits.
func crowded(t *testing.T, fn func(t *testing.T, c *crowd)) {
	path := filepath.Join(t.TempDir(), "crowd.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), Config{URL: path, Migrations: []Migrations{{Service: "crowd", FS: fstest.MapFS{"00001_crowd.sql": {
			Data: []byte("-- +goose Up\nCREATE TABLE crowd (name TEXT PRIMARY KEY);\n")}}}}})
		if err != nil {
			t.Fatal(err)
		}
		c := &crowd{t: t, db: db, shared: map[*sql.Tx][]string{}, ended: map[string]error{}}
		fn(t, c)
		c.wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// join starts a call that writes its name and then does what it likes. When it
// returns the call runs or stands in line.
func (c *crowd) join(ctx context.Context, name string, then func(*Tx) error) {
	c.wg.Go(func() {
		err := c.db.Update(ctx, func(tx *Tx) error {
			c.mu.Lock()
			c.shared[tx.tx] = append(c.shared[tx.tx], name)
			c.mu.Unlock()
			if _, err := tx.Exec(ctx, "INSERT INTO crowd (name) VALUES (?)", name); err != nil {
				return err
			}
			return then(tx)
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended[name] = err
	})
	synctest.Wait()
}

func (c *crowd) over(name string) (error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, over := c.ended[name]
	return err, over
}

func (c *crowd) names() []string {
	c.t.Helper()
	rows, err := c.db.Query(context.Background(), "SELECT name FROM crowd ORDER BY name")
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			c.t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func nothing(*Tx) error { return nil }

func TestWaitingCallsShareOneCommitAndFailAlone(t *testing.T) {
	crowded(t, func(t *testing.T, c *crowd) {
		ctx := t.Context()
		goOn, hold := make(chan struct{}), make(chan struct{})
		c.join(ctx, "first", func(*Tx) error { <-goOn; return nil })
		boom := errors.New("boom")
		c.join(ctx, "fails", func(*Tx) error { return boom })
		c.join(ctx, "second", nothing)
		c.wg.Go(func() {
			defer func() { recover() }()
			c.db.Update(ctx, func(tx *Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO crowd (name) VALUES ('panics')"); err != nil {
					return err
				}
				panic(boom)
			})
		})
		c.wg.Go(func() {
			c.db.Update(ctx, func(tx *Tx) error {
				if _, err := tx.Exec(ctx, "INSERT INTO crowd (name) VALUES ('leaves')"); err != nil {
					return err
				}
				runtime.Goexit() // what t.FailNow does
				return nil
			})
		})
		synctest.Wait()
		c.join(ctx, "last", func(*Tx) error { <-hold; return nil })
		close(goOn)
		synctest.Wait()
		// All have run but the last, and none of them has been told anything.
		for _, name := range []string{"first", "second", "fails", "last"} {
			if err, over := c.over(name); over {
				t.Errorf("%s was told %v before the commit", name, err)
			}
		}
		if names := c.names(); len(names) != 0 {
			t.Errorf("others see %v before the commit", names)
		}
		close(hold)
		c.wg.Wait()
		if got, want := c.names(), []string{"first", "last", "second"}; !slices.Equal(got, want) {
			t.Errorf("committed: %v, want %v", got, want)
		}
		for name, want := range map[string]error{"first": nil, "second": nil, "last": nil, "fails": boom} {
			if err, over := c.over(name); !over || err != want {
				t.Errorf("%s ended with %v, want %v", name, err, want)
			}
		}
		if len(c.shared) != 1 {
			t.Errorf("%d transactions, want one for all: %v", len(c.shared), c.shared)
		}
	})
}

func TestCancelledCallLeavesTheOthersAlone(t *testing.T) {
	crowded(t, func(t *testing.T, c *crowd) {
		ctx, cancel := context.WithCancel(t.Context())
		goOn := make(chan struct{})
		c.join(t.Context(), "first", func(*Tx) error { <-goOn; return nil })
		c.join(ctx, "cancelled", func(tx *Tx) error {
			cancel()
			_, err := tx.Exec(ctx, "INSERT INTO crowd (name) VALUES ('never')")
			return err
		})
		waiting, giveUp := context.WithCancel(t.Context())
		c.join(waiting, "gives up", nothing)
		c.join(t.Context(), "last", nothing)
		giveUp()
		synctest.Wait()
		if err, over := c.over("gives up"); !over || !errors.Is(err, context.Canceled) {
			t.Errorf("who stands in line and gives up: %v, %v", err, over)
		}
		close(goOn)
		c.wg.Wait()
		if err, _ := c.over("cancelled"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if got, want := c.names(), []string{"first", "last"}; !slices.Equal(got, want) {
			t.Errorf("committed: %v, want %v", got, want)
		}
	})
}

// A caller who is cancelled after its work was done is told the truth.
func TestCancelAfterTheWorkDoesNotHideTheCommit(t *testing.T) {
	crowded(t, func(t *testing.T, c *crowd) {
		ctx, cancel := context.WithCancel(t.Context())
		goOn, hold := make(chan struct{}), make(chan struct{})
		c.join(ctx, "first", func(*Tx) error { <-goOn; return nil })
		c.join(t.Context(), "second", func(*Tx) error { <-hold; return nil })
		close(goOn)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if err, over := c.over("first"); over {
			t.Errorf("told %v before the commit", err)
		}
		close(hold)
		c.wg.Wait()
		if err, _ := c.over("first"); err != nil || len(c.names()) != 2 {
			t.Errorf("first ended with %v, committed: %v", err, c.names())
		}
	})
}

// Whoever spoils the shared transaction fails alone; the others are run again.
func TestSpoiltTransactionIsRunAgainByEachAlone(t *testing.T) {
	for name, spoil := range map[string]func(*Tx) error{
		"rolls everything back": func(tx *Tx) error {
			_, err := tx.tx.Exec("ROLLBACK")
			return errors.Join(err, errors.New("spoilt"))
		},
		"can't be committed": func(tx *Tx) error {
			_, err := tx.tx.Exec("PRAGMA defer_foreign_keys=1; CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE k (p INTEGER REFERENCES p (id)); INSERT INTO k (p) VALUES (1)")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			crowded(t, func(t *testing.T, c *crowd) {
				ctx := t.Context()
				goOn := make(chan struct{})
				c.join(ctx, "first", func(*Tx) error { <-goOn; return nil })
				c.join(ctx, "spoils", spoil)
				c.join(ctx, "refuses", func(*Tx) error { return sql.ErrNoRows })
				c.join(ctx, "last", nothing)
				close(goOn)
				c.wg.Wait()
				for name, good := range map[string]bool{"first": true, "last": true, "spoils": false, "refuses": false} {
					if err, _ := c.over(name); (err == nil) != good {
						t.Errorf("%s ended with %v", name, err)
					}
				}
				if err, _ := c.over("refuses"); !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("the refusal became %v", err)
				}
				if got, want := c.names(), []string{"first", "last"}; !slices.Equal(got, want) {
					t.Errorf("committed: %v, want %v", got, want)
				}
			})
		})
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "many.db")
	var dbs [2]*DB
	for i := range dbs {
		db, err := Open(t.Context(), Config{URL: path, Migrations: []Migrations{{Service: "crowd", FS: fstest.MapFS{"00001_crowd.sql": {
			Data: []byte("-- +goose Up\nCREATE TABLE crowd (name TEXT PRIMARY KEY);\n")}}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		dbs[i] = db
	}
	boom := errors.New("boom")
	var wg sync.WaitGroup
	var mu sync.Mutex
	want := 0
	for w := range 16 {
		wg.Go(func() {
			for i := range 20 {
				err := dbs[w%2].Update(t.Context(), func(tx *Tx) error {
					if _, err := tx.Exec(t.Context(), "INSERT INTO crowd (name) VALUES (?)", fmt.Sprint(w, "-", i)); err != nil {
						return err
					}
					if i%5 == 0 {
						return boom
					}
					return nil
				})
				switch {
				case i%5 == 0 && err != boom, i%5 != 0 && err != nil:
					t.Errorf("%d-%d ended with %v", w, i, err)
				case err == nil:
					// Acknowledged is committed: the other side sees it.
					var n int
					if err := dbs[1-w%2].QueryRow(t.Context(), "SELECT count(*) FROM crowd WHERE name = ?", fmt.Sprint(w, "-", i)).Scan(&n); err != nil || n != 1 {
						t.Errorf("%d-%d is acknowledged and %d times there (%v)", w, i, n, err)
					}
					mu.Lock()
					want++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	var n int
	if err := dbs[0].QueryRow(t.Context(), "SELECT count(*) FROM crowd").Scan(&n); err != nil || n != want {
		t.Errorf("%d rows (%v), want %d", n, err, want)
	}
}

// BenchmarkUpdate is one durable row a call, by one caller and by 64 at once.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			db, err := Open(b.Context(), Config{URL: filepath.Join(b.TempDir(), "bench.db"), Migrations: []Migrations{{Service: "crowd",
				FS: fstest.MapFS{"00001_crowd.sql": {Data: []byte("-- +goose Up\nCREATE TABLE crowd (name TEXT PRIMARY KEY);\n")}}}}})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						err := db.Update(b.Context(), func(tx *Tx) error {
							_, err := tx.Exec(b.Context(), "INSERT INTO crowd (name) VALUES (?)", fmt.Sprint(i))
							return err
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
