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
// authorization that c has now, if its access list names a resource of c and no
// change of it, its container or the connection waits to be applied. While a person has
// to look at an ErrVanished, what that sweep did not find is not returned either: it may
// have been revoked. It answers false for everything else, and the provider is to be
// asked then; fetchedAt is when the fetch began.
func (m *Mirror) Get(ctx context.Context, c connector.Connection, id string, maxAge time.Duration) (o Object, fetchedAt time.Time, ok bool, err error) {
	var updated, fetched int64
	var access string
	var sealed []byte
	// One snapshot: what the lanes had applied by then is in the row.
	err = m.c.DB.ViewFor(ctx, scope(c), func(tx *store.Tx) error {
		o, ok = Object{ID: id}, false
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT container, version, ord, coarse, updated_at, fetched_at, access, data FROM mirror_object
			WHERE tenant = ? AND connection = ? AND id = ? AND state = 1 AND denied = 0 AND authz = ? AND projection = ? AND fetched_at >= ?
			AND NOT EXISTS (SELECT 1 FROM mirror_stream s WHERE s.tenant = mirror_object.tenant AND s.connection = mirror_object.connection
				AND s.alarm = 1 AND mirror_object.seen < s.epoch AND mirror_object.fetched_at < s.sweep_began)`,
			string(c.Tenant), string(c.ID), id, c.AuthzVersion, m.c.Projection, now.Add(-maxAge).UnixMilli()).
			Scan(&o.Container, &o.Version, &o.Order, &o.Coarse, &updated, &fetched, &access, &sealed)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		waits, err := m.c.Inbox.Waiting(ctx, tx, ObjectLane(c, id), ContainerLane(c, o.Container), ContainerLane(c, ""))
		ok = err == nil && !waits
		return err
	})
	if err != nil || !ok {
		return Object{}, time.Time{}, false, err
	}
	if err := json.Unmarshal([]byte(access), &o.Access); err != nil {
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

// sealContext binds data to its row: the lengths keep two rows' names apart.
func sealContext(parts ...string) []byte {
	b := []byte("mirror object")
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	return b
}
