package mirror

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// The phases of a sweep.
const (
	idle    = iota
	listing // from position on
	closing // asking about what was not listed
)

// stream is how far a connection's lists are. Times are milliseconds.
type stream struct {
	authz, epoch        int64
	phase               int
	position            string
	sweepBegan, sweptAt int64
	polledAt            int64
	sweepClock          int64 // of the provider, at the sweep's first page
	checkpoint          int64 // of the provider; zero: there is none
	sweepDue, alarm     bool
	accepted            bool
	drift               int64
}

// stream reads where a connection is, under its present authorization: what was
// listed under another one says nothing about this one, so a sweep is due.
func (m *Mirror) stream(ctx context.Context, c connector.Connection) (stream, error) {
	s, found, err := m.readStream(ctx, c)
	if err != nil || found && s.authz == c.AuthzVersion {
		return s, err
	}
	err = m.c.DB.Update(ctx, func(tx *store.Tx) error {
		if _, _, err := advance(ctx, tx, ObjectLane(c, "")); err != nil {
			return err
		}
		// Never back to an older one: that is a caller with an old connection.
		_, err := tx.Exec(ctx, `UPDATE mirror_stream SET authz = ?1, phase = 0, position = '', checkpoint = 0, polled_at = 0, swept_at = 0,
			sweep_began = 0, sweep_due = 1, alarm = 0, accepted = 0 WHERE tenant = ?2 AND connection = ?3 AND authz < ?1`,
			c.AuthzVersion, string(c.Tenant), string(c.ID))
		return err
	})
	if err != nil {
		return s, err
	}
	if s, _, err = m.readStream(ctx, c); err == nil && s.authz != c.AuthzVersion {
		err = ErrAuthorization
	}
	return s, err
}

func (m *Mirror) readStream(ctx context.Context, c connector.Connection) (s stream, found bool, err error) {
	err = m.c.DB.QueryRow(ctx, `SELECT authz, epoch, phase, position, sweep_began, swept_at, polled_at, sweep_clock, checkpoint, sweep_due, alarm, accepted, drift
		FROM mirror_stream WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID)).
		Scan(&s.authz, &s.epoch, &s.phase, &s.position, &s.sweepBegan, &s.sweptAt, &s.polledAt, &s.sweepClock, &s.checkpoint,
			&s.sweepDue, &s.alarm, &s.accepted, &s.drift)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return s, err == nil, err
}
