package operations

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// SealedBy counts this package's sealed values by the id of their key, in one
// snapshot. A key that is not in it can go, as far as this package is
// concerned. Values that are not sealed at all are counted under 0.
func (l *Ledger) SealedBy(ctx context.Context) (map[uint32]int, error) {
	out := map[uint32]int{}
	err := l.db.ViewFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT plan, arguments, receipt, output FROM operation`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var values [4][]byte
			if err := rows.Scan(&values[0], &values[1], &values[2], &values[3]); err != nil {
				return err
			}
			for _, sealed := range values {
				if len(sealed) > 0 {
					id, _ := keys.KeyID(sealed)
					out[id]++
				}
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, edge(err)
	}
	return out, nil
}
