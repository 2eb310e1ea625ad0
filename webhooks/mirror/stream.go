package mirror

import (
	"context"
	"database/sql"
	"errors"
	"strings"

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
	drift, forgottenAt            int64
}

func readStream(ctx context.Context, tx *store.Tx, c connector.Connection) (s stream, found bool, err error) {
	err = tx.QueryRow(ctx, `SELECT authz, epoch, phase, position, sweep_began, sweep_clock, sweep_due, checkpoint, polled_at, swept_at, alarm, accepted, drift,
			forgotten_at
		FROM mirror_stream WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID)).
		Scan(&s.authz, &s.epoch, &s.phase, &s.position, &s.sweepBegan, &s.sweepClock, &s.sweepDue, &s.checkpoint, &s.polledAt, &s.sweptAt, &s.alarm, &s.accepted,
			&s.drift, &s.forgottenAt)
	if errors.Is(err, sql.ErrNoRows) {
		return stream{}, false, nil
	}
	return s, err == nil, err
}

func (m *Mirror) readStream(ctx context.Context, c connector.Connection) (s stream, found bool, err error) {
	err = m.c.DB.ViewFor(ctx, scope(c), func(tx *store.Tx) error {
		s, found, err = readStream(ctx, tx, c)
		return err
	})
	return s, found, err
}

// stream reads where a connection is. With another authorization than before
// everything begins anew: a checkpoint says nothing about what a wider grant
// shows, and a half sweep nothing about what a narrower one hides.
func (m *Mirror) stream(ctx context.Context, c connector.Connection) (stream, error) {
	s, found, err := m.readStream(ctx, c)
	if err != nil || found && s.authz == c.AuthzVersion {
		return s, err
	}
	err = m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		_, authz, err := advance(ctx, tx, ObjectLane(c, ""))
		if err != nil || authz >= c.AuthzVersion {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE mirror_stream SET authz = ?, phase = 0, position = '', sweep_began = 0, sweep_due = 0,
				checkpoint = 0, polled_at = 0, swept_at = 0, alarm = 0, accepted = 0, forgotten_at = 0
			WHERE tenant = ? AND connection = ?`, c.AuthzVersion, string(c.Tenant), string(c.ID))
		if err != nil {
			return err
		}
		return withdraw(ctx, tx, c)
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

// withdraw hides what is in no resource of a connection any more. Who narrowed the
// grant meant that, so the next sweep, which finds none of it and has it fetched
// and buried, is not to take it for a fault.
func withdraw(ctx context.Context, tx *store.Tx, c connector.Connection) error {
	query, args := `UPDATE mirror_object SET denied = 1 WHERE tenant = ? AND connection = ? AND state = 1 AND denied = 0`, []any{string(c.Tenant), string(c.ID)}
	if n := len(c.Resources); n > 0 {
		query += ` AND container NOT IN (?` + strings.Repeat(", ?", n-1) + `)`
	}
	for _, r := range c.Resources {
		args = append(args, r)
	}
	_, err := tx.Exec(ctx, query, args...)
	return err
}

// Tick reconciles every connection that Reconcile or an event was ever called
// for and that is alive, and forgets those that have ended. Call it each minute or
// so; the errors are joined, and one connection's does not keep the others.
func (m *Mirror) Tick(ctx context.Context) error {
	type followed struct {
		tenant, connection string
		forgottenAt        int64
	}
	var all []followed
	err := m.c.DB.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var f followed
		err := row.Scan(&f.tenant, &f.connection, &f.forgottenAt)
		all = append(all, f)
		return err
	}, `SELECT tenant, connection, forgotten_at FROM mirror_stream ORDER BY polled_at, tenant, connection`)
	if err != nil {
		return err
	}
	var faults []error
	for _, f := range all {
		c, err := m.c.Source.Connection(ctx, connector.TenantID(f.tenant), connector.ConnectionID(f.connection))
		switch code := connector.CodeOf(err); {
		case err == nil:
			err = m.Reconcile(ctx, c)
		case f.forgottenAt == 0 && (code == connector.CodeConnectionRequired || code == connector.CodeNotFound):
			err = m.forgetEnded(ctx, connector.TenantID(f.tenant), connector.ConnectionID(f.connection))
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

// forgetEnded forgets a connection that does not only want to be signed in again.
func (m *Mirror) forgetEnded(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) error {
	c, ended, err := m.c.Source.Ended(ctx, tenant, id)
	if err != nil || !ended {
		return err
	}
	return m.Forget(ctx, c)
}
