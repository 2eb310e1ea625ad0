package connector

import "encoding/json"

// A Call is a proposal. It names a tool and its arguments and carries no
// authority: no field of it can approve, authorize or prove anything.
type Call struct {
	ID   string `json:"call_id"` // correlates proposal and result; empty: one is made
	Step string `json:"step_id,omitempty"`
	Tool string `json:"tool"`
	// Intent is set by the host, never by a model: the same intent is the same
	// write for ever. Empty: the digest of the arguments stands in, so that one
	// payload proposed twice is one operation.
	Intent    string          `json:"-"`
	Arguments json.RawMessage `json:"arguments"`
}

// A Definition is what a model or a person is shown of an operation.
type Definition struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema"`
	Effect       Effect          `json:"effect"`
	Sensitivity  Sensitivity     `json:"sensitivity"`
	Scopes       []string        `json:"scopes"`
	Approval     bool            `json:"approval"` // a person must approve the exact payload
	Connector    string          `json:"connector"`
	Version      string          `json:"version"`
	Provider     string          `json:"provider"`
	Limitations  []string        `json:"limitations,omitempty"`
	Deprecated   string          `json:"deprecated,omitempty"`
}

// Effect is the highest thing an operation may do. The zero value is
// unclassified and does not load.
type Effect int

const (
	EffectRead         Effect = iota + 1
	EffectReversible          // a write that the provider can undo exactly
	EffectCompensable         // a write that another write can make good
	EffectIrreversible        // a write that stays
)

func (e Effect) String() string {
	return name(int(e), "read", "reversible_write", "compensable_write", "irreversible_write")
}

// MarshalText writes the text form.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Sensitivity is the highest class of data an operation may return. The zero
// value is unclassified and does not load.
type Sensitivity int

const (
	SensitivityPublic Sensitivity = iota + 1
	SensitivityInternal
	SensitivitySensitive
	SensitivityRestricted
)

func (s Sensitivity) String() string {
	return name(int(s), "public", "internal", "sensitive", "restricted")
}

// MarshalText writes the text form.
func (s Sensitivity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func name(i int, names ...string) string {
	if i < 1 || i > len(names) {
		return "unclassified"
	}
	return names[i-1]
}
