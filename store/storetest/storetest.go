// Package storetest runs a test on every database the store supports.
//
// SQLite is always there. PostgreSQL is used when DRAWBRIDGE_TEST_POSTGRES holds
// the URL of a server on which the user may create schemas; .ci/postgres starts
// a private one. With CI_REQUIRE_POSTGRES=1 its absence is a failure, so that a
// broken setup can't pass as a green run on one database.
package storetest

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named "pgx"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Database is one empty database of a test. It vanishes when the test ends.
type Database struct {
	// URL opens it from anywhere, also from a child process.
	URL    string
	Engine store.Engine

	tb testing.TB
}

// Each runs fn in a subtest named "sqlite" and, when there is a server, in one
// named "postgresql". Every subtest has a database of its own.
func Each(t *testing.T, fn func(t *testing.T, d Database)) {
	t.Helper()
	each(t, fn, postgres)
}

// EachOwner is Each for services whose tables are guarded by row: on PostgreSQL
// the connections' role owns everything and has no right beyond that. Guards do
// not hold a superuser, which the user of DRAWBRIDGE_TEST_POSTGRES may be; here
// that user must be able to create roles.
func EachOwner(t *testing.T, fn func(t *testing.T, d Database)) {
	t.Helper()
	each(t, fn, owned)
}

func each(t *testing.T, fn func(t *testing.T, d Database), postgres func(t *testing.T, server string) Database) {
	t.Helper()
	t.Run(store.SQLite.String(), func(t *testing.T) { fn(t, SQLite(t)) })
	server := os.Getenv("DRAWBRIDGE_TEST_POSTGRES")
	if server == "" {
		if os.Getenv("CI_REQUIRE_POSTGRES") == "1" {
			t.Errorf("CI_REQUIRE_POSTGRES is set but DRAWBRIDGE_TEST_POSTGRES is not")
		}
		return
	}
	t.Run(store.PostgreSQL.String(), func(t *testing.T) { fn(t, postgres(t, server)) })
}

// SQLite is for tests, fuzz targets and benchmarks that need one database and
// depend on no engine.
func SQLite(tb testing.TB) Database {
	tb.Helper()
	return Database{
		URL:    "sqlite:" + filepath.Join(tb.TempDir(), "test.db"),
		Engine: store.SQLite,
		tb:     tb,
	}
}

// Open opens and migrates the database, and closes it when the test ends.
// Several calls give what several replicas would have: separate pools on the
// same data.
func (d Database) Open(migrations ...store.Migrations) *store.DB {
	d.tb.Helper()
	if d.Engine == store.SQLite && len(migrations) > 0 {
		d.begin(migrations)
	}
	db, err := store.Open(d.tb.Context(), store.Config{URL: d.URL, Migrations: migrations, MaxConns: 6})
	if err != nil {
		d.tb.Fatalf("open the %v test database: %v", d.Engine, err)
	}
	d.tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			d.tb.Errorf("close the %v test database: %v", d.Engine, err)
		}
	})
	return db
}

// migrated holds SQLite files that were migrated once, by what was applied: a
// copy takes a hundredth of the time, and packages make hundreds of databases.
var migrated sync.Map // [32]byte -> []byte

// begin puts a migrated copy where no file is yet. Opening it checks the
// versions all the same, and applies what a copy would lack.
func (d Database) begin(migrations []store.Migrations) {
	d.tb.Helper()
	path := strings.TrimPrefix(d.URL, "sqlite:")
	if _, err := os.Stat(path); err == nil {
		return
	}
	h := sha256.New()
	for _, m := range migrations {
		fmt.Fprintf(h, "%q", m.Service)
		if m.FS == nil {
			return // for Open to refuse
		}
		err := fs.WalkDir(m.FS, ".", func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := fs.ReadFile(m.FS, name)
			fmt.Fprintf(h, "%q%q", name, text)
			return err
		})
		if err != nil {
			return
		}
	}
	key := [32]byte(h.Sum(nil))
	text, ok := migrated.Load(key)
	if !ok {
		first := filepath.Join(d.tb.TempDir(), "first.db")
		db, err := store.Open(d.tb.Context(), store.Config{URL: "sqlite:" + first, Migrations: migrations})
		if err != nil {
			return // the test's own Open says why
		}
		if err := db.Close(); err != nil {
			d.tb.Fatalf("close a migrated database: %v", err)
		}
		whole, err := os.ReadFile(first)
		if err != nil {
			d.tb.Fatal(err)
		}
		text, _ = migrated.LoadOrStore(key, whole)
	}
	// Linked into place: another process may be making the same file just now, which
	// must neither be overwritten nor see half of this one.
	copied := filepath.Join(d.tb.TempDir(), "copy.db")
	if err := os.WriteFile(copied, text.([]byte), 0o600); err != nil {
		d.tb.Fatal(err)
	}
	if err := os.Link(copied, path); err != nil && !errors.Is(err, fs.ErrExist) {
		d.tb.Fatal(err)
	}
	if err := os.Remove(copied); err != nil {
		d.tb.Fatal(err)
	}
}

// postgres makes a schema and a URL whose connections see no other. A schema
// is made in milliseconds, a database of its own takes a file copy.
func postgres(t *testing.T, server string) Database {
	t.Helper()
	return schema(t, server, "")
}

// owned is postgres with an ordinary role of its own.
func owned(t *testing.T, server string) Database {
	t.Helper()
	return schema(t, server, "owner_"+strings.ToLower(rand.Text()))
}

func schema(t *testing.T, server, role string) Database {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("DRAWBRIDGE_TEST_POSTGRES is not a URL")
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal("DRAWBRIDGE_TEST_POSTGRES is not a PostgreSQL URL")
	}
	schema := "test_" + strings.ToLower(rand.Text())
	create, remove := "CREATE SCHEMA "+schema, "DROP SCHEMA "+schema+" CASCADE"
	if role != "" {
		password := rand.Text()
		create = "CREATE ROLE " + role + " LOGIN PASSWORD '" + password + "'; " + create + " AUTHORIZATION " + role
		remove += "; DROP ROLE " + role
		u.User = url.UserPassword(role, password)
	}
	if _, err := admin.ExecContext(t.Context(), create); err != nil {
		admin.Close()
		t.Fatalf("create a schema on the test server: %v", err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(remove); err != nil {
			t.Errorf("drop the test schema: %v", err)
		}
		admin.Close()
	})
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return Database{URL: u.String(), Engine: store.PostgreSQL, tb: t}
}
