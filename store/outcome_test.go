package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func eachPostgres(t *testing.T, fn func(*testing.T, storetest.Database)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		if d.Engine == store.PostgreSQL {
			fn(t, d)
		}
	})
}

// cutter stands between the store and the server and can break a connection
// at its COMMIT, on either side of the moment the server learns of it.
type cutter struct {
	listener net.Listener
	server   string
	mode     atomic.Int32
	requests atomic.Int64 // that came from the store
	wg       sync.WaitGroup
}

const (
	pass = iota
	cutBeforeServer
	cutAfterServer
)

func newCutter(t *testing.T, dsn string) (*cutter, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, server: u.Host}
	c.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() { l.Close(); c.wg.Wait() })
	u.Host = l.Addr().String()
	return c, u.String()
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	var muted atomic.Bool
	var back sync.WaitGroup
	back.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if muted.Load() {
				// The server has answered the COMMIT; the client never hears it.
				client.Close()
				return
			}
			if n > 0 {
				client.Write(buf[:n])
			}
			if err != nil {
				client.Close()
				return
			}
		}
	})
	defer back.Wait()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		c.requests.Add(1)
		if n > 0 && bytes.Contains(buf[:n], []byte("commit\x00")) {
			switch c.mode.Swap(pass) {
			case cutBeforeServer:
				return
			case cutAfterServer:
				muted.Store(true)
				server.Write(buf[:n])
				back.Wait()
				return
			}
		}
		if n > 0 {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func TestLostCommitAnswerIsUnknown(t *testing.T) {
	eachPostgres(t, func(t *testing.T, d storetest.Database) {
		direct := d.Open(counters)
		cut, dsn := newCutter(t, d.URL)
		db, err := store.Open(t.Context(), store.Config{URL: dsn})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		tests := []struct {
			name string
			mode int32
			want int64
		}{
			{"server never got it", cutBeforeServer, 0},
			{"server did it", cutAfterServer, 1},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				calls := 0
				err := db.Update(t.Context(), func(tx *store.Tx) error {
					calls++
					cut.mode.Store(test.mode)
					_, err := tx.Exec(t.Context(), "INSERT INTO counters (name, n) VALUES (?, 1)", test.name)
					return err
				})
				if !errors.Is(err, store.ErrCommitUnknown) {
					t.Errorf("error = %v, want ErrCommitUnknown", err)
				}
				if calls != 1 {
					t.Errorf("ran %d times, want 1: an unknown outcome must not be repeated", calls)
				}
				if n := count(t, direct, "SELECT count(*) FROM counters WHERE name = ?", test.name); n != test.want {
					t.Errorf("%d rows, want %d", n, test.want)
				}
				update(t, db, "UPDATE counters SET n = n") // a fresh connection is used
			})
		}
	})
}

// The server's word that it ends the session says nothing about the commit
// that it may just have written.
func TestCommitOnAnEndedSessionIsUnknown(t *testing.T) {
	eachPostgres(t, func(t *testing.T, d storetest.Database) {
		ctx := t.Context()
		db := d.Open(counters)
		err := db.Update(ctx, func(tx *store.Tx) error {
			var pid int64
			if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			var done bool
			return db.QueryRow(ctx, "SELECT pg_terminate_backend(?::int, 5000)", pid).Scan(&done)
		})
		if !errors.Is(err, store.ErrCommitUnknown) {
			t.Errorf("error = %v, want ErrCommitUnknown", err)
		}
	})
}

// A statement that fails on PostgreSQL dooms its transaction, on SQLite it does
// not. Either way Update tells the truth about what is there.
func TestSwallowedStatementErrorIsNotASuccess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		ctx := t.Context()
		db := d.Open(counters)
		err := db.Update(ctx, func(tx *store.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO counters (name, n) VALUES ('a', 1)"); err != nil {
				return err
			}
			tx.Exec(ctx, "INSERT INTO counters (name, n) VALUES ('a', 2)")
			return nil
		})
		if errors.Is(err, store.ErrCommitUnknown) {
			t.Errorf("a refused commit was reported as unknown: %v", err)
		}
		if there := count(t, db, "SELECT count(*) FROM counters") == 1; there != (err == nil) {
			t.Errorf("row is there = %v, but error = %v", there, err)
		}
	})
}

func TestDeadlockIsRunAgain(t *testing.T) {
	eachPostgres(t, func(t *testing.T, d storetest.Database) {
		ctx := t.Context()
		db := d.Open(counters)
		update(t, db, "INSERT INTO counters (name, n) VALUES ('a', 0), ('b', 0)")
		var calls atomic.Int32
		var both, wg sync.WaitGroup
		both.Add(2)
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			wg.Go(func() {
				first := true
				err := db.Update(ctx, func(tx *store.Tx) error {
					calls.Add(1)
					if !first {
						order = [2]string{"a", "b"} // the second time nobody is in the way
					}
					for i, name := range order {
						if _, err := tx.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE name = ?", name); err != nil {
							return fmt.Errorf("count: %w", err)
						}
						if i == 0 && first {
							first = false
							both.Done()
							both.Wait() // each holds the row the other wants
						}
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := calls.Load(); n != 3 {
			t.Errorf("the functions ran %d times, want 3", n)
		}
		if n := count(t, db, "SELECT sum(n) FROM counters"); n != 4 {
			t.Errorf("sum = %d, want 4", n)
		}
	})
}

func TestWaitingWriterEndsWithItsContext(t *testing.T) {
	for _, name := range []string{"same process", "other process"} {
		t.Run(name, func(t *testing.T) {
			d := storetest.SQLite(t)
			holder := d.Open(counters)
			waiter := holder
			if name == "other process" {
				waiter = d.Open(counters)
			}
			err := holder.Update(t.Context(), func(*store.Tx) error {
				ctx, cancel := context.WithCancel(t.Context())
				errs := make(chan error)
				go func() {
					errs <- waiter.Update(ctx, func(*store.Tx) error {
						t.Error("ran beside another writer")
						return nil
					})
				}()
				cancel()
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Errorf("error = %v, want context.Canceled", err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			update(t, waiter, "UPDATE counters SET n = n")
		})
	}
}
