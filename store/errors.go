package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrCommitUnknown means that a commit was sent and its outcome is not
	// known: the connection was lost before the answer, or the disk failed.
	// The change may be there. Look before doing it again. Every other error
	// of Update means that nothing was changed.
	ErrCommitUnknown = errors.New("outcome of the commit is unknown")

	// ErrBusy means that another process kept the write lock for the whole
	// wait. Nothing was changed; try again later.
	ErrBusy = errors.New("database is busy")

	// ErrUnavailable means that no connection to the database could be made.
	// Nothing was changed.
	ErrUnavailable = errors.New("database can not be reached")

	// ErrNewer means that a later program has migrated the database and this
	// one would misread it.
	ErrNewer = errors.New("database belongs to a newer version of this program")
)

// IsUnique tells whether err is the violation of a unique constraint, a unique
// index or a primary key.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return true
	}
	return false
}

// sqliteCode returns the extended result code in err, zero if there is none.
func sqliteCode(err error) int {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code()
	}
	return 0
}

func isSQLiteBusy(err error) bool { return sqliteCode(err)&0xff == sqlite3.SQLITE_BUSY }

// isConflict tells whether PostgreSQL gave a transaction up in favour of
// another one, which it says only of transactions it has not committed.
func isConflict(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// commitError classifies the error of a COMMIT. Only a clear statement of the
// database that the transaction is gone counts as such.
func commitError(e Engine, err error) error {
	refused := false
	if e == SQLite {
		switch sqliteCode(err) & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL:
			refused = true
		}
	} else {
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg):
			// A backend that is told to end can say so after the commit
			// record was written, hence the severity.
			refused = pg.SeverityUnlocalized == "ERROR"
		case errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err):
			refused = true
		}
	}
	if errors.Is(err, sql.ErrTxDone) {
		refused = true
	}
	if refused {
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
}

// clean takes host, user and database names out of connection errors. The
// driver's text quotes parts of the URL.
func clean(err error) error {
	var connect *pgconn.ConnectError
	if err == nil || !errors.As(err, &connect) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, &connectCause{err: connect})
}

// connectCause keeps what an operator needs of a connection error.
type connectCause struct{ err *pgconn.ConnectError }

func (c *connectCause) Error() string {
	var pg *pgconn.PgError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(c.err, &pg):
		return "refused by the server (SQLSTATE " + pg.Code + ")"
	case errors.As(c.err, &dns):
		return "host name lookup failed"
	case errors.As(c.err, &op) && op.Err != nil && !strings.Contains(op.Err.Error(), "://"):
		return op.Op + ": " + op.Err.Error()
	case errors.Is(c.err, context.DeadlineExceeded), errors.Is(c.err, context.Canceled):
		return "gave up waiting"
	}
	return "connection failed"
}

// Is lets callers see that their own context ended the attempt. The driver's
// error itself stays hidden: its text would be printed by a careless %+v.
func (c *connectCause) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(c.err, target)
}
