package operations

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// sealer opens a column only in the row and under the name it was sealed for.
type sealer struct {
	ring *keys.Ring
}

func place(tenant connector.TenantID, id connector.OperationID, column string) []byte {
	return keys.Context("operations/v1", string(tenant), string(id), column)
}

func (s sealer) put(tenant connector.TenantID, id connector.OperationID, column string, plain []byte) ([]byte, error) {
	if plain == nil {
		return nil, nil
	}
	sealed, err := s.ring.Seal(plain, place(tenant, id, column))
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", column, err)
	}
	return sealed, nil
}

func (s sealer) get(r *row, column string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, nil
	}
	plain, err := s.ring.Open(sealed, place(r.tenant, r.id, column))
	if err != nil {
		return nil, fmt.Errorf("open %s of operation %s: %w", column, r.id, err)
	}
	return append([]byte{}, plain...), nil // empty is not the same as absent
}

// plan is the stored form of what will be sent, for whom. Its names are ours,
// so that a rename in package connector can't make old rows unreadable.
type plan struct {
	Account         connector.Account     `json:"account"`
	Method          string                `json:"method"`
	Path            string                `json:"path"`
	Query           url.Values            `json:"query"`
	ContentType     string                `json:"content_type"`
	Body            []byte                `json:"body"`
	Profile         string                `json:"profile"`
	DedupeHeader    string                `json:"dedupe_header"`
	OperationID     connector.OperationID `json:"operation_id"`
	ResourceVersion string                `json:"resource_version"`
	Summary         string                `json:"summary"`
	Notes           []string              `json:"notes"`
	Unchanged       string                `json:"unchanged"`
	Cacheable       bool                  `json:"cacheable"`
}

func newPlan(p connector.Proposal) plan {
	q := p.Request
	return plan{p.Account, q.Method, q.Path, q.Query, q.ContentType, q.Body, q.Profile, q.DedupeHeader, q.OperationID,
		q.ResourceVersion, q.Summary, q.Notes, q.Unchanged, q.Cacheable}
}

func (p plan) request() connector.Request {
	return connector.Request{
		Method: p.Method, Path: p.Path, Query: p.Query, ContentType: p.ContentType, Body: p.Body,
		Profile: p.Profile, DedupeHeader: p.DedupeHeader, OperationID: p.OperationID, ResourceVersion: p.ResourceVersion,
		Summary: p.Summary, Notes: p.Notes, Unchanged: p.Unchanged, Cacheable: p.Cacheable,
	}
}

func (s sealer) plan(r *row) (plan, error) {
	raw, err := s.get(r, "plan", r.plan)
	if err != nil {
		return plan{}, err
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return plan{}, fmt.Errorf("stored plan of operation %s can't be read", r.id)
	}
	return p, nil
}

// record opens everything.
func (s sealer) record(r *row) (connector.OperationRecord, error) {
	p, err := s.plan(r)
	if err != nil {
		return connector.OperationRecord{}, err
	}
	rec := connector.OperationRecord{
		Proposal: connector.Proposal{
			WriteIdentity: r.WriteIdentity, ID: r.id, Connector: r.con, Version: r.version, Provider: r.provider,
			Account: p.Account, AuthzVersion: r.authz, ArgsDigest: r.argsDigest, Request: p.request(), Digest: r.digest,
			Settle: r.settle, CallID: r.callID, Run: r.run,
		},
		State: r.state, Reason: r.reason, Approval: r.approval.id, ApprovalExpiresAt: r.approval.expiresAt,
		CreatedAt: r.createdAt, DispatchedAt: r.dispatchedAt, NextLook: r.nextLook, Looks: r.looks,
	}
	if rec.Arguments, err = s.get(r, "arguments", r.arguments); err != nil {
		return connector.OperationRecord{}, err
	}
	if rec.Receipt, err = s.get(r, "receipt", r.receipt); err != nil {
		return connector.OperationRecord{}, err
	}
	rec.Output, err = s.get(r, "output", r.output)
	return rec, err
}
