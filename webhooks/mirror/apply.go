package mirror

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

var (
	// ErrStale means that a fetch answered with an older state than the one that
	// is known, as a replica does that lags. The lane is tried again later.
	ErrStale = errors.New("the provider answered with an older version")

	// ErrAuthorization means that the connection's authorization changed since
	// something was fetched or listed.
	ErrAuthorization = errors.New("the connection's authorization has changed")
)

// Reason is a code for failures of Apply, for inbox.Config.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrStale):
		return "stale_read"
	case errors.Is(err, ErrAuthorization):
		return "authorization_changed"
	}
	return strings.ToLower(connector.CodeOf(err).String())
}

// Apply looks at what a lane stands for; it is for inbox.WorkerConfig.
func (m *Mirror) Apply(ctx context.Context, l inbox.Lease) error {
	if l.Removes {
		if err := m.deny(ctx, l); err != nil {
			return err
		}
	}
	switch l.Kind {
	case KindObject:
		return m.applyObject(ctx, l)
	case KindContainer:
		return m.applyContainer(ctx, l)
	}
	return fmt.Errorf("mirror: lane of kind %q", l.Kind)
}

// deny hides what a lane stands for, in a transaction of its own: whether the
// provider can be asked or not, nobody reads it until it was.
func (m *Mirror) deny(ctx context.Context, l inbox.Lease) error {
	query, args := `UPDATE mirror_object SET denied = 1 WHERE tenant = ? AND connection = ? AND state = 1 AND denied = 0`, []any{l.Tenant, l.Connection}
	c := Change{Type: Denied, Tenant: l.Tenant, Provider: l.Provider, Connection: l.Connection}
	switch {
	case l.Kind == KindObject:
		c.ID = l.Object
		query, args = query+` AND id = ?`, append(args, l.Object)
	case l.Object != "":
		c.Container = l.Object
		query, args = query+` AND container = ?`, append(args, l.Object)
	}
	changed := false
	err := m.c.DB.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		changed = false
		var err error
		if c.Seq, _, err = advance(ctx, tx, l.Lane); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, query, args...)
		if changed = n > 0; !changed || err != nil {
			return err
		}
		return m.c.OnChange(ctx, tx, c)
	})
	if err == nil && changed {
		m.watchers.tell(c)
	}
	return err
}

// row is what decides whether a fetched state may be written.
type row struct {
	found   bool
	state   State
	denied  bool
	version string
	order   int64
	authz   int64
}

func (m *Mirror) applyObject(ctx context.Context, l inbox.Lease) error {
	began, err := m.c.DB.Now(ctx)
	if err != nil {
		return err
	}
	// Resolved before the fetch: when the authorization changes meanwhile, what
	// was fetched counts for the older one, which nobody is served under.
	conn, err := m.c.Source.Connection(ctx, connector.TenantID(l.Tenant), connector.ConnectionID(l.Connection))
	if err != nil {
		return pause(err)
	}
	o, state, err := m.c.Source.Fetch(ctx, conn, l.Object)
	if err != nil {
		return pause(err)
	}
	if state != OK && state != Gone && state != NoAccess {
		return errors.New("mirror: the source does not say whether the object is there")
	}
	if state == OK && (o.ID != l.Object || !plain(o.Container) || !plain(o.Version)) {
		return connector.Fail(connector.CodeProviderContract, "the object is not the one that was asked for, or has no container or version")
	}
	if len(o.Access) == 0 {
		o.Access = []string{o.Container}
	}
	if state == OK && !granted(conn, o.Access) {
		state = NoAccess // moved out of what the connection may touch
	}
	var sealed []byte
	if state == OK {
		if sealed, err = m.c.Sealer.Seal(o.Data, sealContext(l.Tenant, l.Connection, l.Object)); err != nil {
			return err
		}
	}
	c := Change{Type: Updated, Tenant: l.Tenant, Provider: l.Provider, Connection: l.Connection, Container: o.Container, ID: l.Object}
	if state != OK {
		c.Type, c.Container = Removed, ""
	}
	changed := false
	err = m.c.DB.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		changed = false
		seq, authz, err := advance(ctx, tx, l.Lane)
		if err != nil {
			return err
		}
		c.Seq = seq
		old, err := readRow(ctx, tx, l.Lane)
		if err != nil {
			return err
		}
		switch {
		case conn.AuthzVersion < authz:
			return ErrAuthorization
		case state == OK && old.found && !newer(old, o, l):
			return ErrStale
		case state == OK:
			changed = !old.found || old.state != OK || old.denied || o.Coarse || o.Version != old.version || conn.AuthzVersion != old.authz
			err = m.put(ctx, tx, conn, o, sealed, began, seq)
		default:
			changed = old.state == OK
			err = bury(ctx, tx, l.Lane, state, conn.AuthzVersion, began, seq)
			if err == nil && changed && state == NoAccess && !l.Removes {
				// Nothing said that this one goes: whatever took it may have taken more.
				_, err = tx.Exec(ctx, `UPDATE mirror_stream SET sweep_due = 1 WHERE tenant = ? AND connection = ?`, l.Tenant, l.Connection)
			}
		}
		if err == nil && changed {
			err = m.c.OnChange(ctx, tx, c)
		}
		if err != nil {
			return err
		}
		return m.c.Inbox.Complete(ctx, tx, l)
	})
	if err == nil && changed {
		m.watchers.tell(c)
	}
	return err
}

