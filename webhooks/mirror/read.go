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
)

// Get returns an object that was fetched within maxAge under exactly the
// authorization that c has now, from a container that c may touch. It answers
// false for everything else, and the provider is to be asked then; fetchedAt is
// when the fetch began.
func (m *Mirror) Get(ctx context.Context, c connector.Connection, id string, maxAge time.Duration) (o Object, fetchedAt time.Time, ok bool, err error) {
	now, err := m.c.DB.Now(ctx)
	if err != nil {
		return Object{}, time.Time{}, false, err
	}
	var updated, fetched int64
	var access string
	err = m.c.DB.QueryRow(ctx, `SELECT container, version, ord, coarse, updated_at, fetched_at, access, data FROM mirror_object
		WHERE tenant = ? AND connection = ? AND id = ? AND state = 0 AND denied = 0 AND authz = ? AND fetched_at >= ?`,
		string(c.Tenant), string(c.ID), id, c.AuthzVersion, now.Add(-maxAge).UnixMilli()).
		Scan(&o.Container, &o.Version, &o.Order, &o.Coarse, &updated, &fetched, &access, &o.Data)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !slices.Contains(c.Resources, o.Container) {
		return Object{}, time.Time{}, false, nil
	}
	if err != nil {
		return Object{}, time.Time{}, false, err
	}
	if o.Data, err = m.c.Sealer.Open(o.Data, sealContext(string(c.Tenant), string(c.ID), id)); err != nil {
		return Object{}, time.Time{}, false, err
	}
	if err := json.Unmarshal([]byte(access), &o.Access); err != nil {
		return Object{}, time.Time{}, false, err
	}
	o.ID, o.UpdatedAt, o.Authz = id, time.UnixMilli(updated).UTC(), c.AuthzVersion
	return o, time.UnixMilli(fetched).UTC(), true, nil
}

// Forget removes all objects of a connection that was disconnected. What is
// being fetched for it at this moment is not written any more.
func (m *Mirror) Forget(ctx context.Context, c connector.Connection) error {
	return m.c.DB.Update(ctx, func(tx *store.Tx) error {
		if _, _, err := advance(ctx, tx, ObjectLane(c, "")); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE mirror_stream SET authz = CASE WHEN authz > ?1 THEN authz ELSE ?1 END,
				phase = 0, position = '', checkpoint = 0, polled_at = 0, swept_at = 0, sweep_began = 0, alarm = 0
			WHERE tenant = ?2 AND connection = ?3`, c.AuthzVersion+1, string(c.Tenant), string(c.ID)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM mirror_object WHERE tenant = ? AND connection = ?`, string(c.Tenant), string(c.ID))
		return err
	})
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
