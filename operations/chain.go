package operations

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// ErrAuditChain means that a tenant's audit log is not the one that was
// written: a record was changed, removed, added or moved. The text says where.
var ErrAuditChain = errors.New("audit chain is broken")

// AuditHead is the end of a tenant's chain: how many records there are, and the
// hash of the last, in hex. Kept elsewhere, it proves later that nothing before
// it was rewritten, not even by someone who can rewrite the whole database.
type AuditHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// chainHead is an AuditHead as it is stored.
type chainHead struct {
	seq  int64
	hash []byte
}

func (h chainHead) public() AuditHead { return AuditHead{h.seq, hex.EncodeToString(h.hash)} }

const chainPurpose = "drawbridge-audit/v1"

func genesis(tenant string) chainHead {
	sum := sha256.Sum256([]byte(chainPurpose + "\n" + tenant))
	return chainHead{0, sum[:]}
}

// next links one record to the chain: SHA-256 over the hash before it, its
// number, its id and every column, each with its length in front, so that no
// text can slip from one column into another.
func (h chainHead) next(id string, values []any) chainHead {
	d := sha256.New()
	d.Write(h.hash)
	add := func(s string) {
		d.Write(binary.AppendUvarint(nil, uint64(len(s))))
		d.Write([]byte(s))
	}
	add(strconv.FormatInt(h.seq+1, 10))
	add(id)
	for _, v := range values {
		switch v := v.(type) {
		case string:
			add(v)
		case int64:
			add(strconv.FormatInt(v, 10))
		default:
			panic("an audit column of another type")
		}
	}
	return chainHead{h.seq + 1, d.Sum(nil)}
}

// append writes a tenant's records behind its chain. head is where the caller
// believes the chain ends; the true end is returned. Two processes can't both
// move the head from the same place, and on PostgreSQL the second waits here
// for the first one's commit.
func appendAudit(ctx context.Context, tx *store.Tx, tenant string, head chainHead, batch []*auditEntry) (chainHead, error) {
	if head.seq > 0 {
		end := head
		for _, e := range batch {
			end = end.next(e.id, e.values)
		}
		n, err := tx.Exec(ctx, `UPDATE audit_head SET seq = ?, hash = ? WHERE tenant = ? AND seq = ? AND hash = ?`,
			end.seq, end.hash, tenant, head.seq, head.hash)
		if err != nil {
			return head, err
		}
		if n == 1 {
			_, err := insertAudit(ctx, tx, head, batch)
			return end, err
		}
	}
	// Others have written, or a commit of ours whose outcome was unknown went
	// through: then its records are there.
	head, err := lockHead(ctx, tx, tenant)
	if err != nil {
		return head, err
	}
	var fresh []*auditEntry
	for _, e := range batch {
		var seq int64
		err := tx.QueryRow(ctx, `SELECT seq FROM audit WHERE id = ?`, e.id).Scan(&seq)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			fresh = append(fresh, e)
		case err != nil:
			return head, err
		}
	}
	end, err := insertAudit(ctx, tx, head, fresh)
	if err != nil {
		return head, err
	}
	return end, setHead(ctx, tx, tenant, head, end)
}

