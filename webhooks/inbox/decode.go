package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// A Decoder finds out which lanes a delivery concerns. It is pure: it may run
// twice, and what it returns is all that it does. No marks and no error means
// that the event concerns nothing. An *Ignored error says why it is ignored; any
// other error, or a panic, quarantines the delivery.
type Decoder func(Delivery) ([]Mark, error)

// Ignored is an error of a Decoder for a delivery that is understood and of no
// concern: an unknown event type, a connection that is gone, a resource outside
// the connection's scope. It is counted under its reason.
type Ignored struct {
	Reason string // a code such as "unknown_type"; no text of the sender
}

func (i *Ignored) Error() string { return "delivery is ignored: " + i.Reason }

// Quarantine is an error of a Decoder that names the reason. Other errors are
// recorded as "undecodable", because their text may quote the body.
type Quarantine struct {
	Reason string // a code such as "invalid_json"
}

func (q *Quarantine) Error() string { return "delivery can not be decoded: " + q.Reason }

// Later says that a delivery could not be decoded for a reason that is none of
// its own, such as a database that can't be asked. It stays where it is and is
// decoded when its claim has run out.
func Later(err error) error { return &later{err} }

type later struct{ error }

func (l *later) Unwrap() error { return l.error }

const (
	decodeBatch = 64

	// maxTries quarantines a delivery whose decoding ended its process.
	maxTries = 6
)

// A waiting delivery was claimed for decoding.
type waiting struct {
	Delivery
	row    string
	digest []byte
	tries  int
}

// outcome is what decoding found.
type outcome struct {
	state, reason string
	marks         []Mark
}

// decode takes some deliveries that wait, decodes them, and stores what was
// found: the marks of a delivery and its new state in one transaction. It
// returns how many it took.
func (b *Inbox) decode(ctx context.Context, decoder Decoder) (int, error) {
	claimed, err := b.claimWaiting(ctx)
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	// Stopping doesn't leave claims behind; a batch takes milliseconds.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.lease)
	defer cancel()
	outcomes := make([]outcome, len(claimed))
	var failed error
	for i, w := range claimed {
		if outcomes[i], err = b.decodeOne(ctx, w, decoder); err != nil {
			failed = err
		}
	}
	marked := false
	err = b.db.Update(ctx, func(tx *store.Tx) error {
		marked = false
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		var fresh, repeated []Mark
		for i, w := range claimed {
			o := outcomes[i]
			if o.state == "" {
				continue
			}
			// Another process may have been faster, if this one was slow.
			n, err := tx.Exec(ctx, `UPDATE webhook_delivery SET state = ?, reason = ?, decoded_at = ?, marks = ?
				WHERE id = ? AND state = 'received'`, o.state, o.reason, now.UnixMilli(), len(o.marks), w.row)
			if err != nil {
				return err
			}
			if n == 0 || len(o.marks) == 0 {
				continue
			}
			again, err := b.sameBody(ctx, tx, w)
			if err != nil {
				return err
			}
			if again {
				repeated = append(repeated, o.marks...)
			} else {
				fresh = append(fresh, o.marks...)
			}
		}
		marked = len(fresh)+len(repeated) > 0
		if err := b.mark(ctx, tx, repeated, repeatGap); err != nil {
			return err
		}
		return b.mark(ctx, tx, fresh, 0)
	})
	if err != nil {
		return 0, err
	}
	if marked {
		poke(b.dirty)
	}
	return len(claimed), failed
}

// claimWaiting takes one suspect, or else a batch of others. A suspect is a
// delivery whose decoding ended in silence twice; it is decoded alone, so that
// those that were only near it are cleared. The numbers stand in the text so that
// the index of suspects is used.
func (b *Inbox) claimWaiting(ctx context.Context) (claimed []waiting, err error) {
	err = b.db.Update(ctx, func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		claimed, err = b.claimTried(ctx, tx, now, "tries >= 2", 1)
		if err == nil && len(claimed) == 0 {
			claimed, err = b.claimTried(ctx, tx, now, "tries < 2", decodeBatch)
		}
		return err
	})
	return claimed, err
}

