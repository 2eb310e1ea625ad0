package mirror

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// What Coverage can say.
const (
	Complete  = connector.CopiesComplete // all objects, as of the last sweep and everything announced since
	Partial   = connector.CopiesPartial  // see the reasons
	Unknown   = connector.CopiesUnknown  // never swept under the present authorization
	None      = "none"                   // nothing was ever to be stored of the connection
	Forgotten = "forgotten"              // the connection has ended, and nothing is stored any more
)

// Coverage says how far a connection's mirror can be relied on.
type Coverage struct {
	State string `json:"state"`
	// Reasons are backlog, parked, vanished, sweep_overdue and poll_overdue.
	Reasons []string `json:"reasons,omitempty"`
	// Drift counts the changes that lists found and no event had announced.
	Drift    int64      `json:"drift"`
	SweptAt  *time.Time `json:"swept_at,omitempty"`  // when the last full sweep ended
	PolledAt *time.Time `json:"polled_at,omitempty"` // when the last poll or sweep did
}

// Coverage reads it. What is overdue by as much again as its interval counts.
func (m *Mirror) Coverage(ctx context.Context, c connector.Connection) (v Coverage, err error) {
	// Every search asks, and most connections are not followed: those cost one read.
	var one int64
	err = m.c.DB.QueryRowFor(ctx, scope(c), `SELECT 1 FROM mirror_stream WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return Coverage{State: None}, nil
	}
	if err != nil {
		return Coverage{}, err
	}
	err = m.c.DB.ViewFor(ctx, scope(c), func(tx *store.Tx) error {
		v, err = m.coverage(ctx, tx, c)
		return err
	})
	return v, err
}

func (m *Mirror) coverage(ctx context.Context, tx *store.Tx, c connector.Connection) (Coverage, error) {
	s, found, err := readStream(ctx, tx, c)
	v := Coverage{State: Complete, Drift: s.drift, SweptAt: moment(s.sweptAt), PolledAt: moment(s.polledAt)}
	switch {
	case err != nil:
		return Coverage{}, err
	case !found:
		return Coverage{State: None}, nil
	case s.forgottenAt > 0 && s.authz >= c.AuthzVersion:
		v.State = Forgotten
		return v, nil
	case s.authz != c.AuthzVersion || s.sweptAt == 0 && !s.alarm:
		v.State = Unknown
		return v, nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return Coverage{}, err
	}
	waiting, parked, err := m.c.Inbox.Behind(ctx, tx, ObjectLane(c, ""), KindObject, KindContainer)
	if err != nil {
		return Coverage{}, err
	}
	for _, r := range []struct {
		holds bool
		name  string
	}{
		{waiting, "backlog"},
		{parked, "parked"},
		{s.alarm, "vanished"},
		{now.UnixMilli() > s.sweptAt+2*m.c.SweepEvery.Milliseconds(), "sweep_overdue"},
		{now.UnixMilli() > s.polledAt+2*m.c.PollEvery.Milliseconds(), "poll_overdue"},
	} {
		if r.holds {
			v.State, v.Reasons = Partial, append(v.Reasons, r.name)
		}
	}
	return v, nil
}

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}
