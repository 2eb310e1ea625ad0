package connector

import (
	"encoding/json"
	"errors"
	"time"
)

// Proof is how strong the evidence behind a receipt is.
type Proof string

const (
	ProofAccepted  Proof = "accepted"  // the provider took it and will do it later
	ProofCommitted Proof = "committed" // the provider said it is done and named the object
	ProofVerified  Proof = "verified"  // read back afterwards and compared field by field
)

// A Receipt states what was proven about a write. Its fields are unexported and
// it has no constructor: only the execution boundary in this package makes one,
// so a receipt in hand is evidence that a call went through it.
type Receipt struct {
	r receipt
}

type receipt struct {
	Operation   OperationID `json:"operation_id"`
	Tool        string      `json:"tool"`
	Version     string      `json:"version"`
	Proof       Proof       `json:"proof"`
	How         string      `json:"how"` // answer, look_up
	ExternalID  string      `json:"external_id"`
	ArgsDigest  string      `json:"arguments_digest"`
	Digest      string      `json:"payload_digest"`
	OccurredAt  time.Time   `json:"occurred_at"`
	Differences []Change    `json:"differences,omitempty"` // sent, but stored otherwise
}

// A Change is one field that the provider stored otherwise than it was sent.
type Change struct {
	Pointer string `json:"pointer"`
	Sent    string `json:"sent"`
	Stored  string `json:"stored"`
}

// Operation is the id of the write in the ledger.
func (r *Receipt) Operation() OperationID { return r.r.Operation }

// ExternalID is the provider's id of the object that the write made.
func (r *Receipt) ExternalID() string { return r.r.ExternalID }

// Proof is the strength of the evidence.
func (r *Receipt) Proof() Proof { return r.r.Proof }

// How says what the proof rests on: the provider's answer, or a look-up.
func (r *Receipt) How() string { return r.r.How }

// Differences lists fields that the provider dropped or changed.
func (r *Receipt) Differences() []Change { return append([]Change(nil), r.r.Differences...) }

// MarshalJSON writes the receipt for people and stores.
func (r *Receipt) MarshalJSON() ([]byte, error) { return json.Marshal(r.r) }

// UnmarshalJSON always fails: a receipt can't be made from text.
func (*Receipt) UnmarshalJSON([]byte) error {
	return errors.New("a receipt can't be read back from text")
}
