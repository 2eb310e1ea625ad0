package mirror

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Restored has every connection swept that is followed: after the database was
// restored from a copy, nobody knows which deliveries came in since.
func (m *Mirror) Restored(ctx context.Context) error {
	return m.c.DB.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE mirror_stream SET sweep_due = 1`)
		return err
	})
}
