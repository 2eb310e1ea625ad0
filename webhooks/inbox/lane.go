package inbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/store"
)

// A Lane is one resource of one connection. All that happens to it goes through
// its lane, one apply at a time; nothing orders two lanes.
type Lane struct {
	Tenant, Provider, Connection string // required
	Kind                         string // required; such as "ticket"
	Object                       string // the provider's id; empty for a lane of the whole connection
}

// ID names the lane in lists and commands: 32 hex digits made of its fields.
func (l Lane) ID() string { return digestID(l.Tenant, l.Provider, l.Connection, l.Kind, l.Object) }

// queue names the lane's connection.
func (l Lane) queue() string { return digestID(l.Tenant, l.Provider, l.Connection) }

func (l Lane) check() error {
	for _, s := range []string{l.Tenant, l.Provider, l.Connection, l.Kind} {
		if s == "" {
			return errors.New("lane without tenant, provider, connection or kind")
		}
	}
	for _, s := range []string{l.Tenant, l.Provider, l.Connection, l.Kind, l.Object} {
		if !isText(s) {
			return errors.New("lane with a field that is too long or no text")
		}
	}
	return nil
}

const maxText = 512

// isText holds for what a TEXT column of both engines takes.
func isText(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

func digestID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// A Mark says that a lane's resource may have changed.
type Mark struct {
	Lane
	// Removes says that the change may take a resource or somebody's access
	// away. Such lanes are claimed before all others of their connection.
	Removes bool
}

const (
	// repeatGap is how soon a lane that was just applied is due again when
	// nothing but a repeated body under another id asks for it. Where a scheme
	// does not sign the id, anyone who saw a delivery can make such repeats.
	repeatGap = time.Minute

	// reviveGap is how long a parked lane stays parked whatever marks it.
	reviveGap = 15 * time.Minute

	// maxAttempts parks a lane.
	maxAttempts = 10
)

// Mark makes lanes dirty within the caller's transaction, whose scope must hold
// their tenants. A lane that is being
// applied right now is claimed again afterwards. A mark un-parks a lane that
// was parked for 15 minutes, for one attempt.
func (b *Inbox) Mark(ctx context.Context, tx *store.Tx, marks []Mark) error {
	return b.mark(ctx, tx, marks, 0)
}

func (b *Inbox) mark(ctx context.Context, tx *store.Tx, marks []Mark, gap time.Duration) error {
	if len(marks) == 0 {
		return nil
	}
	rows := make(map[string]Mark, len(marks))
	queues := make(map[string]Lane)
	for _, m := range marks {
		if err := m.check(); err != nil {
			return err
		}
		id := m.ID()
		m.Removes = m.Removes || rows[id].Removes
		rows[id] = m
		queues[m.queue()] = m.Lane
	}
	now, err := b.now(ctx, tx)
	if err != nil {
		return err
	}
	for _, id := range sortedKeys(queues) {
		l := queues[id]
		if _, err := tx.Exec(ctx, `INSERT INTO webhook_queue (id, tenant, connection, turn, paused_until, pauses, reason)
			VALUES (?, ?, ?, 0, 0, 0, '') ON CONFLICT (id) DO NOTHING`, id, l.Tenant, l.Connection); err != nil {
			return err
		}
	}
	// Always in the same order, so that two transactions never wait for each
	// other's lanes.
	for ids := range slices.Chunk(sortedKeys(rows), maxRows) {
		if len(ids) == maxRows {
			err = markRows(ctx, tx, markMany, rows, ids, now, gap)
		} else {
			for i := 0; i < len(ids) && err == nil; i++ {
				err = markRows(ctx, tx, markOne, rows, ids[i:i+1], now, gap)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func markRows(ctx context.Context, tx *store.Tx, query string, rows map[string]Mark, ids []string, now time.Time, gap time.Duration) error {
	args := []any{now.UnixMilli(), gap.Milliseconds(), now.Add(-reviveGap).UnixMilli(), maxAttempts - 1}
	for _, id := range ids {
		m := rows[id]
		args = append(args, id, m.queue(), m.Tenant, m.Provider, m.Connection, m.Kind, m.Object, 1-bit(m.Removes))
	}
	_, err := tx.Exec(ctx, query, args...)
	return err
}

var markOne, markMany = markQuery(1), markQuery(maxRows)

// markQuery makes the statement for so many lanes. Its first four parameters are
// now, the least time since the last apply, the time before which a parked lane
// was parked that is to be revived, and the attempts that it then has behind it.
func markQuery(n int) string {
	var values strings.Builder
	for i := range n {
		if i > 0 {
			values.WriteString(", ")
		}
		p := 5 + 8*i
		fmt.Fprintf(&values, "(?%d, ?%d, ?%d, ?%d, ?%d, ?%d, ?%d, 1, 0, ?%d, ?1, ?1, 0, 0, 0, 0, 0, '', 0)", p, p+1, p+2, p+3, p+4, p+5, p+6, p+7)
	}
	return `INSERT INTO webhook_lane (id, queue, tenant, provider, connection, kind, object,
			dirty, applied, place, dirty_at, due_at, fence, claimed_at, lease_until, attempts, parked_at, reason, applied_at)
		VALUES ` + values.String() + `
		ON CONFLICT (id) DO UPDATE SET
			dirty = webhook_lane.dirty + 1,
			place = CASE WHEN excluded.place < webhook_lane.place THEN excluded.place ELSE webhook_lane.place END,
			dirty_at = CASE WHEN webhook_lane.dirty = webhook_lane.applied THEN excluded.dirty_at ELSE webhook_lane.dirty_at END,
			due_at = CASE
				WHEN webhook_lane.parked_at > 0 THEN excluded.due_at
				WHEN webhook_lane.lease_until > 0 OR webhook_lane.attempts > 0 THEN webhook_lane.due_at
				WHEN webhook_lane.dirty > webhook_lane.applied AND ?2 > 0 THEN webhook_lane.due_at
				WHEN webhook_lane.applied_at + ?2 > excluded.due_at THEN webhook_lane.applied_at + ?2
				ELSE excluded.due_at END,
			attempts = CASE WHEN webhook_lane.parked_at BETWEEN 1 AND ?3 THEN ?4 ELSE webhook_lane.attempts END,
			parked_at = CASE WHEN webhook_lane.parked_at BETWEEN 1 AND ?3 THEN 0 ELSE webhook_lane.parked_at END`
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	return keys
}