// newer says whether a fetched state may take the place of a row. What is not
// ahead of the row, although a mark or a tombstone says that it is gone, may come
// from a replica that lags; it is believed when a second fetch, seconds later,
// finds it again. What the provider itself called deleted needs a greater order,
// where one is known.
func newer(old row, o Object, l inbox.Lease) bool {
	switch {
	case old.version == "": // absent when it was first asked for
		return l.Attempts > 1
	case o.Order != old.order:
		return o.Order > old.order
	case old.state == Gone:
		return false
	case old.state == NoAccess, l.Removes:
		return l.Attempts > 1
	}
	return true
}

// advance takes the connection's next sequence number. Its row is locked until
// the commit, so applies of one connection decide one after the other.
func advance(ctx context.Context, tx *store.Tx, l inbox.Lane) (seq, authz int64, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO mirror_stream (tenant, connection, authz, seq, epoch, phase, position, sweep_began, sweep_clock,
			sweep_due, checkpoint, polled_at, swept_at, alarm, accepted, drift)
		VALUES (?, ?, 0, 1, 0, 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0)
		ON CONFLICT (tenant, connection) DO UPDATE SET seq = mirror_stream.seq + 1 RETURNING seq, authz`,
		l.Tenant, l.Connection).Scan(&seq, &authz)
	return seq, authz, err
}

func readRow(ctx context.Context, tx *store.Tx, l inbox.Lane) (r row, err error) {
	err = tx.QueryRow(ctx, `SELECT state, denied, version, ord, authz FROM mirror_object WHERE tenant = ? AND connection = ? AND id = ?`,
		l.Tenant, l.Connection, l.Object).Scan(&r.state, &r.denied, &r.version, &r.order, &r.authz)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, nil
	}
	r.found = true
	return r, err
}

func (m *Mirror) put(ctx context.Context, tx *store.Tx, c connector.Connection, o Object, sealed []byte, began time.Time, seq int64) error {
	access, err := json.Marshal(o.Access)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO mirror_object (tenant, connection, id, container, state, denied, version, ord, coarse,
			updated_at, fetched_at, changed_at, authz, seq, seen, access, data, projection)
		VALUES (?, ?, ?, ?, 1, 0, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)
		ON CONFLICT (tenant, connection, id) DO UPDATE SET container = excluded.container, state = 1, denied = 0, version = excluded.version,
			ord = excluded.ord, coarse = excluded.coarse, updated_at = excluded.updated_at, fetched_at = excluded.fetched_at,
			changed_at = excluded.changed_at, authz = excluded.authz, seq = excluded.seq, access = excluded.access, data = excluded.data,
			projection = excluded.projection`,
		string(c.Tenant), string(c.ID), o.ID, o.Container, o.Version, o.Order, bit(o.Coarse), millis(o.UpdatedAt), began.UnixMilli(), began.UnixMilli(),
		c.AuthzVersion, seq, string(access), sealed, m.c.Projection)
	return err
}

