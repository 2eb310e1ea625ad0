package mirror

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// Get returns an object that was fetched within maxAge under exactly the
// authorization that c has now, if its access list names a resource of c and no
// change of it waits to be applied. It answers false for everything else, and the
// provider is to be asked then; fetchedAt is when the fetch began.
func (m *Mirror) Get(ctx context.Context, c connector.Connection, id string, maxAge time.Duration) (o Object, fetchedAt time.Time, ok bool, err error) {
	now, err := m.c.DB.Now(ctx)
	if err != nil {
		return Object{}, time.Time{}, false, err
	}
	// The lane first: what it had applied by now is in the row that is read next.
	lane, err := m.c.Inbox.ShowLane(ctx, string(c.Tenant), ObjectLane(c, id).ID())
	if err == nil && lane.Dirty > lane.Applied {
		return Object{}, time.Time{}, false, nil
	}
	if err != nil && !errors.Is(err, inbox.ErrNotFound) {
		return Object{}, time.Time{}, false, err
	}
	o = Object{ID: id}
	var updated, fetched int64
	var access string
	var sealed []byte
	err = m.c.DB.QueryRow(ctx, `SELECT container, version, ord, coarse, updated_at, fetched_at, access, data FROM mirror_object
		WHERE tenant = ? AND connection = ? AND id = ? AND state = 1 AND denied = 0 AND authz = ? AND fetched_at >= ?`,
		string(c.Tenant), string(c.ID), id, c.AuthzVersion, now.Add(-maxAge).UnixMilli()).
		Scan(&o.Container, &o.Version, &o.Order, &o.Coarse, &updated, &fetched, &access, &sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return Object{}, time.Time{}, false, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(access), &o.Access)
	}
	if err != nil {
		return Object{}, time.Time{}, false, err
	}
	if !granted(c, o.Access) {
		return Object{}, time.Time{}, false, nil
	}
	if o.Data, err = m.c.Sealer.Open(sealed, sealContext(string(c.Tenant), string(c.ID), id)); err != nil {
		return Object{}, time.Time{}, false, err
	}
	if updated != 0 {
		o.UpdatedAt = time.UnixMilli(updated).UTC()
	}
	return o, time.UnixMilli(fetched).UTC(), true, nil
}

// granted says whether a connection may touch one of an object's resources.
func granted(c connector.Connection, access []string) bool {
	return slices.ContainsFunc(access, func(r string) bool { return slices.Contains(c.Resources, r) })
}

// Forget removes all objects of a connection that was disconnected. What is
// being fetched for it at this moment is not written any more.
func (m *Mirror) Forget(ctx context.Context, c connector.Connection) error {
	change := Change{Type: Removed, Tenant: string(c.Tenant), Connection: string(c.ID)}
	err := m.c.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if change.Seq, _, err = advance(ctx, tx, ObjectLane(c, "")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE mirror_stream SET authz = CASE WHEN authz > ?1 THEN authz ELSE ?1 END,
				phase = 0, position = '', checkpoint = 0, polled_at = 0, swept_at = 0, sweep_began = 0, alarm = 0, accepted = 0
			WHERE tenant = ?2 AND connection = ?3`, c.AuthzVersion+1, string(c.Tenant), string(c.ID)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM mirror_object WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID)); err != nil {
			return err
		}
		return m.c.OnChange(ctx, tx, change)
	})
	if err == nil {
		m.watchers.tell(change)
	}
	return err
}

// sealContext binds data to its row: the lengths keep two rows' names apart.
func sealContext(parts ...string) []byte {
	b := []byte("mirror object")
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}
