package operations

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// ReceiptPurpose is what a receipt's signature is made for. The signed bytes
// are this text, a line feed, and the statement in the form of RFC 8785, UTF-8.
const ReceiptPurpose = "drawbridge-receipt/v1"

// Statement is what an exported receipt says: who did what with whose approval,
// and what was proven about it. Every value is text, so that the canonical form
// has no numbers to argue about. Times are RFC 3339 in UTC, empty if unknown.
type Statement struct {
	Kind string `json:"kind"` // ReceiptPurpose

	Tenant       connector.TenantID     `json:"tenant"`
	Principal    connector.PrincipalID  `json:"principal"`
	Connection   connector.ConnectionID `json:"connection_id"`
	Provider     string                 `json:"provider"`
	Issuer       string                 `json:"issuer"`     // the provider's authorization server
	AccountID    string                 `json:"account_id"` // stable id at the provider
	Account      string                 `json:"account"`
	Organisation string                 `json:"organisation"`

	Connector string `json:"connector"`
	Version   string `json:"version"`
	Tool      string `json:"tool"`

	Operation  connector.OperationID `json:"operation_id"`
	ExternalID string                `json:"external_id"`
	Proof      connector.Proof       `json:"proof"`
	How        string                `json:"how"` // answer, look_up
	OccurredAt string                `json:"occurred_at"`
	// Differences are fields that the provider stored otherwise than they were sent.
	Differences []connector.Change `json:"differences"`

	ArgsDigest string `json:"arguments_digest"`
	Digest     string `json:"payload_digest"` // what the approval covers

	Approval     connector.ApprovalID `json:"approval_id"`
	ApprovedBy   string               `json:"approved_by"`
	ApprovedAt   string               `json:"approved_at"`
	ProposedAt   string               `json:"proposed_at"`
	DispatchedAt string               `json:"dispatched_at"`
}

// Signed is an exported receipt: a statement and the signature over it.
type Signed struct {
	Statement json.RawMessage `json:"statement"`
	KeyID     string          `json:"key_id"`    // helps to find the public key, proves nothing
	Algorithm string          `json:"algorithm"` // Ed25519
	Signature string          `json:"signature"` // base64
}

const signatureAlgorithm = "Ed25519"

// ExportReceipt signs the receipt of an applied operation. id is an operation's
// id or a unique beginning of it. An operation that is not applied, and one that
// a person settled, have no receipt and are CONFLICT. The same receipt has the
// same signature. Without Config.Signer it is UNAVAILABLE.
func (l *Ledger) ExportReceipt(ctx context.Context, tenant connector.TenantID, id string) (Signed, error) {
	if l.signer == nil {
		return Signed{}, connector.Fail(connector.CodeUnavailable, "there is no key to sign receipts with")
	}
	op, err := l.resolve(ctx, findsOperation, tenant, id)
	if err != nil {
		return Signed{}, edge(err)
	}
	r, found, err := l.read(ctx, func() (row, bool, error) { return l.findID(ctx, tenant, op) })
	if err == nil && !found {
		err = notFound("operation")
	}
	if err != nil {
		return Signed{}, edge(err)
	}
	switch {
	case r.state != connector.StateApplied:
		return Signed{}, &connector.Error{Code: connector.CodeConflict, Operation: r.id,
			Message: "there is no receipt: the operation is " + string(r.state)}
	case len(r.receipt) == 0:
		return Signed{}, &connector.Error{Code: connector.CodeConflict, Operation: r.id,
			Message: "there is no receipt: a person settled the operation"}
	}
	s, err := l.seal.statement(&r)
	if err != nil {
		return Signed{}, edge(err)
	}
	out, err := sign(l.signer, s)
	return out, edge(err)
}

