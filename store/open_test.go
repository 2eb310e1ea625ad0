package store_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func set(service string, files map[string]string) store.Migrations {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return store.Migrations{Service: service, FS: m}
}

func TestServicesAdvanceOnTheirOwn(t *testing.T) {
	const (
		one = "-- +goose Up\nCREATE TABLE %s_one (id BIGINT PRIMARY KEY);\nCREATE TABLE %[1]s_more (id BIGINT);\n"
		two = "-- +goose Up\nALTER TABLE %s_one ADD COLUMN raw BYTES;\n"
	)
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		alpha1 := set("alpha", map[string]string{"00001_one.sql": fmt.Sprintf(one, "alpha")})
		alpha2 := set("alpha", map[string]string{"00001_one.sql": fmt.Sprintf(one, "alpha"), "00002_two.sql": fmt.Sprintf(two, "alpha")})
		beta := set("beta", map[string]string{"00001_one.sql": fmt.Sprintf(one, "beta")})

		d.Open(alpha1)
		d.Open(alpha1, beta)
		db := d.Open(beta, alpha2)
		update(t, db, "INSERT INTO alpha_one (id, raw) VALUES (?, ?)", int64(1), []byte("x"))
		update(t, db, "INSERT INTO beta_one (id) VALUES (?)", int64(1))
		for table, want := range map[string]int64{"goose_alpha": 2, "goose_beta": 1} {
			if n := count(t, db, "SELECT max(version_id) FROM "+table); n != want {
				t.Errorf("%s is at %d, want %d", table, n, want)
			}
		}

		// The older program would not know what the newer one stored.
		if _, err := store.Open(t.Context(), store.Config{URL: d.URL, Migrations: []store.Migrations{alpha1}}); !errors.Is(err, store.ErrNewer) {
			t.Errorf("older program: %v, want ErrNewer", err)
		}
	})
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		bad := set("broken", map[string]string{
			"00001_ok.sql":  "-- +goose Up\nCREATE TABLE kept (id BIGINT);\n",
			"00002_bad.sql": "-- +goose Up\nCREATE TABLE half (id BIGINT);\nINSERT INTO nowhere (id) VALUES (1);\n",
		})
		open := func(m store.Migrations) error {
			db, err := store.Open(t.Context(), store.Config{URL: d.URL, Migrations: []store.Migrations{m}})
			if err == nil {
				db.Close()
			}
			return err
		}
		if open(bad) == nil {
			t.Fatal("a broken migration worked")
		}
		good := set("broken", map[string]string{
			"00001_ok.sql":  "-- +goose Up\nCREATE TABLE kept (id BIGINT);\n",
			"00002_bad.sql": "-- +goose Up\nCREATE TABLE half (id BIGINT);\n",
		})
		if err := open(good); err != nil {
			t.Errorf("the repaired migration does not run: %v", err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	fine := "-- +goose Up\nCREATE TABLE t (id BIGINT);\n"
	tests := []struct {
		name   string
		config store.Config
	}{
		{"no url", store.Config{}},
		{"memory", store.Config{URL: "sqlite::memory:"}},
		{"options", store.Config{URL: "sqlite:" + path + "?_synchronous=OFF"}},
		{"no file", store.Config{URL: "sqlite:"}},
		{"folder", store.Config{URL: dir}},
		{"other scheme", store.Config{URL: "mysql://secret-canary@h/db"}},
		{"malformed", store.Config{URL: "postgres://u:secret-canary@[h/db"}},
		{"negative limit", store.Config{URL: path, MaxConns: -1}},
		{"bad service", store.Config{URL: path, Migrations: []store.Migrations{set("A; DROP", map[string]string{"00001_a.sql": fine})}}},
		{"no files", store.Config{URL: path, Migrations: []store.Migrations{set("a", nil)}}},
		{"nil files", store.Config{URL: path, Migrations: []store.Migrations{{Service: "a"}}}},
		{"same service twice", store.Config{URL: path, Migrations: []store.Migrations{counters, counters}}},
		{"outside a transaction", store.Config{URL: path, Migrations: []store.Migrations{set("a", map[string]string{"00001_a.sql": "-- +goose NO TRANSACTION\n" + fine})}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db, err := store.Open(t.Context(), test.config)
			if err == nil {
				db.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("error shows the password: %v", err)
			}
		})
	}
}

func TestForeignFileIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	content := strings.Repeat("these are my notes, not a database\n", 50)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if db, err := store.Open(t.Context(), store.Config{URL: path, Migrations: []store.Migrations{counters}}); err == nil {
		db.Close()
		t.Error("opened a text file")
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("the file was changed: %v", err)
	}
}

