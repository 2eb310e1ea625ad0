package inbox

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

var (
	ErrNotFound = errors.New("no such delivery or lane")
	ErrNoBody   = errors.New("body is not kept any more")
)

// The states of a delivery.
const (
	StateReceived    = "received"    // stored, waits to be decoded
	StateDecoded     = "decoded"     // its lanes were marked
	StateIgnored     = "ignored"     // concerns nothing; see Reason
	StateQuarantined = "quarantined" // could not be decoded; see Reason
)

// A Record is what operators see of a delivery: everything but its content.
type Record struct {
	ID         string     `json:"id"`
	Tenant     string     `json:"tenant"`
	Endpoint   string     `json:"endpoint"`
	DeliveryID string     `json:"delivery_id"`
	SHA256     string     `json:"sha256"`                // of the body, in hex
	ConflictOf string     `json:"conflict_of,omitempty"` // the ID of the first delivery with this DeliveryID and another body
	Provider   string     `json:"provider"`
	Connection string     `json:"connection"`
	EventType  string     `json:"event_type,omitempty"`
	Secret     string     `json:"secret,omitempty"`
	Pull       bool       `json:"pull,omitempty"`
	ReceivedAt time.Time  `json:"received_at"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	DecodedAt  *time.Time `json:"decoded_at,omitempty"`
	Marks      int        `json:"marks"`   // lanes that it made dirty
	Repeats    int        `json:"repeats"` // how often it came again
	BodyKept   bool       `json:"body_kept"`
}

const recordColumns = `id, tenant, endpoint, delivery_id, digest, conflict_of, provider, connection, event_type, secret, pull,
	received_at, state, reason, decoded_at, marks, repeats, kept`

func scanRecord(r store.Scanner) (Record, error) {
	var v Record
	var sum []byte
	var received, decoded, pull, kept int64
	err := r.Scan(&v.ID, &v.Tenant, &v.Endpoint, &v.DeliveryID, &sum, &v.ConflictOf, &v.Provider, &v.Connection, &v.EventType, &v.Secret,
		&pull, &received, &v.State, &v.Reason, &decoded, &v.Marks, &v.Repeats, &kept)
	v.Pull, v.BodyKept = pull == 1, kept == 1
	v.SHA256, v.ReceivedAt, v.DecodedAt = hex.EncodeToString(sum), millis(received), moment(decoded)
	return v, err
}

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := millis(ms)
	return &t
}

// Filter chooses deliveries. Empty fields choose all.
type Filter struct {
	Tenant     string // required
	Endpoint   string
	Connection string
	State      string
	Conflicts  bool   // only those with ConflictOf
	Before     string // the ID of the last record of the page before
	Limit      int    // zero means 50, at most 500
}

func limit(n int) int {
	if n <= 0 {
		return 50
	}
	return min(n, 500)
}

// List returns deliveries, newest first.
func (b *Inbox) List(ctx context.Context, f Filter) ([]Record, error) {
	query, args := `SELECT `+recordColumns+` FROM webhook_delivery WHERE tenant = ?`, []any{f.Tenant}
	for _, c := range []struct{ column, value string }{{"endpoint = ?", f.Endpoint}, {"connection = ?", f.Connection}, {"state = ?", f.State}, {"id < ?", f.Before}} {
		if c.value != "" {
			query, args = query+" AND "+c.column, append(args, c.value)
		}
	}
	if f.Conflicts {
		query += " AND conflict_of <> ''"
	}
	var all []Record
	err := b.db.EachFor(ctx, store.Tenant(f.Tenant), func(row store.Scanner) error {
		v, err := scanRecord(row)
		all = append(all, v)
		return err
	}, query+` ORDER BY id DESC LIMIT ?`, append(args, limit(f.Limit))...)
	return all, err
}

// Show returns one delivery. ErrNotFound also when it is another tenant's.
func (b *Inbox) Show(ctx context.Context, tenant, id string) (Record, error) {
	v, err := scanRecord(b.db.QueryRowFor(ctx, store.Tenant(tenant), `SELECT `+recordColumns+` FROM webhook_delivery WHERE tenant = ? AND id = ?`, tenant, id))
	return v, notFound(err)
}

// Body opens what was delivered: foreign text that belongs into no log and no
// model's context. It fails with ErrNoBody when retention dropped it.
func (b *Inbox) Body(ctx context.Context, tenant, id string) (header map[string]string, body []byte, err error) {
	var sealed []byte
	err = b.db.QueryRowFor(ctx, store.Tenant(tenant), `SELECT body FROM webhook_delivery WHERE tenant = ? AND id = ?`, tenant, id).Scan(&sealed)
	if err := notFound(err); err != nil {
		return nil, nil, err
	}
	if sealed == nil {
		return nil, nil, ErrNoBody
	}
	return b.unseal(sealed, tenant, id)
}

// Replay has a delivery decoded once more, whatever came of it before. It fails
// with ErrNoBody when retention dropped the body.
func (b *Inbox) Replay(ctx context.Context, tenant, id string) error {
	err := b.db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE webhook_delivery SET state = 'received', reason = '', tries = 0, claimed_until = 0
			WHERE tenant = ? AND id = ? AND kept = 1`, tenant, id)
		if err != nil || n == 1 {
			return err
		}
		var known string
		if err := tx.QueryRow(ctx, `SELECT id FROM webhook_delivery WHERE tenant = ? AND id = ?`, tenant, id).Scan(&known); err != nil {
			return notFound(err)
		}
		return ErrNoBody
	})
	if err == nil {
		poke(b.arrivals)
	}
	return err
}

