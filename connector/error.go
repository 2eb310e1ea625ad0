package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Code says what went wrong in a way that a program can act on. The list is
// closed; a number is never reused and the text form is part of the contract.
type Code int

// The codes. What each one asks of the caller is in the table below and, for
// one error in particular, in [Error.Next].
const (
	CodeInvalidInput       Code = 1
	CodeUnknownTool        Code = 2
	CodeDuplicateCall      Code = 3
	CodePermissionDenied   Code = 4
	CodeConsentRequired    Code = 5
	CodeApprovalRequired   Code = 6
	CodeApprovalMismatch   Code = 7
	CodeConnectionRequired Code = 8
	CodeScopeRequired      Code = 9
	CodeNotFound           Code = 10 // absent or hidden: the two answer alike
	CodeMoved              Code = 11
	CodeGone               Code = 12
	CodeConflict           Code = 13
	CodeCursorInvalid      Code = 14
	CodeRateLimited        Code = 15
	CodeOverloaded         Code = 16 // our own queue is full
	CodeUnavailable        Code = 17
	CodeDeadline           Code = 18
	CodeCanceled           Code = 19
	CodeEgressBlocked      Code = 20
	CodeTooLarge           Code = 21
	CodeProviderContract   Code = 22 // the provider answered something it must not
	CodeOutcomeUnknown     Code = 23 // a write may have been applied
	CodeInternal           Code = 24
)

// One table: text form, default advice, HTTP status for hosts, process exit code.
var codes = map[Code]struct {
	text string
	next Next
	http int
	exit int
}{
	CodeInvalidInput:       {"INVALID_INPUT", NextFixInput, http.StatusBadRequest, 4},
	CodeUnknownTool:        {"UNKNOWN_TOOL", NextFixInput, http.StatusNotFound, 4},
	CodeDuplicateCall:      {"DUPLICATE_CALL", NextNever, http.StatusConflict, 4},
	CodePermissionDenied:   {"PERMISSION_DENIED", NextNever, http.StatusForbidden, 4},
	CodeConsentRequired:    {"CONSENT_REQUIRED", NextAskPerson, http.StatusForbidden, 4},
	CodeApprovalRequired:   {"APPROVAL_REQUIRED", NextApprove, http.StatusForbidden, 4},
	CodeApprovalMismatch:   {"APPROVAL_MISMATCH", NextApprove, http.StatusConflict, 4},
	CodeConnectionRequired: {"CONNECTION_REQUIRED", NextReconnect, http.StatusUnauthorized, 4},
	CodeScopeRequired:      {"SCOPE_REQUIRED", NextGrantScopes, http.StatusForbidden, 4},
	CodeNotFound:           {"NOT_FOUND", NextFixInput, http.StatusNotFound, 4},
	CodeMoved:              {"MOVED", NextAskPerson, http.StatusConflict, 4},
	CodeGone:               {"GONE", NextNever, http.StatusGone, 4},
	CodeConflict:           {"CONFLICT", NextFixInput, http.StatusConflict, 4},
	CodeCursorInvalid:      {"CURSOR_INVALID", NextFixInput, http.StatusBadRequest, 4},
	CodeRateLimited:        {"RATE_LIMITED", NextWait, http.StatusTooManyRequests, 4},
	CodeOverloaded:         {"OVERLOADED", NextWait, http.StatusServiceUnavailable, 4},
	CodeUnavailable:        {"UNAVAILABLE", NextWait, http.StatusServiceUnavailable, 4},
	CodeDeadline:           {"DEADLINE", NextWait, http.StatusGatewayTimeout, 4},
	CodeCanceled:           {"CANCELED", NextNever, 499, 4},
	CodeEgressBlocked:      {"EGRESS_BLOCKED", NextAskPerson, http.StatusForbidden, 4},
	CodeTooLarge:           {"TOO_LARGE", NextFixInput, http.StatusRequestEntityTooLarge, 4},
	CodeProviderContract:   {"PROVIDER_CONTRACT", NextAskPerson, http.StatusBadGateway, 4},
	CodeOutcomeUnknown:     {"OUTCOME_UNKNOWN", NextLookUpOperation, http.StatusAccepted, 5},
	CodeInternal:           {"INTERNAL", NextAskPerson, http.StatusInternalServerError, 4},
}

