package mirror

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/store"
)

// Stats is about the connections of all tenants that are followed.
type Stats struct {
	Followed int `json:"followed"`
	Stopped  int `json:"stopped"` // sweeps that wait for a person, see ErrVanished
	// Drift counts the changes that lists found and no event had announced: the
	// honest measure of what webhooks lose.
	Drift int64 `json:"drift"`
}

// Stats reads them.
func (m *Mirror) Stats(ctx context.Context) (s Stats, err error) {
	err = m.c.DB.QueryRowFor(ctx, store.AllTenants(), `SELECT count(*), coalesce(sum(alarm), 0), coalesce(sum(drift), 0) FROM mirror_stream`).
		Scan(&s.Followed, &s.Stopped, &s.Drift)
	return s, err
}