func (s sealer) statement(r *row) (Statement, error) {
	rec, err := s.record(r)
	if err != nil {
		return Statement{}, err
	}
	// The names are package connector's; it alone writes this column.
	var proven struct {
		Operation   connector.OperationID `json:"operation_id"`
		Proof       connector.Proof       `json:"proof"`
		How         string                `json:"how"`
		ExternalID  string                `json:"external_id"`
		ArgsDigest  string                `json:"arguments_digest"`
		Digest      string                `json:"payload_digest"`
		OccurredAt  time.Time             `json:"occurred_at"`
		Differences []connector.Change    `json:"differences"`
	}
	if json.Unmarshal(rec.Receipt, &proven) != nil || proven.ExternalID == "" || proven.Proof == "" {
		return Statement{}, fmt.Errorf("stored receipt of operation %s can't be read", r.id)
	}
	// The digests in the row are not sealed; the receipt's are.
	if proven.Operation != r.id || proven.Digest != r.digest || proven.ArgsDigest != r.argsDigest || r.approval.digest != r.digest {
		return Statement{}, fmt.Errorf("stored receipt of operation %s is not of what was approved", r.id)
	}
	if proven.Differences == nil {
		proven.Differences = []connector.Change{}
	}
	return Statement{
		Kind: ReceiptPurpose, Tenant: r.tenant, Principal: r.Principal, Connection: r.Connection, Provider: r.provider,
		Issuer: rec.Account.Issuer, AccountID: rec.Account.Subject, Account: rec.Account.Login, Organisation: rec.Account.Organisation,
		Connector: r.con, Version: r.version, Tool: r.Tool, Operation: r.id, ExternalID: proven.ExternalID, Proof: proven.Proof,
		How: proven.How, OccurredAt: stamp(proven.OccurredAt), Differences: proven.Differences,
		ArgsDigest: r.argsDigest, Digest: r.digest, Approval: r.approval.id, ApprovedBy: r.approval.decidedBy,
		ApprovedAt: stamp(r.approval.decidedAt), ProposedAt: stamp(r.createdAt), DispatchedAt: stamp(r.dispatchedAt),
	}, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func sign(signer *keys.Signer, s Statement) (Signed, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return Signed{}, err
	}
	if raw, err = canonicalText(raw); err != nil {
		return Signed{}, err
	}
	signature, err := signer.Sign(ReceiptPurpose, raw)
	if err != nil {
		return Signed{}, err
	}
	return Signed{raw, signer.Public().ID(), signatureAlgorithm, base64.StdEncoding.EncodeToString(signature)}, nil
}

// VerifyReceipt checks an exported receipt without a database, and returns what
// it states; without a nil error the statement means nothing. White space and
// the order of keys may have changed on the way, and nothing else: a key more,
// a key twice or another spelling of a key is refused. Errors match
// keys.ErrSignature or say what is malformed.
func VerifyReceipt(raw []byte, public keys.PublicKey) (Statement, error) {
	if len(raw) > maxSigned {
		return Statement{}, errors.New("operations: the signed receipt is too long")
	}
	tree, err := parseText(raw)
	if err != nil {
		return Statement{}, fmt.Errorf("operations: the signed receipt: %w", err)
	}
	envelope, _ := tree.(object)
	statement, ok := envelope["statement"].(object)
	algorithm, _ := envelope["algorithm"].(string)
	encoded, _ := envelope["signature"].(string)
	if _, named := envelope["key_id"].(string); !ok || !named || len(envelope) != 4 || algorithm != signatureAlgorithm {
		return Statement{}, errors.New("operations: this is not a signed receipt")
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Statement{}, errors.New("operations: the signature is not base64")
	}
	canonical := appendText(nil, statement)
	if err := public.Verify(ReceiptPurpose, canonical, signature); err != nil {
		return Statement{}, err
	}
	var s Statement
	if err := json.Unmarshal(canonical, &s); err != nil || s.Kind != ReceiptPurpose {
		return Statement{}, errors.New("operations: the signed statement is of another kind")
	}
	return s, nil
}

const maxSigned = 1 << 20
