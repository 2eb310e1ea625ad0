package operations

import (
	"context"
	"database/sql"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Open counts what is not over, of all tenants.
type Open struct {
	Unknown       int        `json:"unknown"` // being looked up
	OldestUnknown *time.Time `json:"oldest_unknown,omitempty"`
	Unresolved    int        `json:"unresolved"` // a person decides
	Approvals     int        `json:"approvals"`  // that wait for a person, or for their use
}

// Open reads the counts. Each is read from an index that has nothing else in it.
func (l *Ledger) Open(ctx context.Context) (Open, error) {
	var o Open
	var oldest sql.NullInt64
	err := l.db.QueryRowFor(ctx, store.AllTenants(), `SELECT
			(SELECT count(*) FROM operation WHERE state = 'unknown'), (SELECT min(dispatched_at) FROM operation WHERE state = 'unknown'),
			(SELECT count(*) FROM operation WHERE state = 'unresolved'),
			(SELECT count(*) FROM operation_approval WHERE state IN ('pending', 'approved'))`).
		Scan(&o.Unknown, &oldest, &o.Unresolved, &o.Approvals)
	if oldest.Valid {
		at := time.UnixMilli(oldest.Int64).UTC()
		o.OldestUnknown = &at
	}
	return o, edge(err)
}
