package operations

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Propose records a plan with a pending approval. When a live operation has the
// same identity its record is returned instead, or CONFLICT if its arguments
// are others. Nothing of the loser of a race is kept. A live operation of another
// version of the connector that was never sent is withdrawn first: nobody can
// use its approval any more.
func (l *Ledger) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	if err := checkProposal(p); err != nil {
		return connector.OperationRecord{}, err
	}
	r, err := l.newRow(p)
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	var stands row
	var refusal error
	var audited bool
	err = l.db.UpdateFor(ctx, scope(p.Tenant), func(tx *store.Tx) error {
		refusal, audited = nil, false
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		// Another process can insert between our look and our insert, and its
		// operation can end between our insert and the next look.
		for range 8 {
			other, found, err := findLive(ctx, tx, p.WriteIdentity)
			if err != nil {
				return err
			}
			if found {
				if stands, err = lock(ctx, tx, other.tenant, other.id); err != nil {
					return err
				}
				if err := l.lapse(ctx, tx, &stands, now); err != nil {
					return err
				}
				if stands.waiting() && stands.version != p.Version && stands.argsDigest == p.ArgsDigest {
					if err := stands.end(ctx, tx, now, ApprovalWithdrawn, ledgerActor, "drawn up by another version of the connector"); err != nil {
						return err
					}
				}
				if stands.live() {
					if stands.argsDigest != p.ArgsDigest {
						refusal = &connector.Error{Code: connector.CodeConflict, Operation: stands.id,
							Message: "the same intent was proposed before with another payload"}
					}
					return nil
				}
			}
			stands = r
			inserted, err := l.insert(ctx, tx, &stands, now)
			if err != nil {
				return err
			}
			if inserted {
				audited, err = l.account(ctx, tx, p.Audit)
				return err
			}
		}
		return errors.New("the operation id is taken")
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	rec, err := l.seal.record(&stands)
	rec.Audited = audited
	return rec, edge(err)
}

func (l *Ledger) newRow(p connector.Proposal) (row, error) {
	r := row{
		WriteIdentity: p.WriteIdentity, tenant: p.Tenant, id: p.ID, con: p.Connector, version: p.Version, provider: p.Provider,
		authz: p.AuthzVersion, argsDigest: p.ArgsDigest, digest: p.Digest, settle: p.Settle,
		callID: storable(p.CallID, maxName), run: storable(p.Run, maxName), state: connector.StateAwaitingApproval,
		approval: approval{
			id:        connector.ApprovalID("apr_" + strings.ToLower(rand.Text()[:16])),
			principal: p.Principal, connection: p.Connection, tool: p.Tool, version: p.Version, digest: p.Digest,
			authz: p.AuthzVersion, resourceVersion: storable(p.Request.ResourceVersion, maxName), state: ApprovalPending,
		},
	}
	raw, err := json.Marshal(newPlan(p))
	if err != nil {
		return row{}, err
	}
	if r.plan, err = l.seal.put(r.tenant, r.id, "plan", raw); err != nil {
		return row{}, err
	}
	r.arguments, err = l.seal.put(r.tenant, r.id, "arguments", append([]byte{}, p.Arguments...))
	return r, err
}

// insert writes the operation, its approval and the first line of history. It
// reports false when the identity or the id is taken.
func (l *Ledger) insert(ctx context.Context, tx *store.Tx, r *row, now time.Time) (bool, error) {
	r.createdAt, r.isLive, r.rev = now, true, 1
	n, err := tx.Exec(ctx, `INSERT INTO operation (`+operationColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		r.tenant, r.id, r.Principal, r.Connection, r.Tool, r.Intent, boolean(r.isLive), r.con, r.version, r.provider,
		r.authz, r.argsDigest, r.digest, millis(r.settle), r.callID, r.run, r.plan, r.arguments, r.state, r.reason,
		boolean(r.retryable), r.fence, r.claim, moment(r.leaseUntil), moment(r.createdAt), moment(r.dispatchedAt),
		moment(r.nextLook), r.looks, r.receipt, r.output, r.externalID, r.settledBy, r.rev)
	if err != nil || n == 0 {
		return false, err
	}
	a := &r.approval
	a.createdAt, a.expiresAt = now, now.Add(l.ttl)
	_, err = tx.Exec(ctx, `INSERT INTO operation_approval (tenant, operation, `+approvalColumns+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.tenant, r.id, a.id, a.principal, a.connection, a.tool, a.version, a.digest, a.authz, a.resourceVersion, a.state,
		boolean(a.revoked), moment(a.createdAt), moment(a.expiresAt), a.decidedBy, a.reason, moment(a.decidedAt), moment(a.usedAt))
	if err != nil {
		return false, err
	}
	return true, r.remember(ctx, tx, now, "", string(r.Principal))
}

func checkProposal(p connector.Proposal) error {
	for _, f := range []struct{ name, value string }{
		{"operation id", string(p.ID)}, {"tenant", string(p.Tenant)}, {"principal", string(p.Principal)},
		{"connection", string(p.Connection)}, {"tool", p.Tool}, {"intent", p.Intent}, {"connector", p.Connector},
		{"version", p.Version}, {"arguments digest", p.ArgsDigest}, {"payload digest", p.Digest},
	} {
		switch {
		case f.value == "":
			return connector.Fail(connector.CodeInternal, "a proposal has no %s", f.name)
		case len(f.value) > 512 || !utf8.ValidString(f.value) || strings.ContainsRune(f.value, 0):
			return connector.Fail(connector.CodeInvalidInput, "the %s is too long, or not text", f.name)
		}
	}
	if p.Settle < 0 {
		return connector.Fail(connector.CodeInternal, "a proposal has a negative settle time")
	}
	return nil
}
