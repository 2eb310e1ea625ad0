package mirror

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// The phases of a full sweep.
const (
	idle = iota
	listing
	closing
)

// stream is where the reconciliation of a connection is.
type stream struct {
	authz, epoch, phase           int64
	position                      string
	sweepBegan, sweepClock        int64
	sweepDue                      bool
	checkpoint, polledAt, sweptAt int64
	alarm, accepted               bool
	drift                         int64
}

func (m *Mirror) readStream(ctx context.Context, c connector.Connection) (s stream, found bool, err error) {
	err = m.c.DB.QueryRow(ctx, `SELECT authz, epoch, phase, position, sweep_began, sweep_clock, sweep_due, checkpoint, polled_at, swept_at, alarm, accepted, drift
		FROM mirror_stream WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID)).
		Scan(&s.authz, &s.epoch, &s.phase, &s.position, &s.sweepBegan, &s.sweepClock, &s.sweepDue, &s.checkpoint, &s.polledAt, &s.sweptAt, &s.alarm, &s.accepted, &s.drift)
	if errors.Is(err, sql.ErrNoRows) {
		return stream{}, false, nil
	}
	return s, err == nil, err
}

// stream reads where a connection is. With another authorization than before
// everything begins anew: a checkpoint says nothing about what a wider grant
// shows, and a half sweep nothing about what a narrower one hides.
func (m *Mirror) stream(ctx context.Context, c connector.Connection) (stream, error) {
	s, found, err := m.readStream(ctx, c)
	if err != nil || found && s.authz == c.AuthzVersion {
		return s, err
	}
	err = m.c.DB.Update(ctx, func(tx *store.Tx) error {
		_, authz, err := advance(ctx, tx, ObjectLane(c, ""))
		if err != nil || authz >= c.AuthzVersion {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE mirror_stream SET authz = ?, phase = 0, position = '', sweep_began = 0, sweep_due = 0,
				checkpoint = 0, polled_at = 0, swept_at = 0, alarm = 0, accepted = 0
			WHERE tenant = ? AND connection = ?`, c.AuthzVersion, string(c.Tenant), string(c.ID))
		return err
	})
	if err != nil {
		return s, err
	}
	s, _, err = m.readStream(ctx, c)
	if err == nil && s.authz != c.AuthzVersion {
		err = ErrAuthorization // somebody knows a newer one
	}
	return s, err
}

// Tick reconciles every connection that Reconcile or an event was ever called
// for and that is alive. Call it each minute or so; the errors are joined, and
// one connection's does not keep the others.
func (m *Mirror) Tick(ctx context.Context) error {
	rows, err := m.c.DB.Query(ctx, `SELECT tenant, connection FROM mirror_stream ORDER BY polled_at, tenant, connection`)
	if err != nil {
		return err
	}
	type name struct{ tenant, connection string }
	var all []name
	for rows.Next() {
		var n name
		if err = rows.Scan(&n.tenant, &n.connection); err != nil {
			break
		}
		all = append(all, n)
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return err
	}
	var faults []error
	for _, n := range all {
		c, err := m.c.Source.Connection(ctx, connector.TenantID(n.tenant), connector.ConnectionID(n.connection))
		if err == nil {
			err = m.Reconcile(ctx, c)
		}
		if code := connector.CodeOf(err); err != nil && code != connector.CodeConnectionRequired && code != connector.CodeNotFound {
			faults = append(faults, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(faults...)
}
