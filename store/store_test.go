package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

var counters = store.Migrations{Service: "counters", FS: fstest.MapFS{
	"00001_counters.sql": {Data: []byte(`-- +goose Up
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    n BIGINT NOT NULL,
    raw BYTES, -- BYTES here and 'BYTES' there stay
    note TEXT NOT NULL DEFAULT 'BYTES'
);
`)},
	"00002_slots.sql": {Data: []byte(`-- +goose Up
CREATE TABLE slots (
    id BIGINT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES counters (name),
    live BIGINT NOT NULL
);
CREATE UNIQUE INDEX slots_live ON slots (owner) WHERE live = 1;
`)},
}}

func update(t *testing.T, db *store.DB, query string, args ...any) {
	t.Helper()
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), query, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func count(t *testing.T, db *store.DB, query string, args ...any) int64 {
	t.Helper()
	var n int64
	if err := db.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestUpdateIsSeenByEveryReader(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		ctx := t.Context()
		db, replica := d.Open(counters), d.Open(counters)
		if db.Engine() != d.Engine {
			t.Errorf("engine = %v, want %v", db.Engine(), d.Engine)
		}
		type row struct {
			Name string
			N    int64
			Raw  []byte
			Note string
		}
		want := []row{
			{"a", 1 << 40, []byte{0, 1, 255}, "BYTES"},
			{"b", -1, nil, "?"},
		}
		err := db.Update(ctx, func(tx *store.Tx) error {
			n, err := tx.Exec(ctx, "INSERT INTO counters (name, n, raw) VALUES (?, ?, ?)", "a", want[0].N, want[0].Raw)
			if err != nil || n != 1 {
				return fmt.Errorf("changed %d rows: %w", n, err)
			}
			var got string
			return tx.QueryRow(ctx, "INSERT INTO counters (name, n, raw, note) VALUES (?2, ?1, ?, '?') RETURNING note",
				int64(-1), "b", []byte(nil)).Scan(&got)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, reader := range []*store.DB{db, replica} {
			var got []row
			scan := func(rows *sql.Rows, err error) error {
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var r row
					if err := rows.Scan(&r.Name, &r.N, &r.Raw, &r.Note); err != nil {
						return err
					}
					got = append(got, r)
				}
				return rows.Err()
			}
			const query = "SELECT name, n, raw, note FROM counters WHERE name <> ? ORDER BY name"
			if err := scan(reader.Query(ctx, query, "?")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Query (-want +got):\n%s", diff)
			}
			got = nil
			if err := reader.View(ctx, func(tx *store.Tx) error { return scan(tx.Query(ctx, query, "?")) }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("View (-want +got):\n%s", diff)
			}
		}
	})
}

func TestValuesSurviveUnchanged(t *testing.T) {
	type name string
	type number int
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		long := strings.Repeat("ä", 100_000)
		update(t, db, "INSERT INTO counters (name, n, raw, note) VALUES (?, ?, ?, ?)", name("named"), number(7), []byte{}, long)
		update(t, db, "INSERT INTO counters (name, n, raw, note) VALUES (?, ?, ?, '')", "nil", int64(-1<<63), nil)
		var (
			n    number
			note string
			raw  []byte
		)
		if err := db.QueryRow(t.Context(), "SELECT n, raw, note FROM counters WHERE name = ?", name("named")).Scan(&n, &raw, &note); err != nil {
			t.Fatal(err)
		}
		if n != 7 || len(raw) != 0 || note != long {
			t.Errorf("read %d, %v and a note of %d bytes", n, raw, len(note))
		}
		if got := count(t, db, "SELECT count(*) FROM counters WHERE raw IS NULL"); got != 1 {
			t.Errorf("%d rows have no raw value, want 1: empty bytes are not NULL", got)
		}
		if got := count(t, db, "SELECT n FROM counters WHERE name = 'nil'"); got != -1<<63 {
			t.Errorf("smallest number came back as %d", got)
		}
	})
}

func TestNoRow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		var n int64
		if err := db.QueryRow(t.Context(), "SELECT n FROM counters WHERE name = ?", "x").Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("error = %v, want sql.ErrNoRows", err)
		}
	})
}