// bury leaves the ids, the reason and, of what was there, the version. Seen becomes
// the sweep that is counted from.
func bury(ctx context.Context, tx *store.Tx, l inbox.Lane, s State, authz int64, began time.Time, seq int64) error {
	_, err := tx.Exec(ctx, `INSERT INTO mirror_object (tenant, connection, id, container, state, denied, version, ord, coarse,
			updated_at, fetched_at, changed_at, authz, seq, seen, access, data)
		VALUES (?1, ?2, ?3, '', ?4, 0, '', 0, 0, 0, ?5, ?5, ?6, ?7,
			(SELECT epoch FROM mirror_stream WHERE tenant = ?1 AND connection = ?2), '[]', NULL)
		ON CONFLICT (tenant, connection, id) DO UPDATE SET state = excluded.state, denied = 0, fetched_at = excluded.fetched_at,
			changed_at = CASE WHEN mirror_object.state = 1 THEN excluded.changed_at ELSE mirror_object.changed_at END,
			seq = excluded.seq, seen = excluded.seen, access = '[]', data = NULL`,
		l.Tenant, l.Connection, l.Object, int64(s), began.UnixMilli(), authz, seq)
	return err
}

const batch = 500

// applyContainer has everything that is known of a container fetched, and the
// connection swept for what is not.
func (m *Mirror) applyContainer(ctx context.Context, l inbox.Lease) error {
	query := `SELECT id FROM mirror_object WHERE tenant = ? AND connection = ? AND id > ? AND state <> 2`
	if l.Object != "" {
		query += ` AND container = ?`
	}
	query += fmt.Sprintf(` ORDER BY id LIMIT %d`, batch)
	for after, more := "", true; more; {
		args := []any{l.Tenant, l.Connection, after}
		if l.Object != "" {
			args = append(args, l.Object)
		}
		err := m.c.DB.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
			if _, _, err := advance(ctx, tx, l.Lane); err != nil {
				return err
			}
			ids, err := readIDs(ctx, tx, query, args...)
			if err != nil {
				return err
			}
			// They are hidden already, so nothing is left to remove.
			if err := m.c.Inbox.Mark(ctx, tx, marks(l.Lane, ids, false)); err != nil {
				return err
			}
			if more = len(ids) == batch; more {
				after = ids[batch-1]
				return nil
			}
			if _, err := tx.Exec(ctx, `UPDATE mirror_stream SET sweep_due = 1 WHERE tenant = ? AND connection = ?`, l.Tenant, l.Connection); err != nil {
				return err
			}
			return m.c.Inbox.Complete(ctx, tx, l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func readIDs(ctx context.Context, tx *store.Tx, query string, args ...any) (ids []string, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// marks are of objects of the connection that a lane belongs to.
func marks(l inbox.Lane, ids []string, removes bool) []inbox.Mark {
	all := make([]inbox.Mark, len(ids))
	for i, id := range ids {
		l.Kind, l.Object = KindObject, id
		all[i] = inbox.Mark{Lane: l, Removes: removes}
	}
	return all
}

// pause says of some refusals that they concern the whole connection.
func pause(err error) error {
	switch e := connector.AsError(err); e.Code {
	case connector.CodeConnectionRequired, connector.CodeScopeRequired, connector.CodePermissionDenied, connector.CodeConsentRequired,
		connector.CodeRateLimited, connector.CodeOverloaded:
		return &inbox.Pause{Reason: Reason(err), For: e.RetryAfter}
	}
	return err
}
