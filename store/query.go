package store

import (
	"context"
	"database/sql"
	"fmt"
)

// Row is the result of QueryRow. Exactly one call of Scan must follow.
type Row struct {
	row *sql.Row
	err error
}

// Scan reads the first row. With no row it returns an error that matches
// sql.ErrNoRows.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return clean(r.row.Scan(dest...))
}

// Query runs one reading statement outside a transaction. The caller closes
// the rows; until then they hold a connection.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := db.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	var rows *sql.Rows
	if stmt != nil {
		rows, err = stmt.QueryContext(ctx, args...)
	} else {
		rows, err = db.read.QueryContext(ctx, db.dialect(query), args...)
	}
	if err != nil {
		return nil, fmt.Errorf("store: query: %w", clean(err))
	}
	return rows, nil
}

// QueryRow is Query for one row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	stmt, err := db.prepare(ctx, query)
	if err != nil {
		return &Row{err: err}
	}
	if stmt != nil {
		return &Row{row: stmt.QueryRowContext(ctx, args...)}
	}
	return &Row{row: db.read.QueryRowContext(ctx, db.dialect(query), args...)}
}

// prepare returns the prepared statement of a text, nil when the driver is
// to be asked directly: on PostgreSQL, whose driver keeps prepared statements
// per connection by itself, and when the cache is full.
func (db *DB) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if db.engine == PostgreSQL {
		return nil, nil
	}
	if stmt, ok := db.prepared.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	if db.preparedCount.Load() >= maxCachedTexts {
		return nil, nil
	}
	stmt, err := db.read.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("store: query: %w", clean(err))
	}
	if first, loaded := db.prepared.LoadOrStore(query, stmt); loaded {
		stmt.Close()
		return first.(*sql.Stmt), nil
	}
	db.preparedCount.Add(1)
	return stmt, nil
}
