package connector

import (
	"encoding/json"
	"time"
)

// Status is the first thing to look at in a result.
type Status string

const (
	StatusSuccess Status = "success"
	StatusPartial Status = "partial" // usable, and Coverage says what is missing
	StatusEmpty   Status = "empty"   // looked everywhere it may, found nothing
	StatusError   Status = "error"
	StatusUnknown Status = "unknown" // a write may have happened: look it up, don't repeat it
)

// A Result is the one answer to a call. There is never an error beside it.
type Result struct {
	CallID     string          `json:"call_id"`
	Step       string          `json:"step_id,omitempty"`
	Tool       string          `json:"tool"`
	Status     Status          `json:"status"`
	Summary    string          `json:"summary"`
	Data       json.RawMessage `json:"data,omitempty"`
	Coverage   Coverage        `json:"coverage"`
	Effect     EffectReport    `json:"effect"`
	Truncated  bool            `json:"truncated"`   // something in data was cut, and data says what
	NextCursor *string         `json:"next_cursor"` // nil: no further page
	Error      *ErrorReport    `json:"error,omitempty"`
	Provenance *Provenance     `json:"provenance,omitempty"`
	Receipt    *Receipt        `json:"receipt,omitempty"`
	Pending    *Pending        `json:"pending,omitempty"`  // APPROVAL_REQUIRED: what would be sent
	Replayed   bool            `json:"replayed,omitempty"` // this write was done by an earlier call
	Attempts   []Attempt       `json:"attempts,omitempty"`
	// Quota is the newest word on each of the provider's limits that this call met.
	Quota []Quota `json:"quota,omitempty"`
}

// Pending is what waits for a person: the digest names exactly these bytes.
type Pending struct {
	Approval    ApprovalID `json:"approval_id"`
	Digest      string     `json:"payload_digest"`
	ExpiresAt   time.Time  `json:"expires_at"`
	Summary     string     `json:"summary"`
	Notes       []string   `json:"notes,omitempty"`
	Method      string     `json:"method"`
	Path        string     `json:"path"`
	Query       string     `json:"query,omitempty"`
	ContentType string     `json:"content_type"`
	Body        string     `json:"body"`
}

func pending(rec OperationRecord) *Pending {
	q := rec.Request
	return &Pending{rec.Approval, rec.Digest, rec.ApprovalExpiresAt, q.Summary, q.Notes, q.Method, q.Path, q.Query.Encode(), q.ContentType, string(q.Body)}
}

// Coverage says whether data is everything that was asked for.
type Coverage struct {
	Complete bool      `json:"complete"`
	Missing  []Missing `json:"missing,omitempty"`
}

// Missing is one known gap: what is not there and why, in stable words.
type Missing struct {
	What   string `json:"what"`
	Reason string `json:"reason"` // more_pages, outside_grant, excluded, provider_cap, provider_timeout, provider_inconsistent, cursor_stuck, unread_field, settled_by_person, dropped_by_provider
	Count  int    `json:"count,omitempty"`
}

// EffectReport says what the call did to the provider.
type EffectReport struct {
	Disposition Disposition `json:"disposition"`
	Operation   OperationID `json:"operation_id,omitempty"`
}

// ErrorReport is the part of an [Error] that may leave the process.
type ErrorReport struct {
	Code        Code       `json:"code"`
	Message     string     `json:"message"`
	Next        Next       `json:"next"`
	Faults      []Fault    `json:"faults,omitempty"`
	Scopes      []string   `json:"scopes,omitempty"`
	RetryAfter  float64    `json:"retry_after_seconds,omitempty"`
	Guessed     bool       `json:"retry_after_guessed,omitempty"`
	Approval    ApprovalID `json:"approval_id,omitempty"`
	Correlation string     `json:"correlation_id,omitempty"` // INTERNAL: what the operator's log has
}

// Provenance says where data came from, so that a reader can judge it.
type Provenance struct {
	Connector       string            `json:"connector"`
	Version         string            `json:"version"`
	Provider        string            `json:"provider"`
	ProviderVersion string            `json:"provider_api_version"`
	RequestID       string            `json:"provider_request_id,omitempty"`
	ObjectVersions  map[string]string `json:"object_versions,omitempty"`
	Source          string            `json:"source,omitempty"` // path at the provider, without a query; or [SourceCopy]
	FetchedAt       time.Time         `json:"fetched_at"`
	Limitations     []string          `json:"limitations,omitempty"` // what this provider can't guarantee
	// Copies is what is stored of what the connection sees; nil: nothing.
	Copies *CopyState `json:"stored_copies,omitempty"`
}

// ExitCode is the process exit code for a command that ends with this result:
// 0 success or empty, 3 partial, 4 refused, 5 unknown outcome.
func (r Result) ExitCode() int {
	switch r.Status {
	case StatusPartial:
		return 3
	case StatusUnknown:
		return 5
	case StatusError:
		return r.Error.Code.ExitCode()
	}
	return 0
}

// Report projects an error for callers. The cause stays behind.
func (e *Error) Report() ErrorReport {
	message := e.Message
	if message == "" || e.Code == CodeInternal {
		message = defaultMessages[e.Code]
	}
	return ErrorReport{
		Code: e.Code, Message: message, Next: e.Advice(), Faults: e.Faults, Scopes: e.Scopes,
		RetryAfter: e.RetryAfter.Seconds(), Guessed: e.Guessed, Approval: e.Approval,
	}
}

var defaultMessages = map[Code]string{
	CodeInvalidInput:       "the arguments do not fit the tool's schema",
	CodeUnknownTool:        "there is no tool of exactly this name",
	CodeDuplicateCall:      "this call id was used before",
	CodePermissionDenied:   "not allowed",
	CodeConsentRequired:    "the host has not consented to this tool",
	CodeApprovalRequired:   "nobody has approved this exact payload yet",
	CodeApprovalMismatch:   "what was approved is not what would be sent",
	CodeConnectionRequired: "the account is not connected",
	CodeScopeRequired:      "the connection lacks scopes",
	CodeNotFound:           "absent, or hidden from this account",
	CodeMoved:              "the resource has another address now",
	CodeGone:               "the resource was removed",
	CodeConflict:           "the request conflicts with what is there",
	CodeCursorInvalid:      "the cursor is not valid for this call",
	CodeRateLimited:        "the provider asks to wait",
	CodeOverloaded:         "too many calls are waiting",
	CodeUnavailable:        "the provider could not be reached or is failing",
	CodeDeadline:           "the time for this call ran out",
	CodeCanceled:           "the caller gave up",
	CodeEgressBlocked:      "the address is outside the endpoint profile",
	CodeTooLarge:           "the answer is over the size limit",
	CodeProviderContract:   "the provider's answer breaks its contract",
	CodeOutcomeUnknown:     "the request left and no proof came back; it may have been applied",
	CodeInternal:           "an unexpected fault; the operator can find it by the correlation id",
}
