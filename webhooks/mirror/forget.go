package mirror

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Forget removes all objects of a connection that has ended, tombstones too. What
// was fetched under an older authorization version than c's is not written any
// more. One that was interrupted goes on when it is called again. Tick calls it for
// every connection that has ended.
func (m *Mirror) Forget(ctx context.Context, c connector.Connection) error {
	change := Change{Type: Removed, Tenant: string(c.Tenant), Provider: c.Provider, Connection: string(c.ID)}
	for done := false; !done; {
		err := m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
			seq, _, err := advance(ctx, tx, ObjectLane(c, ""))
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE mirror_stream SET authz = CASE WHEN authz > ?1 THEN authz ELSE ?1 END,
					phase = 0, position = '', checkpoint = 0, polled_at = 0, swept_at = 0, sweep_began = 0, sweep_due = 0, alarm = 0, accepted = 0
				WHERE tenant = ?2 AND connection = ?3`, c.AuthzVersion, string(c.Tenant), string(c.ID)); err != nil {
				return err
			}
			// In parts, because others wait for the write lock.
			n, err := tx.Exec(ctx, `DELETE FROM mirror_object WHERE tenant = ?1 AND connection = ?2 AND id IN
				(SELECT id FROM mirror_object WHERE tenant = ?1 AND connection = ?2 LIMIT ?3)`, string(c.Tenant), string(c.ID), batch)
			if done = n < batch; !done || err != nil {
				return err
			}
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE mirror_stream SET forgotten_at = ? WHERE tenant = ? AND connection = ?`,
				now.UnixMilli(), string(c.Tenant), string(c.ID)); err != nil {
				return err
			}
			change.Seq = seq
			return m.c.OnChange(ctx, tx, change)
		})
		if err != nil {
			return err
		}
	}
	m.watchers.tell(change)
	return nil
}