func TestUnreachableServerTellsNoSecrets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	check := func(t *testing.T, dsn string) {
		t.Helper()
		db, err := store.Open(t.Context(), store.Config{URL: dsn})
		if err == nil {
			db.Close()
			t.Fatal("opened")
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("error = %v, want ErrUnavailable", err)
		}
		// What a careless log line or a walk over the chain would print.
		for e := err; e != nil; e = errors.Unwrap(e) {
			for _, canary := range []string{"canary", "127.0.0.1", "postgres://"} {
				if text := fmt.Sprintf("%v %+v %#v", err, err, e); strings.Contains(text, canary) {
					t.Errorf("%q in %s", canary, text)
				}
			}
		}
	}
	t.Run("nobody listens", func(t *testing.T) {
		check(t, "postgres://user-canary:password-canary@"+closed+"/db-canary?sslmode=disable")
	})
	eachPostgres(t, func(t *testing.T, d storetest.Database) {
		u, err := url.Parse(d.URL)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), "password-canary")
		check(t, u.String())
	})
}

func TestCloseTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		for range 2 {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Ping(t.Context()); err == nil {
			t.Error("a closed database answers")
		}
		if err := db.Update(t.Context(), func(*store.Tx) error { return nil }); err == nil {
			t.Error("a closed database takes writes")
		}
	})
}

// The promise of Update rests on these settings, so they are read back.
func TestCommitsAreDurable(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(counters)
		want := map[string]string{"PRAGMA journal_mode": "wal", "PRAGMA synchronous": "2", "PRAGMA foreign_keys": "1", "PRAGMA busy_timeout": "8000"}
		if d.Engine == store.PostgreSQL {
			want = map[string]string{"SHOW synchronous_commit": "on"}
		}
		err := db.Update(t.Context(), func(tx *store.Tx) error {
			for query, value := range want {
				var got string
				if err := tx.QueryRow(t.Context(), query).Scan(&got); err != nil {
					return err
				}
				if got != value {
					t.Errorf("%s = %s, want %s", query, got, value)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestWeakServerSettingIsOverruled(t *testing.T) {
	eachPostgres(t, func(t *testing.T, d storetest.Database) {
		u, err := url.Parse(d.URL)
		if err != nil {
			t.Fatal(err)
		}
		for setting, want := range map[string]string{"off": "on", "remote_apply": "remote_apply"} {
			q := u.Query()
			q.Set("synchronous_commit", setting)
			u.RawQuery = q.Encode()
			db, err := store.Open(t.Context(), store.Config{URL: u.String()})
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if err := db.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil {
				t.Error(err)
			}
			if got != want {
				t.Errorf("server says %s: synchronous_commit = %s, want %s", setting, got, want)
			}
			db.Close()
		}
	})
}

func BenchmarkQueryRowByPrimaryKey(b *testing.B) {
	d := storetest.SQLite(b)
	db := d.Open(counters)
	ctx := b.Context()
	const query = "SELECT n FROM counters WHERE name = ?"
	err := db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO counters (name, n) VALUES ('a', 1)")
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("autocommit", func(b *testing.B) {
		var n int64
		for b.Loop() {
			if err := db.QueryRow(ctx, query, "a").Scan(&n); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		var n int64
		for b.Loop() {
			err := db.View(ctx, func(tx *store.Tx) error { return tx.QueryRow(ctx, query, "a").Scan(&n) })
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("in one view", func(b *testing.B) {
		var n int64
		db.View(ctx, func(tx *store.Tx) error {
			for b.Loop() {
				if err := tx.QueryRow(ctx, query, "a").Scan(&n); err != nil {
					b.Fatal(err)
				}
			}
			return nil
		})
	})
}
