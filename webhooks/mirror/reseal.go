package mirror

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drawbridge-dev/drawbridge/store"
)

// sealedRow is as much of a sealed row as it takes to see which key it is under.
type sealedRow struct {
	tenant, connection, id string
	head                   []byte
}

const resealPage = 200

func (m *Mirror) eachSealed(ctx context.Context, see func(sealedRow) error) error {
	last := sealedRow{}
	for {
		var page []sealedRow
		err := m.c.DB.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
			var r sealedRow
			err := row.Scan(&r.tenant, &r.connection, &r.id, &r.head)
			page = append(page, r)
			return err
		}, `SELECT tenant, connection, id, substr(data, 1, 64) FROM mirror_object
			WHERE state = 1 AND (tenant, connection, id) > (?, ?, ?) ORDER BY tenant, connection, id LIMIT ?`,
			last.tenant, last.connection, last.id, resealPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			if err := see(r); err != nil {
				return err
			}
		}
		last = page[len(page)-1]
	}
}

// EachSealed shows the first 64 bytes of all sealed data, for those who count
// what a key is still needed for.
func (m *Mirror) EachSealed(ctx context.Context, see func(head []byte)) error {
	return m.eachSealed(ctx, func(r sealedRow) error {
		see(r.head)
		return nil
	})
}

// Reseal seals the data anew of which stale says, by its first 64 bytes, that it
// is sealed with another key than now, and returns how many. It can run beside
// everything else and be repeated.
func (m *Mirror) Reseal(ctx context.Context, stale func(head []byte) bool) (changed int, err error) {
	err = m.eachSealed(ctx, func(r sealedRow) error {
		if !stale(r.head) {
			return nil
		}
		var sealed []byte
		var seq int64
		err := m.c.DB.QueryRowFor(ctx, store.Tenant(r.tenant), `SELECT data, seq FROM mirror_object WHERE tenant = ? AND connection = ? AND id = ? AND state = 1`,
			r.tenant, r.connection, r.id).Scan(&sealed, &seq)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // an apply was faster
		}
		if err != nil {
			return err
		}
		at := sealContext(r.tenant, r.connection, r.id)
		data, err := m.c.Sealer.Open(sealed, at)
		if err != nil {
			return err
		}
		if sealed, err = m.c.Sealer.Seal(data, at); err != nil {
			return err
		}
		return m.c.DB.UpdateFor(ctx, store.Tenant(r.tenant), func(tx *store.Tx) error {
			n, err := tx.Exec(ctx, `UPDATE mirror_object SET data = ? WHERE tenant = ? AND connection = ? AND id = ? AND seq = ? AND state = 1`,
				sealed, r.tenant, r.connection, r.id, seq)
			changed += int(n)
			return err
		})
	})
	return changed, err
}
