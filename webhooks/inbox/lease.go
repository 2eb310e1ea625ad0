package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// A Lease is the right to apply one lane until a time. Its fence is greater
// than that of every lease of the lane before it.
type Lease struct {
	Lane
	Fence    int64
	Dirty    int64     // what Complete settles; later marks remain
	Until    time.Time // by the database's clock
	Attempts int       // this one included; starts at 1 after every success
	Removes  bool      // a mark said so; see Mark.Removes
}

// ErrFenced means that the lease is no longer the lane's: it ran out and
// somebody else has the lane, or it was settled already. Drop what was fetched.
var ErrFenced = errors.New("lease is not valid any more")

// A Pause is an error of Apply that says that the provider turned the whole
// connection away (401, 403, 429). The connection's lanes rest, and none of
// them is charged with an attempt.
type Pause struct {
	Reason string        // a code such as "rate_limited"; no text of the provider
	For    time.Duration // zero: a minute, doubled each time up to 15 minutes
}

func (p *Pause) Error() string { return "connection is paused: " + p.Reason }

const (
	minBackoff = 5 * time.Second
	maxBackoff = time.Hour

	minPause = time.Minute
	maxPause = 15 * time.Minute
)

// Claim leases up to n lanes that are due, each to one caller of all processes.
// The connections take turns, who waited longest first, and none has more than
// Config.PerConnection lanes leased at once.
func (b *Inbox) Claim(ctx context.Context, n int) ([]Lease, error) {
	var leases []Lease
	err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		leases = leases[:0]
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		queues, err := b.dueQueues(ctx, tx, now, n)
		if err != nil {
			return err
		}
		for i, q := range queues {
			if _, err := tx.Exec(ctx, `UPDATE webhook_queue SET turn = ? WHERE id = ?`, now.UnixMilli(), q.id); err != nil {
				return err
			}
			want := min(q.room, (n-len(leases)+len(queues)-i-1)/(len(queues)-i))
			for place := 0; place <= 1 && want > 0; place++ {
				got, err := b.claimIn(ctx, tx, now, q.id, place, want)
				if err != nil {
					return err
				}
				want -= len(got)
				leases = append(leases, got...)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

type dueQueue struct {
	id   string
	room int
}

// dueQueues locks up to n connections that have due lanes and room for another
// lease. The lock makes the count of leases hold until the commit; a connection
// that another process is claiming from is passed over.
func (b *Inbox) dueQueues(ctx context.Context, tx *store.Tx, now time.Time, n int) ([]dueQueue, error) {
	rows, err := tx.Query(ctx, `SELECT q.id FROM webhook_queue q
		WHERE q.paused_until <= ?1
		AND EXISTS (SELECT 1 FROM webhook_lane l WHERE l.queue = q.id AND l.place IN (0, 1) AND l.due_at <= ?1
			AND l.dirty > l.applied AND l.parked_at = 0)
		AND (SELECT COUNT(*) FROM webhook_lane l WHERE l.queue = q.id AND l.lease_until > ?1 AND l.lease_until > 0) < ?2
		ORDER BY q.turn, q.id LIMIT ?3`+skipLocked(tx), now.UnixMilli(), b.perConnection, n)
	if err != nil {
		return nil, err
	}
	ids, err := scanAll(rows, func(r *sql.Rows) (id string, err error) { return id, r.Scan(&id) })
	if err != nil {
		return nil, err
	}
	queues := make([]dueQueue, 0, len(ids))
	for _, id := range ids {
		// Counted again under the lock.
		var leased int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM webhook_lane WHERE queue = ? AND lease_until > ? AND lease_until > 0`,
			id, now.UnixMilli()).Scan(&leased); err != nil {
			return nil, err
		}
		if room := b.perConnection - leased; room > 0 {
			queues = append(queues, dueQueue{id, room})
		}
	}
	return queues, nil
}

func (b *Inbox) claimIn(ctx context.Context, tx *store.Tx, now time.Time, queue string, place, n int) ([]Lease, error) {
	until := now.Add(b.lease)
	rows, err := tx.Query(ctx, `WITH due AS (SELECT id FROM webhook_lane
			WHERE queue = ?1 AND place = ?2 AND due_at <= ?3 AND dirty > applied AND parked_at = 0
			ORDER BY due_at LIMIT ?4`+skipLocked(tx)+`)
		UPDATE webhook_lane SET fence = fence + 1, attempts = attempts + 1, claimed_at = ?3, lease_until = ?5, due_at = ?5
		WHERE id IN (SELECT id FROM due)
		RETURNING tenant, provider, connection, kind, object, fence, dirty, attempts`,
		queue, place, now.UnixMilli(), n, until.UnixMilli())
	if err != nil {
		return nil, err
	}
	leases, err := scanAll(rows, func(r *sql.Rows) (Lease, error) {
		l := Lease{Until: until, Removes: place == 0}
		err := r.Scan(&l.Tenant, &l.Provider, &l.Connection, &l.Kind, &l.Object, &l.Fence, &l.Dirty, &l.Attempts)
		return l, err
	})
	if err != nil {
		return nil, err
	}
	alive := leases[:0]
	for _, l := range leases {
		if l.Attempts <= maxAttempts {
			alive = append(alive, l)
			continue
		}
		// Every attempt so far ended without a word: it kills its process.
		if err := b.park(ctx, tx, l, now, "abandoned"); err != nil {
			return nil, err
		}
	}
	return alive, nil
}

func (b *Inbox) park(ctx context.Context, tx *store.Tx, l Lease, now time.Time, reason string) error {
	n, err := tx.Exec(ctx, `UPDATE webhook_lane SET parked_at = ?, reason = ?, lease_until = 0, attempts = ?
		WHERE id = ? AND fence = ? AND lease_until > 0`, now.UnixMilli(), reason, maxAttempts, l.ID(), l.Fence)
	return fenced(n, err)
}

// Renew makes the lease last its full time again, from now. A lease that ran out
// is not renewed even if nobody has claimed the lane: its place in the
// connection's budget may be taken.
func (b *Inbox) Renew(ctx context.Context, l Lease) (Lease, error) {
	err := b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		l.Until = now.Add(b.lease)
		n, err := tx.Exec(ctx, `UPDATE webhook_lane SET lease_until = ?1, due_at = ?1
			WHERE id = ?2 AND fence = ?3 AND lease_until > ?4`, l.Until.UnixMilli(), l.ID(), l.Fence, now.UnixMilli())
		return fenced(n, err)
	})
	return l, err
}

// Complete settles a lease in the transaction that stores what the apply found,
// so that either both happen or neither does. With ErrFenced the caller returns
// it and the transaction is rolled back. The lane stays dirty when it was marked
// since the claim.
func (b *Inbox) Complete(ctx context.Context, tx *store.Tx, l Lease) error {
	now, err := b.now(ctx, tx)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE webhook_lane SET applied = ?1, applied_at = ?2, due_at = ?2, lease_until = 0, attempts = 0, reason = '',
			place = CASE WHEN dirty = ?1 THEN 1 ELSE place END,
			dirty_at = CASE WHEN dirty = ?1 THEN 0 ELSE claimed_at END
		WHERE id = ?3 AND fence = ?4 AND lease_until > 0`, l.Dirty, now.UnixMilli(), l.ID(), l.Fence)
	if err := fenced(n, err); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE webhook_queue SET pauses = 0, paused_until = 0, reason = '' WHERE id = ? AND pauses > 0`, l.queue())
	return err
}

// Fail gives a lease back. The lane is due again after 5 seconds, doubled with
// each attempt up to an hour, with jitter, and parked after the tenth. When
// cause is a *Pause, or a context that ended, no attempt is charged.
func (b *Inbox) Fail(ctx context.Context, l Lease, cause error) error {
	var pause *Pause
	switch {
	case errors.As(cause, &pause):
		return b.giveBack(ctx, l, pause)
	case errors.Is(cause, context.Canceled):
		return b.giveBack(ctx, l, nil)
	}
	return b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		if l.Attempts >= maxAttempts {
			return b.park(ctx, tx, l, now, clip(b.reason(cause)))
		}
		n, err := tx.Exec(ctx, `UPDATE webhook_lane SET due_at = ?, lease_until = 0, reason = ?
			WHERE id = ? AND fence = ? AND lease_until > 0`, now.Add(backoff(l.Attempts)).UnixMilli(), clip(b.reason(cause)), l.ID(), l.Fence)
		return fenced(n, err)
	})
}

// giveBack takes the attempt back and, with a pause, lets the connection rest.
func (b *Inbox) giveBack(ctx context.Context, l Lease, p *Pause) error {
	return b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE webhook_lane SET due_at = ?, lease_until = 0, attempts = attempts - 1
			WHERE id = ? AND fence = ? AND lease_until > 0`, now.UnixMilli(), l.ID(), l.Fence)
		if err := fenced(n, err); err != nil || p == nil {
			return err
		}
		var pauses int
		if err := tx.QueryRow(ctx, `UPDATE webhook_queue SET pauses = pauses + 1, reason = ? WHERE id = ? RETURNING pauses`,
			clip(p.Reason), l.queue()).Scan(&pauses); err != nil {
			return err
		}
		rest := p.For
		if rest <= 0 {
			rest = min(minPause<<min(pauses-1, 10), maxPause)
		}
		_, err = tx.Exec(ctx, `UPDATE webhook_queue SET paused_until = ?1 WHERE id = ?2 AND paused_until < ?1`,
			now.Add(rest).UnixMilli(), l.queue())
		return err
	})
}

// backoff is between d and 1.5 d, so that lanes that failed together do not
// come back together.
func backoff(attempts int) time.Duration {
	d := min(minBackoff<<min(max(attempts-1, 0), 20), maxBackoff)
	return min(d+rand.N(d/2), maxBackoff)
}

func fenced(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrFenced
	}
	return err
}

func skipLocked(tx *store.Tx) string {
	if tx.Engine() == store.PostgreSQL {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// scanAll reads and closes rows.
func scanAll[T any](rows *sql.Rows, scan func(*sql.Rows) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("inbox: read: %w", err)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}
