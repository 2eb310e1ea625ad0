package inbox

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/store"
)

// sweepRows bounds how long one step of a sweep holds SQLite's write lock.
const sweepRows = 500

// Sweep drops bodies and records whose time is over, and lanes that were clean
// for as long as records are kept. What waits to be decoded or applied stays,
// however old. A worker calls it every ten minutes.
func (b *Inbox) Sweep(ctx context.Context) error {
	now, err := b.db.Now(ctx)
	if err != nil {
		return err
	}
	now = now.Add(b.skew)
	bodies, records := now.Add(-b.keepBodies).UnixMilli(), now.Add(-b.keepRecords).UnixMilli()
	// Each condition stands twice: a row that another transaction changed in
	// between is looked at again, with the outer one only.
	for _, step := range []struct {
		query  string
		before any
	}{
		{`UPDATE webhook_delivery SET body = NULL, kept = 0 WHERE kept = 1 AND state IN ('decoded', 'ignored') AND id IN (
			SELECT id FROM webhook_delivery WHERE kept = 1 AND state IN ('decoded', 'ignored') AND received_at < ? LIMIT ?)`, bodies},
		{`DELETE FROM webhook_delivery WHERE state <> 'received' AND id IN (
			SELECT id FROM webhook_delivery WHERE state <> 'received' AND id < ? LIMIT ?)`, rowPrefix(now.Add(-b.keepRecords))},
		{`DELETE FROM webhook_lane WHERE dirty = applied AND id IN (
			SELECT id FROM webhook_lane WHERE dirty = applied AND applied_at < ? LIMIT ?)`, records},
	} {
		for {
			var n int64
			err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) (err error) {
				n, err = tx.Exec(ctx, step.query, step.before, sweepRows)
				return err
			})
			if err != nil {
				return err
			}
			if n < sweepRows {
				break
			}
		}
	}
	return nil
}
