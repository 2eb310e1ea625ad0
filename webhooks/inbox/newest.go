package inbox

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Newest is when the last delivery came that a sender posted to an endpoint since
// a time; zero: none did. What was read from a provider's list does not count.
// The work grows with the tenant's deliveries since then.
func (b *Inbox) Newest(ctx context.Context, tenant, endpoint string, since time.Time) (time.Time, error) {
	var at int64
	err := b.db.QueryRowFor(ctx, store.Tenant(tenant), `SELECT received_at FROM webhook_delivery WHERE tenant = ? AND id >= ? AND endpoint = ? AND pull = 0
		ORDER BY id DESC LIMIT 1`, tenant, rowPrefix(since), endpoint).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return millis(at), err
}
