package inbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Nearly all of the time that storing a delivery takes is the wait for its
// commit, so concurrent deliveries share one. The first caller stores at once;
// who comes meanwhile waits, and the first of those then stores for all of them.
// A caller alone pays nothing, and there is no goroutine to look after.
type batcher struct {
	mu      sync.Mutex
	storing bool
	next    []*arrival // whose first member is to store it next
}

type arrival struct {
	Delivery
	row    string // the id of its row, if it becomes one
	sealed []byte
	digest []byte

	verdict Verdict
	err     error
	done    chan bool // receives false when it is this one's turn to store
}

const (
	// maxBatch bounds how long a batch holds SQLite's write lock. Its parts go
	// to the database as statements of maxRows and of one.
	maxBatch      = 128
	maxBatchBytes = 32 << 20
	maxRows       = 16

	// storeTimeout bounds one batch, whatever the patience of its callers.
	storeTimeout = 10 * time.Second
)

// Ingest stores a delivery. When it returns a Verdict the delivery is on disk.
// After an error it may or may not be: the sender is to repeat it, which is
// noticed. The context ends the wait, not what was begun for others.
func (b *Inbox) Ingest(ctx context.Context, d Delivery) (Verdict, error) {
	if err := d.check(); err != nil {
		return 0, err
	}
	a := &arrival{Delivery: d.withID(), digest: digest(d.Body), done: make(chan bool, 1)}
	if a.ReceivedAt.IsZero() {
		a.ReceivedAt = time.Now().Add(b.skew)
	}
	a.row = rowID(a.ReceivedAt)
	var err error
	if a.sealed, err = b.seal(d, a.row); err != nil {
		return 0, err
	}
	if b.batch.enter(a) {
		b.storeBatch(ctx)
	}
	select {
	case finished := <-a.done:
		if !finished {
			b.storeBatch(ctx)
			<-a.done
		}
	case <-ctx.Done():
		if finished := b.batch.abandon(a); !finished {
			b.storeBatch(ctx) // the turn came in the same moment; the others rely on it
		}
		return 0, fmt.Errorf("inbox: ingest: %w", ctx.Err())
	}
	return a.verdict, a.err
}

// enter puts an arrival in line and tells whether it is to store right away.
func (q *batcher) enter(a *arrival) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = append(q.next, a)
	if q.storing {
		return false
	}
	q.storing = true
	return true
}

// abandon takes an arrival out of the line if it still stands there. It answers
// false when the arrival has been given the turn to store.
func (q *batcher) abandon(a *arrival) (finished bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case finished = <-a.done:
		return finished
	default:
	}
	if i := slices.Index(q.next, a); i >= 0 {
		q.next = slices.Delete(q.next, i, i+1)
	}
	return true
}

// take is the batch that the caller stores.
func (q *batcher) take() []*arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.next) && n < maxBatch && (n == 0 || size+len(q.next[n].sealed) <= maxBatchBytes) {
		size += len(q.next[n].sealed)
		n++
	}
	batch := slices.Clone(q.next[:n])
	q.next = slices.Delete(q.next, 0, n)
	return batch
}

// leave passes the turn on.
func (q *batcher) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.next) == 0 {
		q.storing = false
		return
	}
	q.next[0].done <- false
}

func (b *Inbox) storeBatch(ctx context.Context) {
	batch := b.batch.take()
	err := errNotStored
	defer func() {
		// Also when something below panics: nobody waits for ever, and nobody
		// is told that an unstored delivery is stored.
		for _, a := range batch {
			if err != nil {
				a.verdict, a.err = 0, fmt.Errorf("inbox: ingest: %w", err)
			}
			a.done <- true
		}
		b.batch.leave()
	}()
	// In the order of their keys, so that two processes that store the same
	// deliveries do not wait for each other.
	ordered := slices.Clone(batch)
	slices.SortStableFunc(ordered, func(x, y *arrival) int {
		return cmp.Or(strings.Compare(x.Endpoint, y.Endpoint), strings.Compare(x.ID, y.ID))
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	err = b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		for _, a := range batch {
			a.verdict = 0
		}
		return b.insert(ctx, tx, ordered)
	})
	if err == nil {
		poke(b.arrivals)
	}
}

