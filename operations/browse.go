package operations

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Filter narrows a list. Empty fields don't.
type Filter struct {
	Principal  connector.PrincipalID
	Connection connector.ConnectionID
	Tool       string
	Before     connector.OperationID // only what was proposed before this one of the tenant's
	Limit      int                   // zero: 100; at most 1000
}

// Approvals lists a tenant's approvals, newest first, in any of the states;
// none means all.
func (l *Ledger) Approvals(ctx context.Context, tenant connector.TenantID, f Filter, states ...ApprovalState) ([]Card, error) {
	rows, err := l.list(ctx, tenant, f, "a.state", names(states))
	if err != nil {
		return nil, edge(err)
	}
	var cards []Card
	for i := range rows {
		// Time may have changed the state that the row was found by.
		if len(states) > 0 && !slices.Contains(states, rows[i].approval.state) {
			continue
		}
		c, err := l.seal.card(&rows[i])
		if err != nil {
			return nil, edge(err)
		}
		cards = append(cards, c)
	}
	return cards, nil
}

// Approval returns one card by the approval's id or a unique beginning of it.
func (l *Ledger) Approval(ctx context.Context, tenant connector.TenantID, id string) (Card, error) {
	op, err := l.resolve(ctx, findsApproval, tenant, id)
	if err != nil {
		return Card{}, edge(err)
	}
	r, _, err := l.read(ctx, func() (row, bool, error) { return l.findID(ctx, tenant, op) })
	if err != nil {
		return Card{}, edge(err)
	}
	c, err := l.seal.card(&r)
	return c, edge(err)
}

// Line is one operation in a list: what can be said without opening what is
// sealed. Reasons are as people and providers' codes gave them: show them, and
// the actors of a history, through [Visible].
type Line struct {
	ID           connector.OperationID    `json:"operation_id"`
	State        connector.OperationState `json:"state"`
	Reason       string                   `json:"reason,omitempty"`
	Tool         string                   `json:"tool"`
	Version      string                   `json:"version"`
	Provider     string                   `json:"provider"`
	Principal    connector.PrincipalID    `json:"principal"`
	Connection   connector.ConnectionID   `json:"connection"`
	Approval     connector.ApprovalID     `json:"approval_id"`
	Digest       string                   `json:"payload_digest"`
	CallID       string                   `json:"call_id"`
	CreatedAt    time.Time                `json:"created_at"`
	DispatchedAt time.Time                `json:"dispatched_at,omitzero"`
	NextLook     time.Time                `json:"next_look,omitzero"`
	Looks        int                      `json:"looks"`
	ExternalID   string                   `json:"external_id,omitempty"` // when settled by hand
	SettledBy    string                   `json:"settled_by,omitempty"`
}

// Detail is everything about one operation.
type Detail struct {
	Line
	Card    Card                      `json:"card"`
	Record  connector.OperationRecord `json:"-"` // opened: arguments, output and receipt
	History []Event                   `json:"history"`
}

// Event is one change of an operation, oldest first in a history.
type Event struct {
	Seq    int64                    `json:"seq"`
	At     time.Time                `json:"at"`
	From   connector.OperationState `json:"from,omitempty"` // empty: proposed
	To     connector.OperationState `json:"to"`
	Actor  string                   `json:"actor"`
	Reason string                   `json:"reason,omitempty"`
}

// Operations lists a tenant's operations, newest first, in any of the states;
// none means all.
func (l *Ledger) Operations(ctx context.Context, tenant connector.TenantID, f Filter, states ...connector.OperationState) ([]Line, error) {
	rows, err := l.list(ctx, tenant, f, "o.state", names(states))
	if err != nil {
		return nil, edge(err)
	}
	var lines []Line
	for i := range rows {
		if len(states) == 0 || slices.Contains(states, rows[i].state) {
			lines = append(lines, rows[i].line())
		}
	}
	return lines, nil
}

// Operation shows one operation by its id or a unique beginning of it.
func (l *Ledger) Operation(ctx context.Context, tenant connector.TenantID, id string) (Detail, error) {
	op, err := l.resolve(ctx, findsOperation, tenant, id)
	if err != nil {
		return Detail{}, edge(err)
	}
	var d Detail
	r, _, err := l.read(ctx, func() (row, bool, error) { return l.findID(ctx, tenant, op) })
	if err != nil {
		return Detail{}, edge(err)
	}
	d.Line = r.line()
	if d.Card, err = l.seal.card(&r); err != nil {
		return Detail{}, edge(err)
	}
	if d.Record, err = l.seal.record(&r); err != nil {
		return Detail{}, edge(err)
	}
	d.History, err = l.history(ctx, tenant, op)
	return d, edge(err)
}

// Export hands every operation of a tenant to fn, newest first, until fn fails.
// What is proposed meanwhile is not among them.
func (l *Ledger) Export(ctx context.Context, tenant connector.TenantID, fn func(Detail) error) error {
	for f := (Filter{}); ; {
		lines, err := l.Operations(ctx, tenant, f)
		if err != nil || len(lines) == 0 {
			return err
		}
		for _, line := range lines {
			d, err := l.Operation(ctx, tenant, string(line.ID))
			if err != nil {
				return err
			}
			if err := fn(d); err != nil {
				return err
			}
		}
		f.Before = lines[len(lines)-1].ID
	}
}