func TestRollback(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name string
		end  func(context.CancelFunc) error
		want error
	}{
		{"error", func(context.CancelFunc) error { return boom }, boom},
		{"cancelled before the commit", func(cancel context.CancelFunc) error { cancel(); return nil }, context.Canceled},
		{"panic", func(context.CancelFunc) error { panic(boom) }, boom},
	}
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = p.(error)
						}
					}()
					return db.Update(ctx, func(tx *store.Tx) error {
						if _, err := tx.Exec(ctx, "INSERT INTO counters (name, n) VALUES (?, 1)", test.name); err != nil {
							return err
						}
						return test.end(cancel)
					})
				}()
				if !errors.Is(err, test.want) {
					t.Errorf("error = %v, want %v", err, test.want)
				}
				if errors.Is(err, store.ErrCommitUnknown) {
					t.Error("a rollback was reported as an unknown outcome")
				}
				if n := count(t, db, "SELECT count(*) FROM counters"); n != 0 {
					t.Errorf("%d rows are left, want 0", n)
				}
				update(t, db, "UPDATE counters SET n = 0") // the writer is free again
			})
		}
	})
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		const writers, rounds = 4, 12
		replicas := []*store.DB{d.Open(counters), d.Open(counters)}
		update(t, replicas[0], "INSERT INTO counters (name, n) VALUES ('a', 0), ('b', 0)")
		ctx := t.Context()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for range rounds {
					err := replicas[w%2].Update(ctx, func(tx *store.Tx) error {
						if _, err := tx.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE name = 'a'"); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "UPDATE counters SET n = n - 1 WHERE name = 'b'")
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		// Every snapshot taken meanwhile is of whole transactions.
		done := make(chan struct{})
		var readers sync.WaitGroup
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				err := replicas[0].View(ctx, func(tx *store.Tx) error {
					var a, b int64
					if err := tx.QueryRow(ctx, "SELECT n FROM counters WHERE name = 'a'").Scan(&a); err != nil {
						return err
					}
					if err := tx.QueryRow(ctx, "SELECT n FROM counters WHERE name = 'b'").Scan(&b); err != nil {
						return err
					}
					if a+b != 0 {
						return fmt.Errorf("torn snapshot: a=%d b=%d", a, b)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Wait()
		close(done)
		readers.Wait()
		if n := count(t, replicas[1], "SELECT n FROM counters WHERE name = 'a'"); n != writers*rounds {
			t.Errorf("counter = %d, want %d", n, writers*rounds)
		}
	})
}

// Compare-and-swap is right on both engines. On SQLite it never even has to be
// repeated: what Update read can't change before it writes.
func TestCompareAndSwap(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		const rounds = 20
		ctx := t.Context()
		replicas := []*store.DB{d.Open(counters), d.Open(counters)}
		update(t, replicas[0], "INSERT INTO counters (name, n) VALUES ('a', 0)")
		var wg sync.WaitGroup
		for _, db := range replicas {
			wg.Go(func() {
				for won := 0; won < rounds; {
					var changed int64
					err := db.Update(ctx, func(tx *store.Tx) error {
						var n int64
						if err := tx.QueryRow(ctx, "SELECT n FROM counters WHERE name = ?", "a").Scan(&n); err != nil {
							return err
						}
						var err error
						changed, err = tx.Exec(ctx, "UPDATE counters SET n = ?1 + 1 WHERE name = ?2 AND n = ?1", n, "a")
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
					if changed == 0 && d.Engine == store.SQLite {
						t.Error("a value changed between reading and writing it")
					}
					won += int(changed)
				}
			})
		}
		wg.Wait()
		if n := count(t, replicas[0], "SELECT n FROM counters"); n != 2*rounds {
			t.Errorf("counter = %d, want %d", n, 2*rounds)
		}
	})
}

func TestReaderDoesNotWaitForWriter(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		ctx := t.Context()
		update(t, db, "INSERT INTO counters (name, n) VALUES ('a', 1)")
		err := db.Update(ctx, func(tx *store.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE counters SET n = 2"); err != nil {
				return err
			}
			if n := count(t, db, "SELECT n FROM counters"); n != 1 {
				t.Errorf("a reader saw %d, want the committed 1", n)
			}
			return db.View(ctx, func(view *store.Tx) error {
				var n int64
				err := view.QueryRow(ctx, "SELECT n FROM counters").Scan(&n)
				if n != 1 {
					t.Errorf("a snapshot saw %d, want the committed 1", n)
				}
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, "SELECT n FROM counters"); n != 2 {
			t.Errorf("n = %d after the commit, want 2", n)
		}
	})
}

func TestSnapshotStandsStill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		ctx := t.Context()
		update(t, db, "INSERT INTO counters (name, n) VALUES ('a', 1)")
		err := db.View(ctx, func(tx *store.Tx) error {
			var before, after int64
			if err := tx.QueryRow(ctx, "SELECT n FROM counters").Scan(&before); err != nil {
				return err
			}
			update(t, db, "UPDATE counters SET n = 2")
			if err := tx.QueryRow(ctx, "SELECT n FROM counters").Scan(&after); err != nil {
				return err
			}
			if before != 1 || after != 1 {
				t.Errorf("snapshot moved from %d to %d", before, after)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestViewCanNotWrite(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		err := db.View(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO counters (name, n) VALUES ('a', 1)")
			return err
		})
		if err == nil {
			t.Error("a view wrote")
		}
		if n := count(t, db, "SELECT count(*) FROM counters"); n != 0 {
			t.Errorf("%d rows, want 0", n)
		}
	})
}

func TestIsUnique(t *testing.T) {
	tests := []struct {
		name, query string
		want        bool
	}{
		{"primary key", "INSERT INTO counters (name, n) VALUES ('a', 2)", true},
		{"integer primary key", "INSERT INTO slots (id, owner, live) VALUES (1, 'a', 0)", true},
		{"partial unique index", "INSERT INTO slots (id, owner, live) VALUES (2, 'a', 1)", true},
		{"outside the partial index", "INSERT INTO slots (id, owner, live) VALUES (2, 'a', 0)", false},
		{"not null", "INSERT INTO counters (name, n) VALUES ('b', NULL)", false},
		{"foreign key", "INSERT INTO slots (id, owner, live) VALUES (3, 'nobody', 1)", false},
		{"no such table", "INSERT INTO absent (id) VALUES (3)", false},
	}
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		update(t, db, "INSERT INTO counters (name, n) VALUES ('a', 1)")
		update(t, db, "INSERT INTO slots (id, owner, live) VALUES (1, 'a', 1)")
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				err := db.Update(t.Context(), func(tx *store.Tx) error {
					_, err := tx.Exec(t.Context(), test.query)
					if err == nil && !strings.HasPrefix(test.name, "outside") {
						t.Error("the statement worked")
					}
					return err
				})
				if got := store.IsUnique(err); got != test.want {
					t.Errorf("IsUnique(%v) = %v, want %v", err, got, test.want)
				}
			})
		}
	})
}

func TestNowMovesInsideATransaction(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open()
		ctx := t.Context()
		err := db.Update(ctx, func(tx *store.Tx) error {
			first, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if !first.Equal(first.Truncate(time.Millisecond)) || first.Location() != time.UTC {
				t.Errorf("now = %v, want whole milliseconds in UTC", first)
			}
			for {
				next, err := tx.Now(ctx)
				if err != nil {
					return err
				}
				if next.After(first) {
					return nil
				}
				if next.Before(first) {
					t.Errorf("time ran backwards from %v to %v", first, next)
					return nil
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Now(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data #1?")
	path := filepath.Join(dir, "a%20b.db")
	db, err := store.Open(t.Context(), store.Config{URL: path, Migrations: []store.Migrations{counters}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	update(t, db, "INSERT INTO counters (name, n) VALUES ('a', 1)")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", e.Name(), info.Mode().Perm())
		}
	}
	want := []string{"a%20b.db", "a%20b.db-shm", "a%20b.db-wal", "a%20b.db.lock"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, want 0700", d, info.Mode().Perm())
		}
	}
}