var errNotStored = errors.New("delivery was not stored")

func (b *Inbox) insert(ctx context.Context, tx *store.Tx, batch []*arrival) error {
	for rest := batch; len(rest) > 0; {
		n := 1
		if len(rest) >= maxRows {
			n = maxRows
		}
		if err := insertRows(ctx, tx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for _, a := range batch {
		if a.verdict != 0 {
			continue
		}
		if err := b.again(ctx, tx, a); err != nil {
			return err
		}
	}
	return nil
}

const (
	insertRow = `INSERT INTO webhook_delivery (id, tenant, endpoint, delivery_id, digest, conflict_of, provider, connection,
		event_type, secret, id_signed, pull, received_at, body, state, reason, tries, claimed_until, decoded_at, marks, repeats, kept) VALUES `
	rowValues = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'received', '', 0, 0, 0, 0, 0, 1)`
)

var insertMany = insertRow + rowValues + strings.Repeat(", "+rowValues, maxRows-1)

func rowArgs(a *arrival, conflictOf string) []any {
	return []any{a.row, a.Tenant, a.Endpoint, a.ID, a.digest, conflictOf, a.Provider, a.Connection,
		a.EventType, a.Secret, bit(a.IDSigned), bit(a.Pull), a.ReceivedAt.UnixMilli(), a.sealed}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func insertRows(ctx context.Context, tx *store.Tx, batch []*arrival) error {
	query := insertRow + rowValues
	if len(batch) == maxRows {
		query = insertMany
	}
	var args []any
	rows := make(map[string]*arrival, len(batch))
	for _, a := range batch {
		args = append(args, rowArgs(a, "")...)
		rows[a.row] = a
	}
	stored, err := tx.Query(ctx, query+` ON CONFLICT (endpoint, delivery_id) WHERE conflict_of = '' DO NOTHING RETURNING id`, args...)
	if err != nil {
		return err
	}
	ids, err := scanAll(stored, func(r *sql.Rows) (id string, err error) { return id, r.Scan(&id) })
	for _, id := range ids {
		rows[id].verdict = Stored
	}
	return err
}

// again handles an id that is known: the same body is a duplicate, another one
// is stored beside the first, so that it is neither lost nor taken for it.
func (b *Inbox) again(ctx context.Context, tx *store.Tx, a *arrival) error {
	var first string
	var known []byte
	if err := tx.QueryRow(ctx, `SELECT id, digest FROM webhook_delivery WHERE endpoint = ? AND delivery_id = ? AND conflict_of = ''`,
		a.Endpoint, a.ID).Scan(&first, &known); err != nil {
		return fmt.Errorf("inbox: the delivery with this id: %w", err)
	}
	if !bytes.Equal(known, a.digest) {
		n, err := tx.Exec(ctx, insertRow+rowValues+` ON CONFLICT (endpoint, delivery_id, digest) WHERE conflict_of <> '' DO NOTHING`,
			rowArgs(a, first)...)
		if err != nil {
			return err
		}
		if n == 1 {
			a.verdict = Conflict
			return nil
		}
	}
	a.verdict = Duplicate
	_, err := tx.Exec(ctx, `UPDATE webhook_delivery SET repeats = repeats + 1 WHERE endpoint = ? AND delivery_id = ? AND digest = ?`,
		a.Endpoint, a.ID, a.digest)
	return err
}

// rowID begins with the time, so that rows of one time lie together on disk.
func rowID(at time.Time) string {
	var random [10]byte
	rand.Read(random[:])
	return rowPrefix(at) + hex.EncodeToString(random[:])
}

// rowPrefix is before the ids of all rows of this time and later.
func rowPrefix(at time.Time) string { return fmt.Sprintf("%012x", at.UnixMilli()) }
