package connector

import (
	"context"
	"encoding/json"
	"time"
)

// Policy is the server's authorization. An error means that it could not be
// consulted, and then protected calls stop.
type Policy interface {
	Decide(ctx context.Context, caller Caller, action Action) (Decision, error)
}

// Consent is the host's: did the people who run the agent switch this tool on?
// It is asked separately from Policy; only both together reach a handler.
type Consent interface {
	Consented(ctx context.Context, caller Caller, action Action) (bool, error)
}

// Action is what Policy and Consent decide about.
type Action struct {
	Tool        string
	Connector   string
	Version     string
	Provider    string
	Effect      Effect
	Sensitivity Sensitivity
}

// Decision is Policy's answer. The zero value denies.
type Decision struct {
	Allow   bool
	Version string // of the policy, for the audit record
}

// Connections resolves what a call runs under.
type Connections interface {
	// Resolve returns the caller's live connection to a provider, or
	// CONNECTION_REQUIRED, or SCOPE_REQUIRED with exactly what is missing.
	// Another tenant's connection and an absent one answer alike.
	Resolve(ctx context.Context, caller Caller, provider string, scopes []string) (Connection, error)
	// Current fails with CONNECTION_REQUIRED when the connection's
	// authorization has changed since it was resolved.
	Current(ctx context.Context, c Connection) error
}

// Class tells the transport what a request may do.
type Class int

const (
	ClassRead  Class = iota + 1
	ClassWrite       // sent once; never followed, never replayed
)

// Transport is the guarded HTTP of connector/transport. A Response with any
// status is a complete answer. An error is an *Error whose Effect says, for a
// write, whether bytes can have reached the provider.
type Transport interface {
	Do(ctx context.Context, c Connection, class Class, r Request) (Response, error)
}

// Cursors seals page positions so that they open for nobody and nothing else.
type Cursors interface {
	Seal(b CursorBinding, position []byte) (string, error)
	Open(b CursorBinding, cursor string) ([]byte, error) // CURSOR_INVALID, with no hint why
}

// CursorBinding is everything that a cursor is valid for.
type CursorBinding struct {
	Connector, Version, Operation string
	Tenant                        TenantID
	Principal                     PrincipalID
	Connection                    ConnectionID
	Resources                     []string
	Query                         string // digest of the arguments without the position
	PageSize                      int
	AuthzVersion                  int64
}

// Operations is the ledger of writes with its approvals. Every method is
// durable before it returns.
type Operations interface {
	// Find returns the operation that stands for an identity: any but one that
	// ended without effect.
	Find(ctx context.Context, id WriteIdentity) (OperationRecord, bool, error)
	// Get returns one operation of a tenant, or NOT_FOUND.
	Get(ctx context.Context, tenant TenantID, id OperationID) (OperationRecord, error)
	// Propose records a plan and asks for approval. When another process was
	// first with the same identity, its record is returned; unless it was drawn
	// up by another version of the connector and not sent: then it is withdrawn.
	Propose(ctx context.Context, p Proposal) (OperationRecord, error)
	// Dispatch takes an approved operation to dispatching, once, and returns
	// the bytes that were approved. The approval is used up by it. When the
	// operation was applied meanwhile, the error's Effect says so.
	Dispatch(ctx context.Context, tenant TenantID, id OperationID, authz int64) (Claim, error)
	// Look leases an unknown operation for one look-up.
	Look(ctx context.Context, tenant TenantID, id OperationID) (Claim, error)
	// Finish records what a claim came to. A claim that was fenced off by a
	// later one changes nothing and gets CONFLICT. The holder may finish an
	// applied operation as applied once more, to put a stronger receipt.
	Finish(ctx context.Context, c Claim, o Outcome) (OperationRecord, error)
}

// WriteIdentity says which proposals are the same write.
type WriteIdentity struct {
	Tenant     TenantID
	Principal  PrincipalID
	Connection ConnectionID
	Tool       string
	Intent     string
}

// Proposal is a planned write on its way into the ledger.
type Proposal struct {
	WriteIdentity
	ID           OperationID
	Connector    string
	Version      string
	Provider     string
	Account      Account
	AuthzVersion int64
	Arguments    json.RawMessage
	ArgsDigest   string
	Request      Request
	Digest       string
	Settle       time.Duration
	CallID       string
	Run          string
	Audit        *AuditRecord // see Outcome.Audit
}

// OperationState is where a write is. See the package documentation.
type OperationState string

const (
	StateAwaitingApproval OperationState = "awaiting_approval"
	StateApproved         OperationState = "approved"
	StateDispatching      OperationState = "dispatching"
	StateApplied          OperationState = "applied"
	StateRejected         OperationState = "rejected"   // the provider refused, or absence was proven
	StateNotSent          OperationState = "not_sent"   // nothing left this process
	StateUnknown          OperationState = "unknown"    // being looked up
	StateUnresolved       OperationState = "unresolved" // a person must decide
)

// OperationRecord is one row of the ledger.
type OperationRecord struct {
	Proposal
	State             OperationState
	Reason            string
	Approval          ApprovalID
	ApprovalExpiresAt time.Time
	CreatedAt         time.Time
	DispatchedAt      time.Time
	NextLook          time.Time
	Looks             int
	Receipt           []byte // as written by this package
	Output            []byte
	Audited           bool // the audit record that came with the change was written with it
}

// Claim is the right of one process to move one operation on.
type Claim struct {
	OperationRecord
	Fence int64
}

// Outcome is what a claim came to.
type Outcome struct {
	State   OperationState
	Reason  string
	Receipt []byte
	Output  []byte
	// Retryable keeps the approval for another try: provably nothing left.
	Retryable bool
	Retry     time.Duration // when to look again, for StateUnknown
	// Audit is the record of the call, to be written in the transaction of the
	// change. A ledger that did so says Audited; otherwise the Auditor gets it.
	// Nil: there is nothing to write.
	Audit *AuditRecord
}

// Auditor keeps one record a call. It must not keep argument or result values.
type Auditor interface {
	Record(ctx context.Context, r AuditRecord) error
}

// AuditRecord is ids, digests and times of one call.
type AuditRecord struct {
	At            time.Time
	Run, Step     string
	CallID        string
	Tenant        TenantID
	Principal     PrincipalID
	Connection    ConnectionID
	Tool          string
	Connector     string
	Version       string
	PolicyVersion string
	Decision      string // allowed, denied, not_reached
	ArgsDigest    string
	Operation     OperationID
	Status        Status
	Code          string
	RequestID     string
	Correlation   string
	Attempts      int
	Stages        []Stage
}

// Stage is how long one stage of a call took.
type Stage struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}