// A LaneState is a lane as operators see it.
type LaneState struct {
	ID          string     `json:"id"`
	Tenant      string     `json:"tenant"`
	Provider    string     `json:"provider"`
	Connection  string     `json:"connection"`
	Kind        string     `json:"kind"`
	Object      string     `json:"object"`
	Dirty       int64      `json:"dirty"`   // marks since the lane was made
	Applied     int64      `json:"applied"` // of them, seen by a finished apply
	DirtySince  *time.Time `json:"dirty_since,omitempty"`
	DueAt       time.Time  `json:"due_at"`
	LeasedUntil *time.Time `json:"leased_until,omitempty"`
	Attempts    int        `json:"attempts"`
	ParkedAt    *time.Time `json:"parked_at,omitempty"`
	Reason      string     `json:"reason,omitempty"` // of the last failure
	AppliedAt   *time.Time `json:"applied_at,omitempty"`
}

const laneColumns = `id, tenant, provider, connection, kind, object, dirty, applied, dirty_at, due_at, lease_until, attempts,
	parked_at, reason, applied_at`

func scanLane(r store.Scanner) (LaneState, error) {
	var v LaneState
	var dirtyAt, due, lease, parked, applied int64
	err := r.Scan(&v.ID, &v.Tenant, &v.Provider, &v.Connection, &v.Kind, &v.Object, &v.Dirty, &v.Applied, &dirtyAt, &due, &lease,
		&v.Attempts, &parked, &v.Reason, &applied)
	v.DirtySince, v.DueAt, v.LeasedUntil, v.ParkedAt, v.AppliedAt = moment(dirtyAt), millis(due), moment(lease), moment(parked), moment(applied)
	return v, err
}

// LaneFilter chooses lanes that are not clean.
type LaneFilter struct {
	Tenant     string // required
	Connection string // empty: all
	Parked     bool   // only these
	After      string // the ID of the last lane of the page before
	Limit      int    // zero means 50, at most 500
}

// Lanes returns lanes that wait, are being applied, or are parked.
func (b *Inbox) Lanes(ctx context.Context, f LaneFilter) ([]LaneState, error) {
	query, args := `SELECT `+laneColumns+` FROM webhook_lane WHERE tenant = ? AND id > ?`, []any{f.Tenant, f.After}
	if f.Connection != "" {
		query, args = query+` AND connection = ?`, append(args, f.Connection)
	}
	if f.Parked {
		query += ` AND parked_at > 0`
	} else {
		query += ` AND dirty > applied`
	}
	var all []LaneState
	err := b.db.EachFor(ctx, store.Tenant(f.Tenant), func(row store.Scanner) error {
		v, err := scanLane(row)
		all = append(all, v)
		return err
	}, query+` ORDER BY id LIMIT ?`, append(args, limit(f.Limit))...)
	return all, err
}

// ShowLane returns one lane. ErrNotFound also when it is another tenant's.
func (b *Inbox) ShowLane(ctx context.Context, tenant, id string) (LaneState, error) {
	v, err := scanLane(b.db.QueryRowFor(ctx, store.Tenant(tenant), `SELECT `+laneColumns+` FROM webhook_lane WHERE tenant = ? AND id = ?`, tenant, id))
	return v, notFound(err)
}

// Unpark gives a parked lane its attempts back. It fails with ErrNotFound when
// there is no such lane that is parked.
func (b *Inbox) Unpark(ctx context.Context, tenant, id string) error {
	err := b.db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE webhook_lane SET parked_at = 0, attempts = 0, due_at = ?
			WHERE tenant = ? AND id = ? AND parked_at > 0`, now.UnixMilli(), tenant, id)
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
	if err == nil {
		poke(b.dirty)
	}
	return err
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("inbox: read: %w", err)
	}
	return nil
}
