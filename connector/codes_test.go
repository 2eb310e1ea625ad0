package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// The text forms are a contract, and so is the order: a number is never reused.
var codeTexts = []string{
	"INVALID_INPUT", "UNKNOWN_TOOL", "DUPLICATE_CALL", "PERMISSION_DENIED", "CONSENT_REQUIRED", "APPROVAL_REQUIRED",
	"APPROVAL_MISMATCH", "CONNECTION_REQUIRED", "SCOPE_REQUIRED", "NOT_FOUND", "MOVED", "GONE", "CONFLICT", "CURSOR_INVALID",
	"RATE_LIMITED", "OVERLOADED", "UNAVAILABLE", "DEADLINE", "CANCELED", "EGRESS_BLOCKED", "TOO_LARGE", "PROVIDER_CONTRACT",
	"OUTCOME_UNKNOWN", "INTERNAL",
}

// Guarantee: RUN4
func TestCodesAreAClosedListThatRoundTrips(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var failure connector.Code
	h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) {
		return note{}, &connector.Error{Code: failure}
	}
	for i, want := range codeTexts {
		c := connector.Code(i + 1)
		var back connector.Code
		if err := back.UnmarshalText([]byte(want)); err != nil || back != c || c.String() != want {
			t.Errorf("code %d is %q and %q is code %d (%v), want the same", c, c, want, back, err)
		}
		if http := c.HTTPStatus(); http < 200 || http > 599 {
			t.Errorf("%s has HTTP status %d", c, http)
		}
		exit := 4
		if c == connector.CodeOutcomeUnknown {
			exit = 5
		}
		if got := c.ExitCode(); got != exit {
			t.Errorf("%s ends a command with %d, want %d", c, got, exit)
		}
		if (&connector.Error{Code: c}).Advice() == "" {
			t.Errorf("%s advises nothing", c)
		}
		// A code without a word of its own still tells the caller something.
		h := newHarness(t)
		h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) {
			return note{}, &connector.Error{Code: c}
		}
		r := h.call("desk.get", `{"id":"n1"}`)
		if r.Error.Message == "" || r.Summary != r.Error.Message || r.Error.Code != c {
			t.Errorf("%s has no default message: %s", c, text(t, r.Error))
		}
		if r.ExitCode() != exit {
			t.Errorf("result with %s exits with %d, want %d", c, r.ExitCode(), exit)
		}
	}
	for _, n := range []int{0, -1, len(codeTexts) + 1} {
		if got, want := connector.Code(n).String(), fmt.Sprintf("CODE(%d)", n); got != want {
			t.Errorf("code %d is %q, want %q", n, got, want)
		}
	}
	var c connector.Code
	for _, wrong := range []string{"", "internal", "INTERNAL ", "CODE(1)", "1"} {
		if err := c.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was read as code %s", wrong, c)
		}
	}
}

// Guarantee: RUN4
func TestExitCodesOfResults(t *testing.T) {
	t.Parallel()
	failed := &connector.ErrorReport{Code: connector.CodeNotFound}
	for _, c := range []struct {
		result connector.Result
		want   int
	}{
		{connector.Result{Status: connector.StatusSuccess}, 0},
		{connector.Result{Status: connector.StatusEmpty}, 0},
		{connector.Result{Status: connector.StatusPartial}, 3},
		{connector.Result{Status: connector.StatusError, Error: failed}, 4},
		{connector.Result{Status: connector.StatusUnknown, Error: failed}, 5},
	} {
		if got := c.result.ExitCode(); got != c.want {
			t.Errorf("%s exits with %d, want %d", c.result.Status, got, c.want)
		}
	}
}

// Guarantee: RUN4, RUN9
func TestCodeOfAnyError(t *testing.T) {
	t.Parallel()
	coded := connector.Fail(connector.CodeGone, "removed")
	for _, c := range []struct {
		err  error
		want connector.Code
	}{
		{nil, 0},
		{coded, connector.CodeGone},
		{fmt.Errorf("reading: %w", coded), connector.CodeGone},
		{errors.Join(errors.New("x"), coded), connector.CodeGone},
		{context.DeadlineExceeded, connector.CodeDeadline},
		{context.Canceled, connector.CodeCanceled},
		{fmt.Errorf("reading: %w", context.Canceled), connector.CodeCanceled},
		{&connector.Error{Code: connector.CodeUnavailable, Err: context.Canceled}, connector.CodeUnavailable},
		{errors.New("x"), connector.CodeInternal},
	} {
		if got := connector.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %s, want %s", c.err, got, c.want)
		}
	}
	if !errors.Is(&connector.Error{Err: context.Canceled}, context.Canceled) {
		t.Error("an Error hides its cause from errors.Is")
	}
}

// Guarantee: CON2
func TestUnclassifiedIsTheZeroValue(t *testing.T) {
	t.Parallel()
	for got, want := range map[fmt.Stringer]string{
		connector.Effect(0): "unclassified", connector.Effect(5): "unclassified", connector.Effect(-1): "unclassified",
		connector.EffectRead: "read", connector.EffectReversible: "reversible_write",
		connector.EffectCompensable: "compensable_write", connector.EffectIrreversible: "irreversible_write",
		connector.Sensitivity(0): "unclassified", connector.Sensitivity(5): "unclassified",
		connector.SensitivityPublic: "public", connector.SensitivityInternal: "internal",
		connector.SensitivitySensitive: "sensitive", connector.SensitivityRestricted: "restricted",
		connector.DispositionNone: "none", connector.DispositionApplied: "applied",
		connector.DispositionNotApplied: "not_applied", connector.DispositionUnknown: "unknown",
	} {
		if got.String() != want || text(t, got) != fmt.Sprintf("%q", want) {
			t.Errorf("%#v is %q and %s in JSON, want %q", got, got, text(t, got), want)
		}
	}
}

// Guarantee: CON6
func TestReceiptCannotBeReadFromText(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.create(draft)
	genuine := text(t, r.Receipt)
	for _, raw := range []string{genuine, `{}`, `"x"`, `{"operation_id":"op_1","proof":"verified","external_id":"n1"}`} {
		var forged connector.Receipt
		if err := json.Unmarshal([]byte(raw), &forged); err == nil || forged.Operation() != "" || forged.Proof() != "" {
			t.Errorf("%s was read as a receipt: %v", raw, err)
		}
		var result connector.Result
		if err := json.Unmarshal([]byte(`{"receipt":`+raw+`}`), &result); err == nil {
			t.Errorf("a result with receipt %s was read", raw)
		}
	}
	if changes := r.Receipt.Differences(); len(changes) != 0 {
		t.Errorf("differences = %v, want none", changes)
	}
}

// Guarantee: CON6
func TestReceiptCannotBeChangedThroughItsParts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.steps.Verify = func(context.Context, *connector.Access, note, createIn) ([]connector.Change, error) {
		return []connector.Change{{Pointer: "/title", Sent: "a", Stored: "b"}}, nil
	}
	r := h.create(draft).Receipt
	r.Differences()[0].Stored = "a"
	if got := r.Differences()[0].Stored; got != "b" {
		t.Errorf("stored = %q after the copy was changed, want b", got)
	}
}
