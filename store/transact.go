package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// A transaction is tried this often when the database gave it up in favour
	// of another, or its lock could not be had.
	maxAttempts = 3

	// A commit that was sent is waited for even if the caller has gone, but
	// not for ever on a dead connection.
	commitPatience = 30 * time.Second
)

// Tx is a transaction in progress. It is valid only inside the function it was
// given to, and not for concurrent use.
type Tx struct {
	engine Engine
	db     *DB
	tx     *sql.Tx
	// cache has the statements of the transaction's pool; nil: the driver is
	// asked directly. fresh are texts that it did not have.
	cache *statements
	fresh []string
}

// Engine tells which database this is.
func (tx *Tx) Engine() Engine { return tx.engine }

// prepared returns the statement to run, or nil. SQLite's writing pool has one
// connection, which this transaction holds, so a new text can't be prepared for
// later before it ends.
func (tx *Tx) prepared(ctx context.Context, query string) *sql.Stmt {
	if tx.cache == nil {
		return nil
	}
	stmt := tx.cache.known(query)
	if stmt == nil {
		tx.fresh = append(tx.fresh, query)
		return nil
	}
	return tx.tx.StmtContext(ctx, stmt)
}

// own is the context of one statement. SQLite rolls a whole transaction back
// when a statement that writes is interrupted, and others may share this one:
// there a context ends the work before a statement, never within.
func (tx *Tx) own(ctx context.Context) (context.Context, error) {
	if tx.cache == nil {
		return ctx, nil
	}
	return context.WithoutCancel(ctx), ctx.Err()
}

// Update runs fn in a write transaction. When it returns nil the change is on
// disk. When fn returns an error or panics the transaction is rolled back and
// the error returned as it is.
//
// After ErrCommitUnknown the change may have been made; after any other error
// it was not. The context ends waiting and statements, but not a commit that
// was already sent.
//
// fn can run up to three times, when it is certain that nothing was committed:
// PostgreSQL has ended the transaction in favour of another (serialization
// failure, deadlock), or others who shared its commit on SQLite have spoilt it.
// So fn must have no effect but through tx and variables that it sets anew. The
// wait for SQLite's write lock is repeated as well, and Update gives up with
// ErrBusy after about 24 seconds. Nothing else is tried twice.
//
// On SQLite concurrent calls share commits; see group.go. From the end of fn on
// the context no longer matters there.
//
// Calling Update or View of the same DB from within fn can wait for itself.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if db.engine == SQLite {
		return db.updateGrouped(ctx, fn)
	}
	for attempt := 1; ; attempt++ {
		err := db.update(ctx, fn)
		if err == nil || !isConflict(err) || errors.Is(err, ErrCommitUnknown) || attempt == maxAttempts {
			return err
		}
		// The winner of a deadlock needs a moment to be done.
		pause := time.Duration(attempt) * (5*time.Millisecond + rand.N(20*time.Millisecond))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// update is one attempt on PostgreSQL.
func (db *DB) update(ctx context.Context, fn func(*Tx) error) error {
	// The transaction ends with the caller's context until the commit is
	// sent. From then on a cancelled caller must not turn a commit that is
	// about to succeed into an unknown one.
	tx, stop, cancel, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	defer tx.Rollback() // without effect after a commit

	if err := fn(&Tx{engine: db.engine, db: db, tx: tx}); err != nil {
		return err
	}
	if !stop() {
		return fmt.Errorf("store: not committed: %w", ctx.Err())
	}
	patience := time.AfterFunc(commitPatience, cancel)
	defer patience.Stop()
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store: %w", commitError(db.engine, err))
	}
	return nil
}

// begin starts a write transaction that the caller's context ends until stop
// was called and returned true.
func (db *DB) begin(ctx context.Context) (tx *sql.Tx, stop func() bool, cancel context.CancelFunc, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, nil, err
	}
	txCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop = context.AfterFunc(ctx, cancel)
	tx, err = db.write.BeginTx(txCtx, nil)
	if err != nil {
		stop()
		cancel()
		if cause := ctx.Err(); cause != nil {
			return nil, nil, nil, fmt.Errorf("store: begin: %w", cause)
		}
		return nil, nil, nil, fmt.Errorf("store: begin: %w", clean(err))
	}
	return tx, stop, cancel, nil
}

// View runs fn in a read-only transaction that sees one snapshot. It does not
// wait for writers, nor they for it. A statement that writes fails. The
// error of fn is returned as it is.
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	opts := &sql.TxOptions{ReadOnly: true}
	if db.engine == PostgreSQL {
		opts.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.read.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("store: begin: %w", clean(err))
	}
	defer tx.Rollback()
	return fn(&Tx{engine: db.engine, db: db, tx: tx})
}

// Exec runs a statement and returns the number of rows it changed.
func (tx *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	ctx, err := tx.own(ctx)
	if err != nil {
		return 0, err
	}
	var res sql.Result
	if stmt := tx.prepared(ctx, query); stmt != nil {
		res, err = stmt.ExecContext(ctx, args...)
	} else {
		res, err = tx.tx.ExecContext(ctx, tx.db.dialect(query), args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query runs a statement that returns rows. Close them before the next
// statement of the transaction.
func (tx *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, err := tx.own(ctx)
	if err != nil {
		return nil, err
	}
	if stmt := tx.prepared(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return tx.tx.QueryContext(ctx, tx.db.dialect(query), args...)
}

// QueryRow runs a statement of which one row is wanted.
func (tx *Tx) QueryRow(ctx context.Context, query string, args ...any) *Row {
	ctx, err := tx.own(ctx)
	if err != nil {
		return &Row{err: err}
	}
	if stmt := tx.prepared(ctx, query); stmt != nil {
		return &Row{row: stmt.QueryRowContext(ctx, args...)}
	}
	return &Row{row: tx.tx.QueryRowContext(ctx, tx.db.dialect(query), args...)}
}

// Now is like DB.Now. It does not stand still during the transaction.
func (tx *Tx) Now(ctx context.Context) (time.Time, error) {
	return now(ctx, tx.engine, tx.tx)
}