func (r *row) line() Line {
	return Line{
		ID: r.id, State: r.state, Reason: r.reason, Tool: r.Tool, Version: r.version, Provider: r.provider,
		Principal: r.Principal, Connection: r.Connection, Approval: r.approval.id, Digest: r.digest, CallID: r.callID,
		CreatedAt: r.createdAt, DispatchedAt: r.dispatchedAt, NextLook: r.nextLook, Looks: r.looks,
		ExternalID: r.externalID, SettledBy: r.settledBy,
	}
}

func (l *Ledger) history(ctx context.Context, tenant connector.TenantID, id connector.OperationID) ([]Event, error) {
	var events []Event
	err := l.db.EachFor(ctx, scope(tenant), func(row store.Scanner) error {
		var e Event
		err := row.Scan(&e.Seq, (*moment)(&e.At), &e.From, &e.To, &e.Actor, &e.Reason)
		events = append(events, e)
		return err
	}, `SELECT seq, at, from_state, to_state, actor, reason FROM operation_event
		WHERE tenant = ? AND operation = ? ORDER BY seq`, tenant, id)
	return events, err
}

// list reads rows with their approvals. What time has decided is written
// before, so that a state finds everything that is in it, and for what became
// overdue in between.
func (l *Ledger) list(ctx context.Context, tenant connector.TenantID, f Filter, column string, states []string) ([]row, error) {
	where, args := []string{"o.tenant = ?"}, []any{tenant}
	only := func(column string, value string) {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	only("o.principal", string(f.Principal))
	only("o.connection", string(f.Connection))
	only("o.tool", f.Tool)
	if f.Before != "" {
		where = append(where, `EXISTS (SELECT 1 FROM operation b WHERE b.tenant = o.tenant AND b.id = ?
			AND (o.created_at < b.created_at OR o.created_at = b.created_at AND o.id > b.id))`)
		args = append(args, f.Before)
	}
	if len(states) > 0 {
		if _, err := l.Sweep(ctx); err != nil {
			return nil, err
		}
		where = append(where, column+" IN (?"+strings.Repeat(", ?", len(states)-1)+")")
		for _, s := range states {
			args = append(args, s)
		}
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	args = append(args, min(limit, 1000))
	var found []row
	err := l.db.EachFor(ctx, scope(tenant), func(line store.Scanner) error {
		var r row
		err := line.Scan(append(r.fields(), r.approval.fields()...)...)
		r.Tenant = r.tenant
		found = append(found, r)
		return err
	}, joined+`WHERE `+strings.Join(where, " AND ")+` ORDER BY o.created_at DESC, o.id LIMIT ?`, args...)
	if err != nil {
		return nil, err
	}
	now, err := l.db.Now(ctx)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if !l.overdue(&found[i], now) {
			continue
		}
		if found[i], err = l.touch(ctx, tenant, found[i].id); err != nil {
			return nil, err
		}
	}
	return found, nil
}

var short = regexp.MustCompile(`^[a-z0-9_]{4,64}$`)

func names[T ~string](states []T) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}

// finds is how an id is searched for. The texts are constants, so that each is
// prepared once.
type finds struct {
	what, begins    string
	exactly, prefix string
}

var (
	findsOperation = finds{"operation", "op_",
		`SELECT id, id FROM operation WHERE tenant = ? AND id = ?`,
		`SELECT id, id FROM operation WHERE tenant = ? AND id LIKE ? ESCAPE '!' ORDER BY id LIMIT 2`}
	findsApproval = finds{"approval", "apr_",
		`SELECT operation, id FROM operation_approval WHERE tenant = ? AND id = ?`,
		`SELECT operation, id FROM operation_approval WHERE tenant = ? AND id LIKE ? ESCAPE '!' ORDER BY id LIMIT 2`}
)

// fullID is the length of ids as they are made, behind their first letters.
const fullID = 16

// resolve turns an id, or a beginning that only one id of the tenant has, into
// an operation id. A full id costs one look at the primary key.
func (l *Ledger) resolve(ctx context.Context, f finds, tenant connector.TenantID, id string) (connector.OperationID, error) {
	found, err := l.candidates(ctx, f.exactly, tenant, storable(id, maxName))
	if err == nil && len(found) == 0 && short.MatchString(id) && !(strings.HasPrefix(id, f.begins) && len(id) >= len(f.begins)+fullID) {
		// Underscore is a wildcard of LIKE; the pattern admits no other.
		found, err = l.candidates(ctx, f.prefix, tenant, strings.ReplaceAll(id, "_", "!_")+"%")
	}
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", notFound(f.what)
	case len(found) > 1:
		return "", connector.Fail(connector.CodeInvalidInput, "more than one %s begins like this", f.what)
	}
	return found[0], nil
}

func (l *Ledger) candidates(ctx context.Context, query string, tenant connector.TenantID, arg string) ([]connector.OperationID, error) {
	var found []connector.OperationID
	err := l.db.EachFor(ctx, scope(tenant), func(row store.Scanner) error {
		var op connector.OperationID
		var full string
		err := row.Scan(&op, &full)
		found = append(found, op)
		return err
	}, query, tenant, arg)
	return found, err
}
