package operations

import (
	"encoding/json"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Card is what a person reads before they decide: everything that will be sent,
// for whom, until when. Everything that comes from outside is a [Text].
type Card struct {
	ID        connector.ApprovalID  `json:"approval_id"`
	Operation connector.OperationID `json:"operation_id"`
	State     ApprovalState         `json:"state"`

	Sentence     Text `json:"sentence"` // the connector's one-line summary
	Provider     Text `json:"provider"`
	Profile      Text `json:"profile"` // the endpoint profile: which server it goes to
	Issuer       Text `json:"issuer"`  // the provider's authorization server
	Account      Text `json:"account"`
	AccountID    Text `json:"account_id"` // stable id at the provider
	Organisation Text `json:"organisation"`

	Connector  string                 `json:"connector"`
	Tool       string                 `json:"tool"`
	Version    string                 `json:"version"`
	Connection connector.ConnectionID `json:"connection_id"`

	Method          string  `json:"method"`
	Path            Text    `json:"path"`
	Query           []Field `json:"query,omitempty"`
	ContentType     Text    `json:"content_type"`
	DedupeHeader    string  `json:"dedupe_header,omitempty"` // is sent with the operation id
	Fields          []Field `json:"fields"`                  // the body, complete
	BodyBytes       int     `json:"body_bytes"`
	ResourceVersion Text    `json:"resource_version,omitzero"`

	Notes    []Text `json:"notes,omitempty"`    // what the provider will do by itself
	Evidence []Text `json:"evidence,omitempty"` // ids that the proposer gave as reasons

	Proposer connector.PrincipalID `json:"proposer"`
	Run      Text                  `json:"run,omitzero"`
	CallID   Text                  `json:"call_id,omitzero"`
	Digest   string                `json:"payload_digest"`

	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	DecidedBy string    `json:"decided_by,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	UsedAt    time.Time `json:"used_at,omitzero"`
	Reason    Text      `json:"reason,omitzero"`
}

// card is made of the stored bytes that dispatch will send, never of the
// arguments they were planned from.
func (s sealer) card(r *row) (Card, error) {
	p, err := s.plan(r)
	if err != nil {
		return Card{}, err
	}
	arguments, err := s.get(r, "arguments", r.arguments)
	if err != nil {
		return Card{}, err
	}
	a := &r.approval
	c := Card{
		ID: a.id, Operation: r.id, State: a.state,
		Sentence: Visible(p.Summary), Provider: Visible(r.provider), Profile: Visible(p.Profile), Issuer: Visible(p.Account.Issuer),
		Account: Visible(p.Account.Login), AccountID: Visible(p.Account.Subject), Organisation: Visible(p.Account.Organisation),
		Connector: r.con, Tool: a.tool, Version: a.version, Connection: a.connection,
		Method: p.Method, Path: Visible(p.Path), Query: queryFields(p.Query), ContentType: Visible(p.ContentType),
		DedupeHeader: p.DedupeHeader, Fields: bodyFields(p.ContentType, p.Body), BodyBytes: len(p.Body),
		ResourceVersion: Visible(p.ResourceVersion), Evidence: evidence(arguments),
		Proposer: a.principal, Run: Visible(r.run), CallID: Visible(r.callID), Digest: a.digest,
		CreatedAt: a.createdAt, ExpiresAt: a.expiresAt, DecidedBy: a.decidedBy, DecidedAt: a.decidedAt, UsedAt: a.usedAt,
		Reason: Visible(a.reason),
	}
	for _, n := range p.Notes {
		c.Notes = append(c.Notes, Visible(n))
	}
	return c, nil
}

// evidence reads the ids that a tool's input may carry under this name.
func evidence(arguments []byte) []Text {
	var in struct {
		IDs []string `json:"evidence"`
	}
	if json.Unmarshal(arguments, &in) != nil {
		return nil
	}
	var ids []Text
	for _, id := range in.IDs {
		ids = append(ids, Visible(id))
	}
	return ids
}
