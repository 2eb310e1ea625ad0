package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// SQLite has one writer at a time, and nearly all of a small transaction's time
// is the wait for its commit to reach the disk. So concurrent calls of Update
// share a transaction and its commit: who comes next while others wait in line
// runs in a savepoint of the same transaction, and whoever gets the turn back
// first commits for all. A caller alone commits at once and pays nothing.
//
// Each of them is as isolated as in a transaction of its own:
//
//   - one runs at a time, and what a failed one did is rolled back to its
//     savepoint, without a trace for the others;
//   - nobody is told anything, neither success nor a refusal that may rest on
//     what another has written, before the shared commit is on disk;
//   - when the shared transaction comes to nothing for certain, each of them
//     runs again in a transaction of its own; when that isn't certain, those who
//     have written get ErrCommitUnknown.
type group struct {
	turn    chan struct{} // holds one token while somebody has the turn; first come, first served
	current *shared       // guarded by the turn; nil: none is open
}

func newGroup() group { return group{turn: make(chan struct{}, 1)} }

// shared is one transaction of several callers. Its fields are guarded by the
// turn until done is closed, and don't change afterwards.
type shared struct {
	tx      *sql.Tx
	cancel  context.CancelFunc
	members int // who succeeded in it
	fresh   []string

	done chan struct{}
	lost bool  // nothing was committed, for certain
	err  error // of the commit; nil and not lost: it is on disk
}

var errLost = errors.New("the shared transaction was lost")

// updateGrouped is Update on SQLite.
func (db *DB) updateGrouped(ctx context.Context, fn func(*Tx) error) error {
	busy := 0
	for alone := false; ; {
		err := db.join(ctx, fn, alone)
		switch {
		case errors.Is(err, errLost):
			if alone {
				return fmt.Errorf("store: not committed: %w", err)
			}
			alone = true
		case errors.Is(err, errBegin):
			if busy++; busy == maxAttempts {
				return fmt.Errorf("store: begin: %w", ErrBusy)
			}
		default:
			return err
		}
	}
}

// errBegin means that SQLite's write lock was not had.
var errBegin = errors.New("write lock not had")

// join runs fn in the open transaction, or in a new one, and returns when that
// is over. The result errLost means that fn left no trace and should run again.
func (db *DB) join(ctx context.Context, fn func(*Tx) error, alone bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := &db.group
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("store: begin: %w", ctx.Err())
	}
	mine := true
	leave := func() {
		if mine {
			mine = false
			<-q.turn
		}
	}
	defer leave() // also when fn panics

	if alone && q.current != nil {
		db.commit(q.current)
	}
	if q.current == nil {
		if err := db.open(ctx); err != nil {
			return err
		}
	}
	s := q.current
	err := db.run(ctx, s, fn)
	if s.members == 0 {
		return err // it was the only one, and its transaction is rolled back
	}
	if err == nil {
		if !alone {
			// To the end of the line: whoever stands there now comes along.
			leave()
			select {
			case <-s.done:
			case q.turn <- struct{}{}:
				mine = true
			}
		}
		if mine && q.current == s {
			db.commit(s)
		}
	}
	leave()
	<-s.done
	switch {
	case s.lost:
		return errLost
	case err != nil && s.err != nil:
		return errLost // a refusal that may rest on what isn't there
	case err != nil:
		return err
	}
	return s.err
}

// open begins a shared transaction. It belongs to no caller's context: the
// first one's must not end the others' work.
func (db *DB) open(ctx context.Context) error {
	tx, stop, cancel, err := db.begin(ctx)
	if err != nil {
		if isSQLiteBusy(err) {
			return errBegin
		}
		return err
	}
	if !stop() {
		tx.Rollback()
		cancel()
		return fmt.Errorf("store: begin: %w", ctx.Err())
	}
	db.group.current = &shared{tx: tx, cancel: cancel, done: make(chan struct{})}
	return nil
}

// run lets one caller work in the shared transaction, and takes all back that
// it did if it fails, panics, or ends its goroutine. The first needs no savepoint.
func (db *DB) run(ctx context.Context, s *shared, fn func(*Tx) error) (err error) {
	work := &Tx{engine: SQLite, db: db, tx: s.tx, cache: &db.writing}
	always := context.WithoutCancel(ctx)
	ok := false
	defer func() {
		if ok {
			return
		}
		if s.members > 0 {
			_, undone := work.Exec(always, "ROLLBACK TO caller")
			if undone == nil {
				_, undone = work.Exec(always, "RELEASE caller")
			}
			if undone == nil {
				return
			}
		}
		// SQLite has given up the whole transaction (a full disk, an input or
		// output error), or there is nobody else in it.
		db.lose(s)
	}()
	if s.members > 0 {
		if _, err := work.Exec(always, "SAVEPOINT caller"); err != nil {
			return errLost
		}
	}
	if err := fn(work); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store: not committed: %w", err)
	}
	if s.members > 0 {
		if _, err := work.Exec(always, "RELEASE caller"); err != nil {
			return errLost
		}
	}
	ok = true
	s.members++
	s.fresh = append(s.fresh, work.fresh...)
	return nil
}

// lose ends a shared transaction of which nothing is kept.
func (db *DB) lose(s *shared) {
	s.tx.Rollback()
	s.cancel()
	s.lost = true
	db.group.current = nil
	close(s.done)
}

// commit ends a shared transaction for all who are in it.
func (db *DB) commit(s *shared) {
	patience := time.AfterFunc(commitPatience, s.cancel)
	err := s.tx.Commit()
	patience.Stop()
	if err != nil {
		err = commitError(SQLite, err)
		s.lost = s.members > 1 && !errors.Is(err, ErrCommitUnknown)
		s.err = fmt.Errorf("store: %w", err)
	} else {
		// Only quicker the next time, so errors are of no interest.
		for _, query := range s.fresh {
			_, _ = db.writing.get(context.Background(), db.write, query)
		}
	}
	s.cancel()
	db.group.current = nil
	close(s.done)
}
