package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	maxDecode = 64

	// maxTries quarantines a delivery whose decoding ended its process.
	maxTries = 6
)

// A waiting delivery was claimed for decoding.
type waiting struct {
	Delivery
	row   string
	size  int // of the sealed body
	tries int
}

// outcome is what decoding found.
type outcome struct {
	state, reason string
	marks         []Mark
}

type decoded struct {
	waiting
	outcome
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
	decoded, failed := b.decodeBatch(ctx, claimed, decoder)
	marked := false
	err = b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		marked = false
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		mine, err := b.settle(ctx, tx, decoded, now)
		if err != nil {
			return err
		}
		repeats, err := b.repeats(ctx, tx, mine, now)
		if err != nil {
			return err
		}
		var fresh, repeated []Mark
		for _, d := range mine {
			if repeats[d.row] {
				repeated = append(repeated, d.marks...)
			} else {
				fresh = append(fresh, d.marks...)
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

// settle gives deliveries their new state and returns those for which this
// process is the one that does: another may have been faster.
func (b *Inbox) settle(ctx context.Context, tx *store.Tx, all []decoded, now time.Time) ([]decoded, error) {
	type change struct {
		state, reason string
		marks         int
	}
	alike := map[change]map[string]decoded{}
	for _, d := range all {
		c := change{d.state, d.reason, len(d.marks)}
		if alike[c] == nil {
			alike[c] = map[string]decoded{}
		}
		alike[c][d.row] = d
	}
	var mine []decoded
	for c, rows := range alike {
		for ids := range slices.Chunk(sortedKeys(rows), maxRows) {
			query, args := in(ids, c.state, c.reason, now.UnixMilli(), c.marks)
			changed, err := tx.Query(ctx, `UPDATE webhook_delivery SET state = ?, reason = ?, decoded_at = ?, marks = ?
				WHERE id IN `+query+` AND state = 'received' RETURNING id`, args...)
			if err != nil {
				return nil, err
			}
			got, err := scanAll(changed, scanText)
			if err != nil {
				return nil, err
			}
			for _, id := range got {
				mine = append(mine, rows[id])
			}
		}
	}
	return mine, nil
}

// repeats tells which bodies came before under another id that anyone may have
// made up.
func (b *Inbox) repeats(ctx context.Context, tx *store.Tx, all []decoded, now time.Time) (map[string]bool, error) {
	var unsigned []string
	for _, d := range all {
		if !d.IDSigned && len(d.marks) > 0 {
			unsigned = append(unsigned, d.row)
		}
	}
	repeated := map[string]bool{}
	for ids := range slices.Chunk(unsigned, maxRows) {
		query, args := in(ids)
		rows, err := tx.Query(ctx, `SELECT d.id FROM webhook_delivery d WHERE d.id IN `+query+` AND EXISTS (SELECT 1 FROM webhook_delivery e
			WHERE e.endpoint = d.endpoint AND e.digest = d.digest AND e.id_signed = 0 AND e.delivery_id <> d.delivery_id
			AND e.decoded_at > 0 AND (e.decoded_at < ? OR e.id < d.id))`, append(args, now.UnixMilli())...)
		if err != nil {
			return nil, err
		}
		got, err := scanAll(rows, scanText)
		if err != nil {
			return nil, err
		}
		for _, id := range got {
			repeated[id] = true
		}
	}
	return repeated, nil
}

// in is a list of maxRows places, so that there is one text of each statement;
// the last value stands in the places that are left over.
func in(ids []string, before ...any) (places string, args []any) {
	args = before
	for i := range maxRows {
		args = append(args, ids[min(i, len(ids)-1)])
	}
	return inPlaces, args
}

var inPlaces = "(?" + strings.Repeat(", ?", maxRows-1) + ")"

func scanText(r *sql.Rows) (text string, err error) { return text, r.Scan(&text) }

// claimWaiting takes one suspect, or else a batch of others. A suspect is a
// delivery whose decoding ended in silence twice; it is decoded alone, so that
// those that were only near it are cleared. The numbers stand in the text so that
// the index of suspects is used.
func (b *Inbox) claimWaiting(ctx context.Context) (claimed []waiting, err error) {
	err = b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		claimed, err = b.claimTried(ctx, tx, now, "tries >= 2", 1)
		if err == nil && len(claimed) == 0 {
			claimed, err = b.claimTried(ctx, tx, now, "tries < 2", maxDecode)
		}
		return err
	})
	return claimed, err
}

func (b *Inbox) claimTried(ctx context.Context, tx *store.Tx, now time.Time, tried string, n int) ([]waiting, error) {
	rows, err := tx.Query(ctx, `WITH waiting AS (SELECT id FROM webhook_delivery
			WHERE state = 'received' AND claimed_until <= ?1 AND `+tried+` ORDER BY received_at LIMIT ?2`+skipLocked(tx)+`)
		UPDATE webhook_delivery SET claimed_until = ?3, tries = tries + 1 WHERE id IN (SELECT id FROM waiting)
		RETURNING id, tenant, endpoint, delivery_id, length(body), provider, connection, event_type, secret, id_signed, pull,
			received_at, tries`, now.UnixMilli(), n, now.Add(b.lease).UnixMilli())
	if err != nil {
		return nil, err
	}
	return scanAll(rows, func(r *sql.Rows) (waiting, error) {
		var w waiting
		var received int64
		err := r.Scan(&w.row, &w.Tenant, &w.Endpoint, &w.ID, &w.size, &w.Provider, &w.Connection, &w.EventType, &w.Secret,
			&w.IDSigned, &w.Pull, &received, &w.tries)
		w.ReceivedAt = millis(received)
		return w, err
	})
}

// maxTogether is how many bytes of bodies are read at once.
const maxTogether = 4 << 20

// decodeBatch leaves out what it fails for through no fault of the delivery,
// such as a body that can't be read or opened: that is tried again.
func (b *Inbox) decodeBatch(ctx context.Context, claimed []waiting, decoder Decoder) (all []decoded, failed error) {
	for len(claimed) > 0 {
		n, size := 1, claimed[0].size
		for n < len(claimed) && n < maxRows && size+claimed[n].size <= maxTogether {
			size += claimed[n].size
			n++
		}
		sealed, err := b.bodies(ctx, claimed[:n])
		if err != nil {
			failed = err
		}
		for _, w := range claimed[:n] {
			// Not there: the store failed, or retention was faster.
			if body, ok := sealed[w.row]; ok {
				o, err := b.decodeOne(w, body, decoder)
				if err != nil {
					failed = err
					continue
				}
				all = append(all, decoded{w, o})
			}
		}
		claimed = claimed[n:]
	}
	return all, failed
}

func (b *Inbox) bodies(ctx context.Context, claimed []waiting) (map[string][]byte, error) {
	var ids []string
	for _, w := range claimed {
		ids = append(ids, w.row)
	}
	places, args := in(ids)
	sealed := map[string][]byte{}
	err := b.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var id string
		var body []byte
		if err := row.Scan(&id, &body); err != nil {
			return err
		}
		sealed[id] = body
		return nil
	}, `SELECT id, body FROM webhook_delivery WHERE id IN `+places, args...)
	return sealed, err
}

func (b *Inbox) decodeOne(w waiting, sealed []byte, decoder Decoder) (outcome, error) {
	if w.tries > maxTries {
		return outcome{state: StateQuarantined, reason: "abandoned"}, nil
	}
	var err error
	if w.Header, w.Body, err = b.unseal(sealed, w.Tenant, w.row); err != nil {
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
		return outcome{state: StateIgnored, reason: clip(ignored.Reason)}, nil
	case errors.As(err, &quarantine):
		return outcome{state: StateQuarantined, reason: clip(quarantine.Reason)}, nil
	case err != nil:
		return outcome{state: StateQuarantined, reason: "undecodable"}, nil
	case len(marks) == 0:
		return outcome{state: StateIgnored, reason: "nothing_to_do"}, nil
	}
	return outcome{state: StateDecoded, marks: marks}, nil
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
