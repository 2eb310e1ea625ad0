package inbox

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Stats counts what is in the database, of all tenants. Counts of deliveries
// cover the time that records are kept.
type Stats struct {
	Waiting       int            `json:"waiting"` // deliveries to be decoded
	OldestWaiting *time.Time     `json:"oldest_waiting,omitempty"`
	Dirty         int            `json:"dirty"` // lanes to be applied, the leased ones included
	OldestDirty   *time.Time     `json:"oldest_dirty,omitempty"`
	Leased        int            `json:"leased"`
	Parked        int            `json:"parked"`
	Paused        int            `json:"paused"`      // connections
	Quarantined   map[string]int `json:"quarantined"` // by reason
	Ignored       map[string]int `json:"ignored"`     // by reason
	Duplicates    int            `json:"duplicates"`
	Conflicts     int            `json:"conflicts"`
}

// Stats reads the counts.
func (b *Inbox) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Quarantined: map[string]int{}, Ignored: map[string]int{}}
	err := b.db.ViewFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := b.now(ctx, tx)
		if err != nil {
			return err
		}
		var waiting, dirty int64
		for _, q := range []struct {
			query string
			args  []any
			into  []any
		}{
			{`SELECT COUNT(*), COALESCE(MIN(received_at), 0) FROM webhook_delivery WHERE state = 'received'`, nil, []any{&s.Waiting, &waiting}},
			{`SELECT COUNT(*), COALESCE(MIN(dirty_at), 0) FROM webhook_lane WHERE dirty > applied AND parked_at = 0`, nil, []any{&s.Dirty, &dirty}},
			{`SELECT COUNT(*) FROM webhook_lane WHERE lease_until > 0 AND lease_until > ?`, []any{now.UnixMilli()}, []any{&s.Leased}},
			{`SELECT COUNT(*) FROM webhook_lane WHERE parked_at > 0`, nil, []any{&s.Parked}},
			{`SELECT COUNT(*) FROM webhook_queue WHERE paused_until > ?`, []any{now.UnixMilli()}, []any{&s.Paused}},
			{`SELECT COALESCE(SUM(repeats), 0) FROM webhook_delivery WHERE repeats > 0`, nil, []any{&s.Duplicates}},
			{`SELECT COUNT(*) FROM webhook_delivery WHERE conflict_of <> ''`, nil, []any{&s.Conflicts}},
		} {
			if err := tx.QueryRow(ctx, q.query, q.args...).Scan(q.into...); err != nil {
				return err
			}
		}
		s.OldestWaiting, s.OldestDirty = moment(waiting), moment(dirty)
		return countReasons(ctx, tx, &s)
	})
	return s, err
}

func countReasons(ctx context.Context, tx *store.Tx, s *Stats) error {
	rows, err := tx.Query(ctx, `SELECT state, reason, COUNT(*) FROM webhook_delivery
		WHERE state IN ('quarantined', 'ignored') GROUP BY state, reason`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var state, reason string
		var n int
		if err := rows.Scan(&state, &reason, &n); err != nil {
			return err
		}
		if state == StateIgnored {
			s.Ignored[reason] = n
		} else {
			s.Quarantined[reason] = n
		}
	}
	return rows.Err()
}

// Backlog counts the deliveries that wait to be decoded, at most up to most.
func (b *Inbox) Backlog(ctx context.Context, most int) (int, error) {
	var n int
	err := b.db.QueryRowFor(ctx, store.AllTenants(), `SELECT COUNT(*) FROM (SELECT 1 FROM webhook_delivery WHERE state = 'received' LIMIT ?) AS waiting`, most).Scan(&n)
	return n, err
}
