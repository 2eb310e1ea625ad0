package operations

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Reseal puts everything that is sealed under another key than the ring's
// primary under the primary, a few rows at a time, and returns how many
// operations it changed. It can run beside everything else and be repeated;
// after it returned nil, and while the primary stays, the old keys aren't
// needed for this package's rows.
func (l *Ledger) Reseal(ctx context.Context) (int, error) {
	const page = 50
	changed := 0
	var after Ref
	for {
		refs, err := l.refs(ctx, `SELECT tenant, id FROM operation WHERE tenant > ?1 OR tenant = ?1 AND id > ?2
			ORDER BY tenant, id LIMIT ?3`, after.Tenant, after.ID, page)
		if err != nil || len(refs) == 0 {
			return changed, edge(err)
		}
		for _, ref := range refs {
			did, err := l.reseal(ctx, ref.Tenant, ref.ID)
			if err != nil {
				return changed, edge(err)
			}
			if did {
				changed++
			}
		}
		after = refs[len(refs)-1]
	}
}

func (l *Ledger) reseal(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (bool, error) {
	stale := func(r *row) bool {
		for _, c := range r.sealed() {
			if key, ok := keys.KeyID(*c.value); ok && key != l.seal.ring.Primary() {
				return true
			}
		}
		return false
	}
	r, found, err := l.findID(ctx, tenant, id)
	if err != nil || !found || !stale(&r) {
		return false, err
	}
	err = l.db.UpdateFor(ctx, scope(tenant), func(tx *store.Tx) error {
		r, err := lock(ctx, tx, tenant, id)
		if err != nil {
			return err
		}
		for _, c := range r.sealed() {
			plain, err := l.seal.get(&r, c.name, *c.value)
			if err != nil {
				return err
			}
			if *c.value, err = l.seal.put(tenant, id, c.name, plain); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE operation SET plan = ?, arguments = ?, receipt = ?, output = ? WHERE tenant = ? AND id = ?`,
			r.plan, r.arguments, r.receipt, r.output, tenant, id)
		return err
	})
	return err == nil, err
}

type sealedColumn struct {
	name  string
	value *[]byte
}

// sealed names the row's sealed columns.
func (r *row) sealed() []sealedColumn {
	return []sealedColumn{{"plan", &r.plan}, {"arguments", &r.arguments}, {"receipt", &r.receipt}, {"output", &r.output}}
}
