package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Engine names the database behind a DB.
type Engine int

const (
	SQLite Engine = iota + 1
	PostgreSQL
)

// String returns "sqlite" or "postgresql".
func (e Engine) String() string {
	switch e {
	case SQLite:
		return "sqlite"
	case PostgreSQL:
		return "postgresql"
	}
	return "unknown engine"
}

// Config says where the database is and what it must contain.
type Config struct {
	// URL is "sqlite:/path/to/file.db", a bare path, or a "postgres://" URL.
	// Required. A SQLite file and its folder are created when absent, for the
	// owner only; the file must be on a local disk. PostgreSQL URLs take the
	// usual libpq parameters.
	URL string

	// Migrations are applied in this order before Open returns. None means
	// the database is used as it is.
	Migrations []Migrations

	// MaxConns caps the connections: to the server on PostgreSQL, for reading
	// on SQLite, where there is always exactly one more for writing.
	// Zero means 10 on PostgreSQL and 8 on SQLite.
	MaxConns int
}

// Migrations are one service's tables. Each service has its own version table,
// goose_<service>, so services can be added and advance independently.
type Migrations struct {
	// Service is a lower-case name of letters, digits and underscores.
	Service string

	// FS holds goose files (00001_name.sql, with "-- +goose Up") at its root.
	// Each file runs in one transaction. Once released a file never changes.
	FS fs.FS
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine Engine
	read   *sql.DB
	write  *sql.DB // the same pool as read on PostgreSQL

	group group // of SQLite's concurrent writers

	closeOnce sync.Once
	closeErr  error

	// The caches are keyed by the SQL a caller wrote. Services use a fixed
	// set of texts; the cap keeps a caller who builds texts from leaking.
	rewritten        sync.Map // string -> string
	rewrittenCount   atomic.Int64
	reading, writing statements // of SQLite's two pools
}

const maxCachedTexts = 512

// Open connects, creates what is missing and migrates. Several processes may
// open and migrate one database at once; each migration is applied once.
// It fails with ErrNewer if the database was migrated by a later program.
// The context covers Open only. Error texts never contain the URL.
func Open(ctx context.Context, c Config) (*DB, error) {
	if c.URL == "" {
		return nil, errors.New("store: no database url")
	}
	if c.MaxConns < 0 {
		return nil, errors.New("store: negative connection limit")
	}
	seen := make(map[string]bool)
	for _, m := range c.Migrations {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		if seen[m.Service] {
			return nil, fmt.Errorf("store: two sets of migrations for service %s", m.Service)
		}
		seen[m.Service] = true
	}
	open := openSQLite
	if strings.HasPrefix(c.URL, "postgres://") || strings.HasPrefix(c.URL, "postgresql://") {
		open = openPostgres
	} else if scheme, _, ok := strings.Cut(c.URL, "://"); ok && scheme != "sqlite" {
		return nil, errors.New("store: unknown database url scheme")
	}
	db, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", clean(err))
	}
	return db, nil
}

// Close waits for running statements and closes all connections. Transactions
// still open are rolled back. A second call returns the first one's result.
func (db *DB) Close() error {
	db.closeOnce.Do(func() {
		db.reading.close()
		db.writing.close()
		// The writer goes last: the last connection to a SQLite file folds
		// its log back in, which a read-only connection can't do.
		err := db.read.Close()
		if db.write != db.read {
			err = errors.Join(err, db.write.Close())
		}
		if err != nil {
			db.closeErr = fmt.Errorf("store: close: %w", clean(err))
		}
	})
	return db.closeErr
}

// Engine tells which database this is.
func (db *DB) Engine() Engine { return db.engine }

// Ping checks that the database answers a read.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	if err := db.read.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return fmt.Errorf("store: ping: %w", clean(err))
	}
	return nil
}

// Now is the clock for leases and expiry, in UTC, cut to milliseconds: the
// server's clock on PostgreSQL, so that replicas agree, and the host's on
// SQLite, which only processes of one host share.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	return now(ctx, db.engine, db.read)
}

func now(ctx context.Context, e Engine, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (time.Time, error) {
	if e == SQLite {
		return time.UnixMilli(time.Now().UnixMilli()).UTC(), nil
	}
	var ms int64
	const clock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	if err := q.QueryRowContext(ctx, clock).Scan(&ms); err != nil {
		return time.Time{}, fmt.Errorf("store: now: %w", clean(err))
	}
	return time.UnixMilli(ms).UTC(), nil
}
