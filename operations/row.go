package operations

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// row is one operation with its approval, as stored.
type row struct {
	connector.WriteIdentity
	tenant  connector.TenantID
	id      connector.OperationID
	isLive  bool // as stored; live computes it
	con     string
	version string

	provider   string
	authz      int64
	argsDigest string
	digest     string
	settle     time.Duration
	callID     string
	run        string
	plan       []byte
	arguments  []byte

	state        connector.OperationState
	reason       string
	retryable    bool
	fence        int64
	claim        claimKind
	leaseUntil   time.Time
	createdAt    time.Time
	dispatchedAt time.Time
	nextLook     time.Time
	looks        int
	receipt      []byte
	output       []byte
	externalID   string
	settledBy    string
	rev          int64

	approval approval
	moved    bool // something was written in this transaction
}

// claimKind is what the holder of the current fence may report.
type claimKind string

const (
	claimNone     claimKind = ""
	claimDispatch claimKind = "dispatch"
	claimLook     claimKind = "look"
)

type approval struct {
	id              connector.ApprovalID
	principal       connector.PrincipalID
	connection      connector.ConnectionID
	tool            string
	version         string
	digest          string
	authz           int64
	resourceVersion string
	state           ApprovalState
	revoked         bool // its connection died while it was in use
	createdAt       time.Time
	expiresAt       time.Time
	decidedBy       string
	reason          string
	decidedAt       time.Time
	usedAt          time.Time
}

// live tells whether the operation stands for its identity.
func (r *row) live() bool {
	switch r.state {
	case connector.StateRejected:
		return false
	case connector.StateNotSent:
		return r.retryable
	}
	return true
}

// dispatchable tells whether only the approval stands between the operation
// and its dispatch.
func (r *row) dispatchable() bool {
	return r.state == connector.StateApproved || r.state == connector.StateNotSent && r.retryable
}

// waiting tells whether the operation's approval can still be given or used.
func (r *row) waiting() bool {
	return r.state == connector.StateAwaitingApproval || r.dispatchable()
}

const operationColumns = `tenant, id, principal, connection, tool, intent, live, connector, version, provider,
	authz_version, args_digest, digest, settle_ms, call_id, run, plan, arguments, state, reason, retryable, fence,
	claim, lease_until, created_at, dispatched_at, next_look, looks, receipt, output, external_id, settled_by, rev`

const approvalColumns = `id, principal, connection, tool, version, digest, authz_version, resource_version, state,
	revoked, created_at, expires_at, decided_by, reason, decided_at, used_at`

func (r *row) fields() []any {
	return []any{&r.tenant, &r.id, &r.Principal, &r.Connection, &r.Tool, &r.Intent, (*boolean)(&r.isLive), &r.con, &r.version, &r.provider,
		&r.authz, &r.argsDigest, &r.digest, (*millis)(&r.settle), &r.callID, &r.run, &r.plan, &r.arguments, &r.state, &r.reason,
		(*boolean)(&r.retryable), &r.fence, &r.claim, (*moment)(&r.leaseUntil), (*moment)(&r.createdAt), (*moment)(&r.dispatchedAt),
		(*moment)(&r.nextLook), &r.looks, &r.receipt, &r.output, &r.externalID, &r.settledBy, &r.rev}
}

func (a *approval) fields() []any {
	return []any{&a.id, &a.principal, &a.connection, &a.tool, &a.version, &a.digest, &a.authz, &a.resourceVersion, &a.state,
		(*boolean)(&a.revoked), (*moment)(&a.createdAt), (*moment)(&a.expiresAt), &a.decidedBy, &a.reason, (*moment)(&a.decidedAt),
		(*moment)(&a.usedAt)}
}

// joined reads an operation with its approval in one statement, hence in one
// snapshot.
var joined = `SELECT ` + qualified("o.", operationColumns) + `, ` + qualified("a.", approvalColumns) + `
	FROM operation o JOIN operation_approval a ON a.tenant = o.tenant AND a.operation = o.id `

// qualified puts the table's alias before each column.
func qualified(alias, columns string) string {
	names := strings.Split(columns, ",")
	for i, name := range names {
		names[i] = alias + strings.TrimSpace(name)
	}
	return strings.Join(names, ", ")
}

// querier is a transaction, or the database within a scope.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) *store.Row
}

type scoped struct {
	db *store.DB
	of store.Scope
}

func (s scoped) QueryRow(ctx context.Context, query string, args ...any) *store.Row {
	return s.db.QueryRowFor(ctx, s.of, query, args...)
}

