package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

var serviceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

func (m Migrations) check() error {
	if !serviceName.MatchString(m.Service) {
		return fmt.Errorf("bad service name %q for migrations", m.Service)
	}
	if m.FS == nil {
		return fmt.Errorf("no migration files for service %s", m.Service)
	}
	return nil
}

// migrate brings every service to its newest version. The caller holds a lock
// that keeps other processes out: the version tables have no unique key, so two
// runs at once could apply one file twice.
func migrate(ctx context.Context, e Engine, db *sql.DB, sets []Migrations) error {
	dialect := goose.DialectSQLite3
	if e == PostgreSQL {
		dialect = goose.DialectPostgres
	}
	for _, m := range sets {
		p, err := goose.NewProvider(dialect, db, typedFS{m.FS, e},
			goose.WithTableName("goose_"+m.Service),
			goose.WithDisableGlobalRegistry(true),
			goose.WithSlog(slog.New(slog.DiscardHandler)))
		if errors.Is(err, goose.ErrNoMigrations) {
			return fmt.Errorf("no migration files for service %s", m.Service)
		}
		if err != nil {
			return fmt.Errorf("migrations of %s: %w", m.Service, err)
		}
		current, newest, err := p.GetVersions(ctx)
		if err != nil {
			return fmt.Errorf("migrations of %s: %w", m.Service, err)
		}
		if current > newest {
			return fmt.Errorf("tables of %s are at version %d, this program knows %d: %w", m.Service, current, newest, ErrNewer)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrations of %s: %w", m.Service, err)
		}
	}
	return nil
}

// typedFS shows the migration files with the type word BYTES replaced by the
// engine's own, and those named *.postgresql.sql without effect elsewhere.
type typedFS struct {
	fs.FS
	engine Engine
}

func (t typedFS) Open(name string) (fs.File, error) {
	if path.Ext(name) != ".sql" {
		return t.FS.Open(name)
	}
	text, err := fs.ReadFile(t.FS, name)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(text, []byte("+goose NO TRANSACTION")) {
		// A crash in the middle would leave a state that no version names.
		return nil, fmt.Errorf("migration %s asks to run outside a transaction", name)
	}
	if t.engine == SQLite && strings.HasSuffix(name, ".postgresql.sql") {
		// Its number is taken on both, so that they count alike.
		text = []byte("-- +goose Up\nSELECT 1;\n")
	}
	typed := typeWords(string(text), t.engine)
	return &sqlFile{Reader: bytes.NewReader([]byte(typed)), name: path.Base(name)}, nil
}

// sqlFile is a file of the size that replacing left it with.
type sqlFile struct {
	*bytes.Reader
	name string
}

func (f *sqlFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *sqlFile) Close() error               { return nil }
func (f *sqlFile) Name() string               { return f.name }
func (f *sqlFile) Mode() fs.FileMode          { return 0o444 }
func (f *sqlFile) ModTime() time.Time         { return time.Time{} }
func (f *sqlFile) IsDir() bool                { return false }
func (f *sqlFile) Sys() any                   { return nil }