// String is the text form, or CODE(n) for a number that is not on the list.
func (c Code) String() string {
	if row, ok := codes[c]; ok {
		return row.text
	}
	return fmt.Sprintf("CODE(%d)", int(c))
}

// MarshalText writes the text form.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a text form; an unknown one is an error.
func (c *Code) UnmarshalText(b []byte) error {
	for code, row := range codes {
		if row.text == string(b) {
			*c = code
			return nil
		}
	}
	return errors.New("not a code of this list")
}

// HTTPStatus is the status a host should answer with.
func (c Code) HTTPStatus() int { return codes[c].http }

// ExitCode is the process exit code of a command that ended with this code.
func (c Code) ExitCode() int { return codes[c].exit }

// Disposition says what a call did to the provider, as far as it is known.
// The zero value is DispositionNone: no write was attempted.
type Disposition int

const (
	DispositionNone       Disposition = iota // nothing was sent that could change anything
	DispositionApplied                       // proven: the write happened
	DispositionNotApplied                    // proven: the write did not happen
	DispositionUnknown                       // a write was sent and no proof came back
)

func (d Disposition) String() string {
	return [...]string{"none", "applied", "not_applied", "unknown"}[d]
}

// MarshalText writes the text form.
func (d Disposition) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Next is advice: what would have to happen before the same call can succeed.
type Next string

const (
	NextFixInput        Next = "fix_input"
	NextReconnect       Next = "reconnect"
	NextGrantScopes     Next = "grant_scopes"
	NextApprove         Next = "approve"
	NextWait            Next = "wait"
	NextLookUpOperation Next = "look_up_operation"
	NextAskPerson       Next = "ask_person"
	NextNever           Next = "never"
)

// A Fault is one thing wrong with an input: where (RFC 6901 pointer) and which
// schema keyword it breaks.
type Fault struct {
	Pointer string `json:"pointer"`
	Keyword string `json:"keyword"`
}

// An Error has three axes: Code says what went wrong, Effect what happened to
// the provider, Next what to do. Message is safe for a caller. Err is the cause
// for the operator's log; it is never part of a result.
type Error struct {
	Code       Code
	Effect     Disposition
	Next       Next   // empty: the code's default advice
	Message    string // empty: the code speaks for itself
	Faults     []Fault
	Scopes     []string      // SCOPE_REQUIRED: exactly what is missing
	RetryAfter time.Duration // zero: unknown
	Guessed    bool          // RetryAfter is our default, not the provider's word
	Operation  OperationID
	Approval   ApprovalID
	Err        error
}

// Error names the code, the message and the cause. It may be logged, never
// shown to a caller: results are built from Code and Message alone.
func (e *Error) Error() string {
	s := e.Code.String()
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Advice is Next, or the default of the code.
func (e *Error) Advice() Next {
	if e.Next != "" {
		return e.Next
	}
	return codes[e.Code].next
}

// Fail makes an error with a code and a message that is safe for callers.
func Fail(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf finds the code of an error: its own, DEADLINE or CANCELED for the
// context's errors, INTERNAL for all others. A nil error has code 0.
func CodeOf(err error) Code {
	if err == nil {
		return 0
	}
	return AsError(err).Code
}

// AsError turns any error into an *Error, with the rule of [CodeOf].
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e != nil && codes[e.Code].text != "":
		return e
	case e != nil:
		// A code that is not on the list has no meaning to anyone.
		return &Error{Code: CodeInternal, Effect: e.Effect, Operation: e.Operation, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeDeadline, Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeCanceled, Err: err}
	}
	return &Error{Code: CodeInternal, Err: err}
}
