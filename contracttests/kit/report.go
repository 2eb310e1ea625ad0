package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What became of a check.
const (
	Passed     = "passed"
	Failed     = "failed"
	NotClaimed = "not claimed" // it does not apply; Why says so
	Blocked    = "blocked"     // what it rests on failed; Why names it
)

// A Report is one run.
type Report struct {
	Connector       string `json:"connector"`
	Version         string `json:"connector_version"`
	Provider        string `json:"provider"`
	ProviderVersion string `json:"provider_api_version"`
	SDK             string `json:"sdk_version"`
	// ProviderDigest is what exactly ran, as its harness says; empty: not known.
	ProviderDigest string    `json:"provider_digest,omitempty"`
	Evidence       Evidence  `json:"evidence"`
	Seed           int64     `json:"seed"`
	Started        time.Time `json:"started"`
	Seconds        float64   `json:"seconds"`
	Checks         []Outcome `json:"checks"`
	// Faults are what was done to exchanges on the wire, in order, by check; one
	// that follows itself stands once. The seed fixes them as it fixes the data.
	Faults []string `json:"faults,omitempty"`
	// NotMeasured are the promises of the contract that this kit can't judge.
	NotMeasured []string `json:"not_measured"`
	// Fault says why the run itself could not be finished.
	Fault string `json:"fault,omitempty"`
}

// An Outcome is what became of one check.
type Outcome struct {
	ID        string   `json:"id"`
	Guarantee string   `json:"guarantee"`
	Promise   string   `json:"promise"`
	Result    string   `json:"result"`
	Evidence  Evidence `json:"evidence"`
	Why       string   `json:"why,omitempty"`
	Details   []string `json:"details,omitempty"`
	Seconds   float64  `json:"seconds"`
}

// notMeasured is the same for every subject: what needs another kind of test.
var notMeasured = []string{
	"the sign-in itself (PKCE, state, issuer): tested with package credentials, which a connector has no part in",
	"addresses that may not be dialled, TLS and oversized bodies: tested with package connector/transport",
	"a crash of the process at each step of a write: contracttests/crash",
	"webhooks: tested with package webhooks",
}

// Count is the number of checks with a result.
func (r Report) Count(result string) (n int) {
	for _, o := range r.Checks {
		if o.Result == result {
			n++
		}
	}
	return n
}

// Broken are the ids of the checks that failed.
func (r Report) Broken() (ids []string) {
	for _, o := range r.Checks {
		if o.Result == Failed {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// String is the run in one line.
func (r Report) String() string {
	return fmt.Sprintf("%s %s against %s: %d passed, %d failed, %d not claimed, %d blocked, %.1f s (seed %d)", r.Connector, r.Version,
		r.Provider, r.Count(Passed), r.Count(Failed), r.Count(NotClaimed), r.Count(Blocked), r.Seconds, r.Seed)
}

// Markdown is the run for people.
func (r Report) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Contract of %s %s\n\n", cell(r.Connector), cell(r.Version))
	fmt.Fprintf(&b, "Against %s %s (%s), %s, %.1f s, seed %d, Drawbridge %s.\n\n", cell(r.Provider), cell(r.ProviderVersion), r.Evidence,
		r.Started.Format(time.RFC3339), r.Seconds, r.Seed, cell(r.SDK))
	if r.ProviderDigest != "" {
		fmt.Fprintf(&b, "What ran: %s.\n\n", cell(r.ProviderDigest))
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d not claimed, %d blocked.\n\n", r.Count(Passed), r.Count(Failed), r.Count(NotClaimed), r.Count(Blocked))
	if r.Fault != "" {
		fmt.Fprintf(&b, "The run itself failed: %s\n\n", cell(r.Fault))
	}
	b.WriteString("| check | guarantee | result | evidence | promise |\n|---|---|---|---|---|\n")
	for _, o := range r.Checks {
		result := o.Result
		if o.Why != "" {
			result += ": " + cell(o.Why)
		}
		if len(o.Details) > 0 {
			result += ": " + cell(strings.Join(o.Details, "; "))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", o.ID, o.Guarantee, result, o.Evidence, o.Promise)
	}
	b.WriteString("\nNot measured:\n\n")
	for _, n := range r.NotMeasured {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.Bytes()
}

// slug is a name as part of a path.
func slug(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}

// cell keeps foreign text inside one cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ", "<", "&lt;").Replace(s)
}

// Save writes the report into a folder of its subject, because one test run may
// have several.
func (r Report) Save(dir string) error {
	dir = filepath.Join(dir, slug(r.Connector+" "+r.Provider))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "contract-report.json"), append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "contract-report.md"), r.Markdown(), 0o644)
}
