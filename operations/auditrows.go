package operations

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

const auditColumns = `at, tenant, run, step, call_id, principal, connection, tool, connector, version, policy_version,
	decision, args_digest, operation, status, code, request_id, correlation, attempts, stages`

// auditValues are a record's columns: integers and texts.
func auditValues(r connector.AuditRecord) []any {
	text := func(s string) string { return storable(s, auditMaxField) }
	at := int64(0)
	if !r.At.IsZero() {
		at = r.At.UnixMilli()
	}
	stages, err := json.Marshal(r.Stages)
	if err != nil || len(stages) > auditMaxStages {
		stages = []byte("null") // a handful of short names is expected
	}
	return []any{at, text(string(r.Tenant)), text(r.Run), text(r.Step), text(r.CallID), text(string(r.Principal)),
		text(string(r.Connection)), text(r.Tool), text(r.Connector), text(r.Version), text(r.PolicyVersion), text(r.Decision),
		text(r.ArgsDigest), text(string(r.Operation)), text(string(r.Status)), text(r.Code), text(r.RequestID), text(r.Correlation),
		int64(r.Attempts), storable(string(stages), auditMaxStages)}
}

// record is the reverse of auditValues.
func (e *auditEntry) record() (connector.AuditRecord, error) {
	v := e.values
	text := func(i int) string { return v[i].(string) }
	r := connector.AuditRecord{
		Tenant: connector.TenantID(text(1)), Run: text(2), Step: text(3), CallID: text(4), Principal: connector.PrincipalID(text(5)),
		Connection: connector.ConnectionID(text(6)), Tool: text(7), Connector: text(8), Version: text(9), PolicyVersion: text(10),
		Decision: text(11), ArgsDigest: text(12), Operation: connector.OperationID(text(13)), Status: connector.Status(text(14)),
		Code: text(15), RequestID: text(16), Correlation: text(17), Attempts: int(v[18].(int64)),
	}
	if at := v[0].(int64); at != 0 {
		r.At = time.UnixMilli(at).UTC()
	}
	if json.Unmarshal([]byte(text(19)), &r.Stages) != nil {
		return r, errors.New("stored stages can't be read")
	}
	return r, nil
}

// insertAudit writes records behind head and returns the new end.
func insertAudit(ctx context.Context, tx *store.Tx, head chainHead, batch []*auditEntry) (chainHead, error) {
	for _, e := range batch {
		head = head.next(e.id, e.values)
		_, err := tx.Exec(ctx, `INSERT INTO audit (id, `+auditColumns+`, seq, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			append(append([]any{e.id}, e.values...), head.seq, head.hash)...)
		if err != nil {
			return head, err
		}
	}
	return head, nil
}

// entries reads records of a tenant outside a transaction.
func (a *AuditLog) entries(ctx context.Context, tenant connector.TenantID, chained bool, query string, args ...any) ([]auditEntry, error) {
	var entries []auditEntry
	err := a.db.EachFor(ctx, scope(tenant), func(row store.Scanner) error {
		e, err := scanEntry(row, chained)
		entries = append(entries, e)
		return err
	}, query, args...)
	return entries, err
}

func scanAudit(rows *sql.Rows, chained bool) ([]auditEntry, error) {
	defer rows.Close()
	var entries []auditEntry
	for rows.Next() {
		e, err := scanEntry(rows, chained)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// scanEntry reads id and auditColumns, and seq and hash when they were asked for.
func scanEntry(row store.Scanner, chained bool) (auditEntry, error) {
	var e auditEntry
	var texts [18]string
	var at, attempts int64
	into := []any{&e.id, &at}
	for i := range 17 {
		into = append(into, &texts[i])
	}
	into = append(into, &attempts, &texts[17])
	if chained {
		into = append(into, &e.seq, &e.hash)
	}
	err := row.Scan(into...)
	e.values = append(e.values, at)
	for _, s := range texts[:17] {
		e.values = append(e.values, s)
	}
	e.values = append(e.values, attempts, texts[17])
	return e, err
}

// AuditFilter narrows a list. Empty fields don't.
type AuditFilter struct {
	Principal connector.PrincipalID
	Tool      string
	CallID    string
	Operation connector.OperationID
	Since     time.Time // inclusive
	Limit     int       // zero: 100; at most 1000
}

// List returns a tenant's records that are on disk, newest first.
func (a *AuditLog) List(ctx context.Context, tenant connector.TenantID, f AuditFilter) ([]connector.AuditRecord, error) {
	query, args := `SELECT id, `+auditColumns+` FROM audit WHERE tenant = ? AND at >= ?`, []any{tenant, moment(f.Since)}
	only := func(column, value string) {
		if value != "" {
			query, args = query+` AND `+column+` = ?`, append(args, value)
		}
	}
	only("principal", string(f.Principal))
	only("tool", f.Tool)
	only("call_id", f.CallID)
	only("operation", string(f.Operation))
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	entries, err := a.entries(ctx, tenant, false, query+` ORDER BY at DESC, id DESC LIMIT ?`, append(args, min(limit, 1000))...)
	if err != nil {
		return nil, edge(err)
	}
	var records []connector.AuditRecord
	for i := range entries {
		r, err := entries[i].record()
		if err != nil {
			return nil, edge(err)
		}
		records = append(records, r)
	}
	return records, nil
}