func (l *Ledger) findID(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (row, bool, error) {
	return find(ctx, scoped{l.db, scope(tenant)}, `WHERE o.tenant = ? AND o.id = ?`, tenant, id)
}

func findLive(ctx context.Context, q querier, w connector.WriteIdentity) (row, bool, error) {
	return find(ctx, q, `WHERE o.tenant = ? AND o.principal = ? AND o.connection = ? AND o.tool = ? AND o.intent = ? AND o.live = 1`,
		w.Tenant, w.Principal, w.Connection, w.Tool, w.Intent)
}

func find(ctx context.Context, q querier, where string, args ...any) (r row, found bool, err error) {
	err = q.QueryRow(ctx, joined+where, args...).Scan(append(r.fields(), r.approval.fields()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, false, nil
	}
	r.Tenant = r.tenant
	return r, err == nil, err
}

// lock takes the operation's row lock and reads what is under it. Every change
// of an operation or its approval begins here, so two never interleave on
// PostgreSQL, where both rows are locked: a join would show the approval as it
// was before the wait otherwise. On SQLite there is one writer anyway.
func lock(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.OperationID) (row, error) {
	query := lockOnSQLite
	if tx.Engine() == store.PostgreSQL {
		query = lockOnPostgreSQL
	}
	var r row
	err := tx.QueryRow(ctx, query, tenant, id).Scan(append(r.fields(), r.approval.fields()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, notFound("operation")
	}
	r.Tenant = r.tenant
	return r, err
}

var (
	lockOnSQLite     = joined + `WHERE o.tenant = ? AND o.id = ?`
	lockOnPostgreSQL = lockOnSQLite + ` FOR UPDATE`
)

// loadApproval completes a locked row.
func (r *row) loadApproval(ctx context.Context, tx *store.Tx) error {
	r.Tenant = r.tenant
	return tx.QueryRow(ctx, `SELECT `+approvalColumns+` FROM operation_approval WHERE tenant = ? AND operation = ?`,
		r.tenant, r.id).Scan(r.approval.fields()...)
}

// move writes the row's state, receipt and output, and its line of history. The
// row must be locked.
func (r *row) move(ctx context.Context, tx *store.Tx, now time.Time, to connector.OperationState, actor, reason string) error {
	from := r.state
	r.state, r.reason, r.moved = to, storable(reason, maxReason), true
	r.isLive = r.live()
	r.rev++
	_, err := tx.Exec(ctx, `UPDATE operation SET live = ?, state = ?, reason = ?, retryable = ?, fence = ?, claim = ?,
		lease_until = ?, dispatched_at = ?, next_look = ?, looks = ?, receipt = ?, output = ?, external_id = ?, settled_by = ?, rev = ?
		WHERE tenant = ? AND id = ?`,
		boolean(r.isLive), r.state, r.reason, boolean(r.retryable), r.fence, r.claim, moment(r.leaseUntil), moment(r.dispatchedAt),
		moment(r.nextLook), r.looks, r.receipt, r.output, r.externalID, r.settledBy, r.rev, r.tenant, r.id)
	if err != nil {
		return err
	}
	return r.remember(ctx, tx, now, from, actor)
}

// remember writes one line of history; its number is the row's revision.
func (r *row) remember(ctx context.Context, tx *store.Tx, now time.Time, from connector.OperationState, actor string) error {
	_, err := tx.Exec(ctx, `INSERT INTO operation_event (tenant, operation, seq, at, from_state, to_state, actor, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.tenant, r.id, r.rev, moment(now), from, r.state, storable(actor, maxName), r.reason)
	return err
}

// decide writes the approval's state. The operation must be locked.
func (r *row) decide(ctx context.Context, tx *store.Tx, to ApprovalState) error {
	a := &r.approval
	a.state, r.moved = to, true
	_, err := tx.Exec(ctx, `UPDATE operation_approval SET state = ?, revoked = ?, decided_by = ?, reason = ?, decided_at = ?, used_at = ?
		WHERE tenant = ? AND id = ?`,
		a.state, boolean(a.revoked), a.decidedBy, a.reason, moment(a.decidedAt), moment(a.usedAt), r.tenant, a.id)
	return err
}

// end kills the approval and with it the operation, of which nothing was sent.
func (r *row) end(ctx context.Context, tx *store.Tx, now time.Time, to ApprovalState, actor, reason string) error {
	a := &r.approval
	a.decidedBy, a.reason, a.decidedAt = storable(actor, maxName), storable(reason, maxReason), now
	if err := r.decide(ctx, tx, to); err != nil {
		return err
	}
	r.retryable = false
	text := "approval " + string(to)
	if reason != "" {
		text += ": " + reason
	}
	return r.move(ctx, tx, now, connector.StateNotSent, actor, text)
}

const (
	maxName   = 255
	maxReason = 2000
)

// storable makes any text fit for both databases: valid UTF-8, no NUL, not
// longer than max bytes.
func storable(s string, max int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}
