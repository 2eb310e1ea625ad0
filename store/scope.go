package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Scope says whose rows a statement may meet where PostgreSQL guards the
// tables by row (row-level security). It is a second wall: every statement still
// names its tenant, and one that forgets to finds nothing of the others. The
// zero value is no scope, for which guarded tables are empty. SQLite has no such
// guard and takes no notice.
//
// A guard is made in a migration named *.postgresql.sql:
//
//	ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
//	ALTER TABLE notes FORCE ROW LEVEL SECURITY; -- for the owner too, who we are
//	CREATE POLICY tenant ON notes USING (
//	    current_setting('drawbridge.scope', true) IN ('*', '=' || tenant_id));
//
// Superusers and roles with BYPASSRLS pass it: run as neither.
type Scope struct{ setting string }

// Tenant is the scope of one tenant's rows.
func Tenant(id string) Scope { return Scope{"=" + id} }

// AllTenants is the scope of workers that serve every tenant.
func AllTenants() Scope { return Scope{"*"} }

// Local to the transaction, so that a connection goes back to its pool without it.
const setScope = "SELECT set_config('drawbridge.scope', $1, true)"

// UpdateFor is Update within a scope. It takes no more round trips.
func (db *DB) UpdateFor(ctx context.Context, s Scope, fn func(*Tx) error) error {
	if db.engine == PostgreSQL {
		ctx = s.beginWith(ctx, "BEGIN")
	}
	return db.Update(ctx, fn)
}

// ViewFor is View within a scope. It takes no more round trips.
func (db *DB) ViewFor(ctx context.Context, s Scope, fn func(*Tx) error) error {
	if db.engine == PostgreSQL {
		ctx = s.beginWith(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	return db.View(ctx, fn)
}

// A Scanner reads the columns of the row it stands on.
type Scanner interface{ Scan(dest ...any) error }

// EachFor runs one reading statement outside a transaction, within a scope, and
// calls fn for every row. On PostgreSQL scope and statement travel together, as
// one implicit transaction: it takes no more round trips than Query. The rows
// hold a connection until EachFor returns, so fn must not ask the database.
// An error of fn ends it and is returned as it is.
func (db *DB) EachFor(ctx context.Context, s Scope, fn func(Scanner) error, query string, args ...any) error {
	if db.engine == SQLite {
		rows, err := db.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := fn(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	var err error
	for range maxAttempts {
		// As database/sql does for its own statements: a connection that died
		// in the pool, before anything was sent, is no failure.
		if err = db.eachFor(ctx, s, fn, query, args); err == nil || !pgconn.SafeToRetry(err) {
			break
		}
	}
	return err
}

// eachFor is one attempt on PostgreSQL.
func (db *DB) eachFor(ctx context.Context, s Scope, fn func(Scanner) error, query string, args []any) error {
	conn, err := db.read.Conn(ctx)
	if err != nil {
		return fmt.Errorf("store: query: %w", clean(err))
	}
	defer conn.Close()
	var own error // of fn, which the pool must not take for the connection's
	err = conn.Raw(func(driver any) error {
		direct, ok := driver.(scopedConn)
		if !ok {
			return errors.New("not a connection to postgresql")
		}
		var batch pgx.Batch
		batch.Queue(setScope, s.setting)
		batch.Queue(db.dialect(query), args...)
		answers := direct.Conn.Conn().SendBatch(ctx, &batch)
		_, err := answers.Exec()
		if err == nil {
			var rows pgx.Rows
			if rows, err = answers.Query(); err == nil {
				for own == nil && rows.Next() {
					own = fn(rows)
				}
				rows.Close()
				err = rows.Err()
			}
		}
		if closed := answers.Close(); err == nil {
			err = closed
		}
		return err
	})
	switch {
	case own != nil:
		return own
	case err != nil:
		return fmt.Errorf("store: query: %w", clean(err))
	}
	return nil
}

// QueryRowFor is EachFor for one row. The statement runs when the row is scanned.
func (db *DB) QueryRowFor(ctx context.Context, s Scope, query string, args ...any) *Row {
	if db.engine == SQLite {
		return db.QueryRow(ctx, query, args...)
	}
	return &Row{later: func(dest []any) error {
		found := false
		err := db.EachFor(ctx, s, func(row Scanner) error {
			if found {
				return nil
			}
			found = true
			return row.Scan(dest...)
		}, query, args...)
		if err == nil && !found {
			err = sql.ErrNoRows
		}
		return err
	}}
}
