package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// told is a T that keeps what it was told.
type told struct {
	*testing.T
	errors []string
}

func (t *told) Errorf(format string, args ...any) {
	t.errors = append(t.errors, fmt.Sprintf(format, args...))
}

// Every check has its own id, a guarantee, one
// sentence, and rests on checks that ran before it.
func TestChecksAreInOrder(t *testing.T) {
	t.Parallel()
	guarantee := regexp.MustCompile(`^[A-Z]{3}[1-9][0-9]?$`)
	var seen []string
	for _, c := range checks {
		if slices.Contains(seen, c.id) || c.id == leakCheck.id {
			t.Errorf("%s is there twice", c.id)
		}
		if !guarantee.MatchString(c.guarantee) {
			t.Errorf("%s: %s is no guarantee", c.id, c.guarantee)
		}
		if !strings.HasSuffix(c.promise, ".") || strings.Contains(c.promise, "|") {
			t.Errorf("%s: %q is not a sentence for a table", c.id, c.promise)
		}
		for _, n := range c.needs {
			if !slices.Contains(seen, n) {
				t.Errorf("%s rests on %s, which does not run before it", c.id, n)
			}
		}
		if c.evidence == "" && len(c.needs) == 0 {
			t.Errorf("%s needs a provider and rests on nothing", c.id)
		}
		seen = append(seen, c.id)
	}
	if len(seen) < 30 {
		t.Errorf("%d checks", len(seen))
	}
}

type noHarness struct{}

func (noHarness) Start(context.Context, string, int64) (Provider, error) {
	return nil, errors.New("nothing to start")
}

// A connector that does not load fails by that alone, and nothing else passes
// or fails for want of a provider.
func TestWhatDoesNotLoadIsBlocked(t *testing.T) {
	t.Setenv("DRAWBRIDGE_CONTRACT_REPORT", "") // it is no subject
	to := &told{T: t}
	r := Run(to, Subject{Connector: connector.Connector{ID: "empty", Version: "0.1.0"}, Harness: noHarness{}})
	if diff := cmp.Diff([]string{"A1"}, r.Broken()); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
	if len(to.errors) != 1 || !strings.HasPrefix(to.errors[0], "A1 (CON3) broken: ") {
		t.Errorf("told %q", to.errors)
	}
	for _, o := range r.Checks {
		if o.Evidence != Unit && (o.Result != Blocked || o.Why == "") {
			t.Errorf("%s is %s (%s)", o.ID, o.Result, o.Why)
		}
	}
	if len(r.Checks) != len(checks)+1 {
		t.Errorf("%d outcomes of %d checks", len(r.Checks), len(checks)+1)
	}
}

// A run that can't be run is a failure, never an empty pass.
func TestFaultsOfTheRunAreFailures(t *testing.T) {
	t.Setenv("DRAWBRIDGE_CONTRACT_REPORT", "")
	for name, s := range map[string]Subject{
		"a reason for no check": {NotClaimed: map[string]string{"Z9": "because"}},
		"no provider":           {Connector: loads(), Harness: noHarness{}},
	} {
		to := &told{T: t}
		if r := Run(to, s); r.Fault == "" || len(to.errors) == 0 {
			t.Errorf("%s: fault %q, told %q", name, r.Fault, to.errors)
		}
	}
}

// loads is the least that Lint lets through.
func loads() connector.Connector {
	return connector.Connector{ID: "least", Version: "0.1.0", Owner: "tests", Provider: "least", ProviderVersion: "v1",
		Auth:     connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"r"}},
		Identify: func(context.Context, *connector.Access) (connector.Identity, error) { return connector.Identity{}, nil },
		Operations: []connector.Operation{connector.Read(connector.Spec{Name: "least.get", Title: "t", Doc: "d",
			Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal, Scopes: []string{"r"}},
			func(context.Context, *connector.Access, struct{}) (struct{}, error) { return struct{}{}, nil })}}
}

// Guarantee: TST4
func TestReportIsWritten(t *testing.T) {
	t.Parallel()
	r := Report{Connector: "a|b", Provider: "Org/../1", Version: "0.1.0", Evidence: Sandbox, Checks: []Outcome{
		{ID: "A1", Guarantee: "CON3", Promise: "It loads.", Result: Passed, Evidence: Unit},
		{ID: "D0", Guarantee: "TIX1", Promise: "It walks.", Result: Failed, Evidence: Sandbox, Details: []string{"one\n| two", "<b>"}},
		{ID: "E1", Guarantee: "TIX4", Promise: "It waits.", Result: NotClaimed, Why: "no write", Evidence: Sandbox},
		{ID: "E2", Guarantee: "TIX4", Promise: "It waits longer.", Result: Blocked, Why: "E1 failed", Evidence: Sandbox},
	}, NotMeasured: notMeasured}
	root := t.TempDir()
	if err := r.Save(root); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "a-b-org-1")
	raw, err := os.ReadFile(filepath.Join(dir, "contract-report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(dir, "contract-report.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 passed, 1 failed, 1 not claimed, 1 blocked",
		`| D0 | TIX1 | failed: one \| two; &lt;b> | sandbox | It walks. |`, "| E1 | TIX4 | not claimed: no write |", "- webhooks"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// Labels find a goroutine that outlives its call, and only in its own run.
func TestLeftGoroutineIsFound(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	r := &runner{label: "contract-left", subject: Subject{}}
	inLabel(t.Context(), r.label, func(context.Context) {
		started := make(chan struct{})
		go func() {
			close(started)
			<-stop
		}()
		<-started
	})
	if labelled("contract-left") == "" {
		t.Error("the goroutine is not found")
	}
	if text := labelled("contract-other"); text != "" {
		t.Errorf("found in another run:\n%s", text)
	}
}
