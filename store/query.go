package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
)

// Row is the result of QueryRow. Exactly one call of Scan must follow.
type Row struct {
	row   *sql.Row
	later func(dest []any) error // instead of row
	err   error
}

// Scan reads the first row. With no row it returns an error that matches
// sql.ErrNoRows.
func (r *Row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if r.later != nil {
		return r.later(dest)
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
	return db.reading.get(ctx, db.read, query)
}

// statements keeps the prepared statements of one of SQLite's pools. Preparing
// costs about as much as running a small statement.
type statements struct {
	texts sync.Map // string -> *sql.Stmt
	count atomic.Int64
}

// known returns the statement if it was prepared before.
func (s *statements) known(query string) *sql.Stmt {
	stmt, ok := s.texts.Load(query)
	if !ok {
		return nil
	}
	return stmt.(*sql.Stmt)
}

// get returns the statement, nil when the cache is full.
func (s *statements) get(ctx context.Context, pool *sql.DB, query string) (*sql.Stmt, error) {
	if stmt := s.known(query); stmt != nil {
		return stmt, nil
	}
	if s.count.Load() >= maxCachedTexts {
		return nil, nil
	}
	stmt, err := pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("store: query: %w", clean(err))
	}
	if first, loaded := s.texts.LoadOrStore(query, stmt); loaded {
		stmt.Close()
		return first.(*sql.Stmt), nil
	}
	s.count.Add(1)
	return stmt, nil
}

func (s *statements) close() {
	s.texts.Range(func(_, stmt any) bool {
		stmt.(*sql.Stmt).Close()
		return true
	})
}
