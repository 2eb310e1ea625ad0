package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// ErrVanished means that a sweep did not find more than a fifth of the objects
// that are known, and more than 20. That is a revocation at large or a fault of
// a filter; a person has to look. See Mirror.Accept.
var ErrVanished = errors.New("a sweep did not find more than a fifth of what is known")

// errOvertaken means that another process has done this step of a sweep.
var errOvertaken = errors.New("another process goes on with this sweep")

// Sweep lists everything that a connection sees and has fetched what differs
// from what is known, in the end also what is known and was not listed. It goes
// on with a sweep that was interrupted.
func (m *Mirror) Sweep(ctx context.Context, c connector.Connection) error {
	var been walk
	for {
		s, err := m.stream(ctx, c)
		if err != nil {
			return err
		}
		done := false
		switch s.phase {
		case idle:
			err = m.beginSweep(ctx, c, s)
		case listing:
			if been.before(s.position) {
				return m.abandon(ctx, c, s)
			}
			err = m.sweepPage(ctx, c, s)
		case closing:
			done, err = m.closeSweep(ctx, c, s)
		}
		if errors.Is(err, errOvertaken) {
			return nil
		}
		if err != nil || done {
			return err
		}
	}
}

// step changes the stream if it still is where s says.
func step(ctx context.Context, tx *store.Tx, c connector.Connection, s stream, set string, args ...any) error {
	args = append(args, string(c.Tenant), string(c.ID), s.authz, s.epoch, s.phase, s.position)
	n, err := tx.Exec(ctx, `UPDATE mirror_stream SET `+set+` WHERE tenant = ? AND connection = ? AND authz = ? AND epoch = ? AND phase = ? AND position = ?`, args...)
	if err == nil && n == 0 {
		err = errOvertaken
	}
	return err
}

// abandon gives a sweep up whose list goes round in a circle; the next one comes
// at its time.
func (m *Mirror) abandon(ctx context.Context, c connector.Connection, s stream) error {
	err := m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error { return step(ctx, tx, c, s, `phase = 0, position = ''`) })
	if err == nil || errors.Is(err, errOvertaken) {
		err = errCircle
	}
	return err
}

func (m *Mirror) beginSweep(ctx context.Context, c connector.Connection, s stream) error {
	return m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return step(ctx, tx, c, s, `epoch = epoch + 1, phase = 1, position = '', sweep_began = ?, sweep_clock = 0, sweep_due = 0`, now.UnixMilli())
	})
}

func (m *Mirror) sweepPage(ctx context.Context, c connector.Connection, s stream) error {
	page, err := m.list(ctx, c, Query{Cursor: s.position})
	if connector.CodeOf(err) == connector.CodeCursorInvalid && s.position != "" {
		// It waited too long. The next one begins at the first page.
		return errors.Join(err, m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
			return step(ctx, tx, c, s, `phase = 0, position = '', sweep_due = 1`)
		}))
	}
	if err != nil {
		return err
	}
	marks, drift, err := m.differing(ctx, c, page.Entries)
	if err != nil {
		return err
	}
	if s.sweptAt == 0 {
		drift = 0 // nothing was known yet
	}
	clock := s.sweepClock
	if s.position == "" {
		clock = millis(page.Clock)
	}
	phase := listing
	if page.Next == "" {
		phase = closing
	}
	return m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		if err := step(ctx, tx, c, s, `phase = ?, position = ?, sweep_clock = ?, drift = drift + ?`, phase, page.Next, clock, drift); err != nil {
			return err
		}
		for _, e := range page.Entries {
			if _, err := tx.Exec(ctx, `UPDATE mirror_object SET seen = ? WHERE tenant = ? AND connection = ? AND id = ? AND state = 1`,
				s.epoch, string(c.Tenant), string(c.ID), e.ID); err != nil {
				return err
			}
		}
		return m.c.Inbox.Mark(ctx, tx, marks)
	})
}

// unseen are the objects that the complete list lacked and that were not fetched
// since it began.
const unseen = ` FROM mirror_object WHERE tenant = ? AND connection = ? AND state = 1 AND seen < ? AND fetched_at < ?`

// closeSweep has a batch of the unseen fetched, or ends the sweep.
func (m *Mirror) closeSweep(ctx context.Context, c connector.Connection, s stream) (done bool, err error) {
	args := []any{string(c.Tenant), string(c.ID), s.epoch, s.sweepBegan}
	vanished := false
	err = m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		done, vanished = false, false
		var missing, silent, known int
		// What an event has announced as taken away doesn't alarm anybody.
		if err := tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(SUM(1 - denied), 0)`+unseen, args...).Scan(&missing, &silent); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM mirror_object WHERE tenant = ? AND connection = ? AND state = 1`, args[:2]...).Scan(&known); err != nil {
			return err
		}
		if vanished = silent > 20 && silent*5 > known && !s.accepted; vanished {
			return step(ctx, tx, c, s, `phase = 0, position = '', alarm = 1`)
		}
		if missing == 0 {
			done = true
			return m.endSweep(ctx, tx, c, s)
		}
		// The guard has passed: it holds for the batches that follow too.
		if err := step(ctx, tx, c, s, `accepted = 1`); err != nil {
			return err
		}
		ids, err := readIDs(ctx, tx, fmt.Sprintf(`SELECT id%s ORDER BY id LIMIT %d`, unseen, batch), args...)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := tx.Exec(ctx, `UPDATE mirror_object SET seen = ? WHERE tenant = ? AND connection = ? AND id = ?`,
				s.epoch, string(c.Tenant), string(c.ID), id); err != nil {
				return err
			}
		}
		return m.c.Inbox.Mark(ctx, tx, marks(ObjectLane(c, ""), ids, false))
	})
	if err == nil && vanished {
		m.c.Log.ErrorContext(ctx, "a sweep did not find what is known", "tenant", c.Tenant, "connection", c.ID)
		return false, ErrVanished
	}
	return done, err
}

func (m *Mirror) endSweep(ctx context.Context, tx *store.Tx, c connector.Connection, s stream) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	err = step(ctx, tx, c, s, `phase = 0, alarm = 0, accepted = 0, swept_at = ?1, polled_at = ?1,
		checkpoint = CASE WHEN checkpoint < ?2 THEN ?2 ELSE checkpoint END`, now.UnixMilli(), m.behind(s.sweepClock))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM mirror_object WHERE tenant = ? AND connection = ? AND state > 1 AND changed_at < ? AND seen <= ?`,
		string(c.Tenant), string(c.ID), now.Add(-m.c.KeepTombstones).UnixMilli(), s.epoch-2)
	return err
}

// Accept lets the next sweep ask about however many objects it does not find,
// and makes it due: a person has looked at an ErrVanished.
func (m *Mirror) Accept(ctx context.Context, c connector.Connection) error {
	return m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE mirror_stream SET accepted = 1, sweep_due = 1 WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID))
		return err
	})
}
