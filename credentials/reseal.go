package credentials

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// A sealedColumn is one column that holds sealed values. Its page reads tenant,
// id, value and what else the value is bound to, in the order of tenant and id.
type sealedColumn struct {
	table, column string
	count         string
	page          string
	update        string
	bound         func(r *sealedRow) []byte
}

type sealedRow struct {
	tenant, id string
	sealed     []byte
	a, b       string
	version    int64
}

// sealedColumns are all of them: a column that is forgotten here would be lost
// when its key is destroyed.
var sealedColumns = []sealedColumn{
	{
		table: "cred_tokens", column: "sealed",
		count: `SELECT sealed FROM cred_tokens WHERE sealed IS NOT NULL`,
		page: `SELECT t.tenant_id, t.connection_id, t.sealed, c.issuer, c.client_id, t.version
			FROM cred_tokens t JOIN cred_connections c ON c.tenant_id = t.tenant_id AND c.id = t.connection_id
			WHERE t.sealed IS NOT NULL AND (t.tenant_id > ?1 OR t.tenant_id = ?1 AND t.connection_id > ?2)
			ORDER BY t.tenant_id, t.connection_id LIMIT ?3`,
		update: `UPDATE cred_tokens SET sealed = ? WHERE tenant_id = ? AND connection_id = ? AND sealed = ?`,
		bound: func(r *sealedRow) []byte {
			return place{connector.TenantID(r.tenant), connector.ConnectionID(r.id), r.a, r.b}.tokens(r.version)
		},
	},
	{
		table: "cred_transactions", column: "verifier",
		count: `SELECT verifier FROM cred_transactions WHERE verifier IS NOT NULL`,
		page: `SELECT tenant_id, id, verifier, issuer, client_id, CASE WHEN mode = 'device' THEN 1 ELSE 0 END FROM cred_transactions
			WHERE verifier IS NOT NULL AND (tenant_id > ?1 OR tenant_id = ?1 AND id > ?2) ORDER BY tenant_id, id LIMIT ?3`,
		update: `UPDATE cred_transactions SET verifier = ? WHERE tenant_id = ? AND id = ? AND verifier = ?`,
		bound: func(r *sealedRow) []byte {
			at := place{tenant: connector.TenantID(r.tenant), issuer: r.a, client: r.b}
			if r.version != 0 {
				return at.deviceCode(r.id)
			}
			return at.verifier(r.id)
		},
	},
	{
		table: "cred_revocations", column: "sealed",
		count: `SELECT sealed FROM cred_revocations WHERE sealed IS NOT NULL`,
		page: `SELECT tenant_id, id, sealed, kind, '', 0 FROM cred_revocations
			WHERE sealed IS NOT NULL AND (tenant_id > ?1 OR tenant_id = ?1 AND id > ?2) ORDER BY tenant_id, id LIMIT ?3`,
		update: `UPDATE cred_revocations SET sealed = ? WHERE tenant_id = ? AND id = ? AND sealed = ?`,
		bound:  func(r *sealedRow) []byte { return revocationPlace(connector.TenantID(r.tenant), r.id, r.a) },
	},
}

// Reseal puts every value that is sealed under another key than the ring's
// primary under the primary, one row at a time, and returns how many it
// changed. It runs beside everything else and can be repeated. A value that
// does not open is left as it is, the others are done, and the error tells.
//
// A process that learns late of the new primary can still write under the old
// one: ask SealedBy before a key is destroyed, and run this again.
func (s *Service) Reseal(ctx context.Context) (int, error) {
	if err := s.cfg.Keys.Reload(); err != nil {
		return 0, storage(err)
	}
	changed := 0
	var failed error
	for i := range sealedColumns {
		n, err := s.resealColumn(ctx, &sealedColumns[i])
		changed += n
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return changed, storage(failed)
}

func (s *Service) resealColumn(ctx context.Context, c *sealedColumn) (int, error) {
	const page = 100
	changed, damaged, locked := 0, 0, 0
	var after sealedRow
	for {
		rows, err := s.sealedPage(ctx, c, after, page)
		if err != nil {
			return changed, err
		}
		for i := range rows {
			did, err := s.resealRow(ctx, c, &rows[i])
			switch {
			case errors.Is(err, keys.ErrIntegrity):
				damaged++
			case errors.Is(err, keys.ErrKeyUnavailable):
				locked++
			case err != nil:
				return changed, err
			case did:
				changed++
			}
		}
		if len(rows) < page {
			break
		}
		after = rows[len(rows)-1]
	}
	if locked > 0 {
		return changed, fmt.Errorf("%d values of %s: %w", locked, c.table, keys.ErrKeyUnavailable)
	}
	if damaged > 0 {
		return changed, fmt.Errorf("%d values of %s: %w", damaged, c.table, keys.ErrIntegrity)
	}
	return changed, nil
}

func (s *Service) sealedPage(ctx context.Context, c *sealedColumn, after sealedRow, limit int) ([]sealedRow, error) {
	var out []sealedRow
	err := s.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var r sealedRow
		err := row.Scan(&r.tenant, &r.id, &r.sealed, &r.a, &r.b, &r.version)
		out = append(out, r)
		return err
	}, c.page, after.tenant, after.id, limit)
	return out, err
}

// resealRow replaces exactly the bytes that were read: whoever changed the row
// meanwhile has sealed a newer value, which must stay.
func (s *Service) resealRow(ctx context.Context, c *sealedColumn, r *sealedRow) (bool, error) {
	if id, ok := keys.KeyID(r.sealed); ok && id == s.cfg.Keys.Primary() {
		return false, nil
	}
	context := c.bound(r)
	plain, err := s.cfg.Keys.Open(r.sealed, context)
	if err != nil {
		return false, err
	}
	defer clear(plain)
	sealed, err := s.cfg.Keys.Seal(plain, context)
	if err != nil {
		return false, err
	}
	var n int64
	err = s.db.UpdateFor(ctx, scope(connector.TenantID(r.tenant)), func(tx *store.Tx) error {
		var err error
		n, err = tx.Exec(ctx, c.update, sealed, r.tenant, r.id, r.sealed)
		return err
	})
	return n > 0, err
}

// SealedBy counts this package's sealed values by the id of their key, in one
// snapshot. A key that is not in it can go, as far as this package is
// concerned. Values that are not sealed at all are counted under 0.
func (s *Service) SealedBy(ctx context.Context) (map[uint32]int, error) {
	out := make(map[uint32]int)
	err := s.db.ViewFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		for _, c := range sealedColumns {
			if err := countKeys(ctx, tx, c.count, out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, storage(err)
	}
	return out, nil
}

func countKeys(ctx context.Context, tx *store.Tx, query string, into map[uint32]int) error {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var sealed []byte
		if err := rows.Scan(&sealed); err != nil {
			return err
		}
		id, _ := keys.KeyID(sealed)
		into[id]++
	}
	return rows.Err()
}

// MissingKeys returns the ids of keys that stored values need and this process
// can't open with, in order: after a wrong key file was put in place, for
// example. Until they are back those connections are UNAVAILABLE, not lost.
func (s *Service) MissingKeys(ctx context.Context) ([]uint32, error) {
	used, err := s.SealedBy(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range s.cfg.Keys.Keys() {
		if k.Status == keys.Enabled {
			delete(used, k.ID)
		}
	}
	var out []uint32
	for id := range used {
		out = append(out, id)
	}
	slices.Sort(out)
	return out, nil
}
