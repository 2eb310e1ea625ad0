package inbox

import (
	"context"
	"strings"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Waiting says whether one of the lanes has a mark that no finished apply has
// seen, parked ones included, as of the transaction's snapshot.
func (b *Inbox) Waiting(ctx context.Context, tx *store.Tx, lanes ...Lane) (waits bool, err error) {
	if len(lanes) == 0 {
		return false, nil
	}
	ids := make([]any, len(lanes))
	for i, l := range lanes {
		ids[i] = l.ID()
	}
	err = tx.QueryRow(ctx, `SELECT COUNT(*) > 0 FROM webhook_lane WHERE dirty > applied AND id IN (?`+strings.Repeat(", ?", len(ids)-1)+`)`, ids...).Scan(&waits)
	return waits, err
}

// Behind says whether lanes of these two kinds of l's connection wait or are being
// applied, and whether some are parked.
func (b *Inbox) Behind(ctx context.Context, tx *store.Tx, l Lane, kind, other string) (waiting, parked bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM webhook_lane WHERE queue = ?1 AND dirty > applied AND parked_at = 0 AND kind IN (?3, ?4)),
			EXISTS (SELECT 1 FROM webhook_lane WHERE tenant = ?2 AND parked_at > 0 AND queue = ?1 AND kind IN (?3, ?4))`,
		l.queue(), l.Tenant, kind, other).Scan(&waiting, &parked)
	return waiting, parked, err
}