// lockHead reads where a tenant's chain ends and keeps others from moving it
// until the transaction ends.
func lockHead(ctx context.Context, tx *store.Tx, tenant string) (chainHead, error) {
	var h chainHead
	lock := func() error {
		return tx.QueryRow(ctx, `UPDATE audit_head SET seq = seq WHERE tenant = ? RETURNING seq, hash`, tenant).Scan(&h.seq, &h.hash)
	}
	err := lock()
	if !errors.Is(err, sql.ErrNoRows) {
		return h, err
	}
	first := genesis(tenant)
	_, err = tx.Exec(ctx, `INSERT INTO audit_head (tenant, seq, hash) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, tenant, first.seq, first.hash)
	if err != nil {
		return chainHead{}, err
	}
	return h, lock()
}

func setHead(ctx context.Context, tx *store.Tx, tenant string, from, to chainHead) error {
	n, err := tx.Exec(ctx, `UPDATE audit_head SET seq = ?, hash = ? WHERE tenant = ? AND seq = ?`, to.seq, to.hash, tenant, from.seq)
	if err == nil && n != 1 {
		err = fmt.Errorf("the audit chain's end moved under its lock")
	}
	return err
}

// adopt chains the records of before there was a chain, oldest first, a page a
// transaction. What happened to them until now, no hash can tell.
func (a *AuditLog) adopt(ctx context.Context) error {
	for {
		var tenant string
		err := a.db.QueryRowFor(ctx, store.AllTenants(), `SELECT tenant FROM audit WHERE seq = 0 LIMIT 1`).Scan(&tenant)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		err = a.db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
			head, err := lockHead(ctx, tx, tenant)
			if err != nil {
				return err
			}
			rows, err := tx.Query(ctx, `SELECT id, `+auditColumns+` FROM audit WHERE seq = 0 AND tenant = ? ORDER BY at, id LIMIT 100`, tenant)
			if err != nil {
				return err
			}
			old, err := scanAudit(rows, false)
			if err != nil {
				return err
			}
			end := head
			for i := range old {
				end = end.next(old[i].id, old[i].values)
				if _, err := tx.Exec(ctx, `UPDATE audit SET seq = ?, hash = ? WHERE id = ?`, end.seq, end.hash, old[i].id); err != nil {
					return err
				}
			}
			return setHead(ctx, tx, tenant, head, end)
		})
		if err != nil {
			return err
		}
	}
}

// Verify recomputes a tenant's chain from its first record and compares its
// end, and returns the end. Each of the heads that are known from earlier must
// lie on it. An error that matches ErrAuditChain says at which record it breaks;
// any other means that the log could not be read.
func (a *AuditLog) Verify(ctx context.Context, tenant connector.TenantID, known ...AuditHead) (AuditHead, error) {
	head := genesis(string(tenant))
	err := a.db.ViewFor(ctx, scope(tenant), func(tx *store.Tx) error { // one snapshot: others go on writing
		open := slices.Clone(known)
		for {
			rows, err := tx.Query(ctx, `SELECT id, `+auditColumns+`, seq, hash FROM audit WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT 500`, tenant, head.seq)
			if err != nil {
				return err
			}
			page, err := scanAudit(rows, true)
			if err != nil {
				return err
			}
			for i := range page {
				if head, err = page[i].follows(head); err != nil {
					return err
				}
				open = slices.DeleteFunc(open, func(k AuditHead) bool { return k == head.public() })
			}
			if len(page) == 0 {
				break
			}
		}
		var end chainHead
		err := tx.QueryRow(ctx, `SELECT seq, hash FROM audit_head WHERE tenant = ?`, tenant).Scan(&end.seq, &end.hash)
		if errors.Is(err, sql.ErrNoRows) {
			end, err = genesis(string(tenant)), nil
		}
		if err != nil {
			return err
		}
		var loose int64
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM audit WHERE seq <= 0 AND tenant = ?`, tenant).Scan(&loose); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(k AuditHead) bool { return k == genesis(string(tenant)).public() })
		switch {
		case end.seq != head.seq || !bytes.Equal(end.hash, head.hash):
			return fmt.Errorf("%w: it ends at record %d, and %d were written", ErrAuditChain, head.seq, end.seq)
		case loose > 0:
			return fmt.Errorf("%w: %d records are not part of it", ErrAuditChain, loose)
		case len(open) > 0:
			return fmt.Errorf("%w: record %d is not the one that was known", ErrAuditChain, open[0].Seq)
		}
		return nil
	})
	if errors.Is(err, ErrAuditChain) {
		return AuditHead{}, err
	}
	if err != nil {
		return AuditHead{}, edge(err)
	}
	return head.public(), nil
}

// follows checks one stored record against the chain before it.
func (e *auditEntry) follows(head chainHead) (chainHead, error) {
	if e.seq != head.seq+1 {
		return head, fmt.Errorf("%w: record %d is missing", ErrAuditChain, head.seq+1)
	}
	next := head.next(e.id, e.values)
	if !bytes.Equal(next.hash, e.hash) {
		return head, fmt.Errorf("%w: record %d is not as it was written", ErrAuditChain, e.seq)
	}
	return next, nil
}