func (b *Inbox) claimTried(ctx context.Context, tx *store.Tx, now time.Time, tried string, n int) ([]waiting, error) {
	rows, err := tx.Query(ctx, `WITH waiting AS (SELECT id FROM webhook_delivery
			WHERE state = 'received' AND claimed_until <= ?1 AND `+tried+` ORDER BY received_at LIMIT ?2`+skipLocked(tx)+`)
		UPDATE webhook_delivery SET claimed_until = ?3, tries = tries + 1 WHERE id IN (SELECT id FROM waiting)
		RETURNING id, tenant, endpoint, delivery_id, digest, provider, connection, event_type, secret, id_signed, pull,
			received_at, tries`, now.UnixMilli(), n, now.Add(b.lease).UnixMilli())
	if err != nil {
		return nil, err
	}
	return scanAll(rows, func(r *sql.Rows) (waiting, error) {
		var w waiting
		var received int64
		err := r.Scan(&w.row, &w.Tenant, &w.Endpoint, &w.ID, &w.digest, &w.Provider, &w.Connection, &w.EventType, &w.Secret,
			&w.IDSigned, &w.Pull, &received, &w.tries)
		w.ReceivedAt = millis(received)
		return w, err
	})
}

// decodeOne fails only for what is no fault of the delivery, such as a body that
// can't be read or opened: it is tried again. Bodies are read one by one, because they
// may be large.
func (b *Inbox) decodeOne(ctx context.Context, w waiting, decoder Decoder) (outcome, error) {
	if w.tries > maxTries {
		return outcome{state: "quarantined", reason: "abandoned"}, nil
	}
	var err error
	if w.Header, w.Body, err = b.Body(ctx, w.Tenant, w.row); err != nil {
		return outcome{}, err
	}
	marks, err := safely(decoder, w.Delivery)
	if err == nil {
		err = b.checkMarks(w.Delivery, marks)
	}
	var wait *later
	var ignored *Ignored
	var quarantine *Quarantine
	switch {
	case errors.As(err, &wait):
		return outcome{}, err
	case errors.As(err, &ignored):
		return outcome{state: "ignored", reason: clip(ignored.Reason)}, nil
	case errors.As(err, &quarantine):
		return outcome{state: "quarantined", reason: clip(quarantine.Reason)}, nil
	case err != nil:
		return outcome{state: "quarantined", reason: "undecodable"}, nil
	case len(marks) == 0:
		return outcome{state: "ignored", reason: "nothing_to_do"}, nil
	}
	return outcome{state: "decoded", marks: marks}, nil
}

// checkMarks holds an event to its own connection: whatever a body says, it
// makes no lane of another tenant or connection dirty.
func (b *Inbox) checkMarks(d Delivery, marks []Mark) error {
	for _, m := range marks {
		if err := m.check(); err != nil {
			return err
		}
		if m.Tenant != d.Tenant || m.Provider != d.Provider || m.Connection != d.Connection {
			return &Quarantine{"foreign_lane"}
		}
	}
	return nil
}

func safely(decoder Decoder, d Delivery) (marks []Mark, err error) {
	defer func() {
		if p := recover(); p != nil {
			marks, err = nil, fmt.Errorf("decoder panicked: %T", p)
		}
	}()
	return decoder(d)
}

// sameBody tells whether this body came before under another id that anyone may
// have made up.
func (b *Inbox) sameBody(ctx context.Context, tx *store.Tx, w waiting) (bool, error) {
	if w.IDSigned {
		return false, nil
	}
	var n int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM webhook_delivery
		WHERE endpoint = ? AND digest = ? AND delivery_id <> ? AND id_signed = 0 AND decoded_at > 0 LIMIT 1) AS earlier`, w.Endpoint, w.digest, w.ID).Scan(&n)
	return n > 0, err
}
