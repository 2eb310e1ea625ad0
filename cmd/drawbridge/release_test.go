package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a release says of itself is what the binary is, and evidence is for the
// connectors that are in it.
//
// Guarantee: OPS6
func TestRelease(t *testing.T) {
	c := newCLI(t, "acme/alice")
	got := c.json(0, "release")
	if versions, _ := at(got, "mcp", "protocol_versions").([]any); !slices.Contains(versions, any("2026-07-28")) {
		t.Errorf("protocol versions: %v", versions)
	}
	var r release
	raw, _ := json.Marshal(got)
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	var tools []string
	for _, s := range r.Connectors {
		for _, capability := range s.Manifest.Capabilities {
			tools = append(tools, s.Manifest.Provider+" "+capability.Name+" "+capability.Effect.String())
		}
	}
	for _, want := range []string{"gitea tickets.get read", "gitea tickets.create compensable_write", "sandbox tickets.search read"} {
		if !slices.ContainsFunc(tools, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%q is not among %q", want, tools)
		}
	}
	if len(r.Guarantees) < 50 || len(r.Evidence) != 0 {
		t.Errorf("%d guarantees, %d reports", len(r.Guarantees), len(r.Evidence))
	}
	if text := c.run("release").out; !strings.Contains(text, "nothing was measured") {
		t.Errorf("without evidence: %s", text)
	}

	dir := filepath.Join(t.TempDir(), "tickets-sandbox")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r := c.run("release", "--evidence", dir); r.code == 0 {
		t.Error("an empty folder is evidence")
	}
	report := `{"connector":"tickets","connector_version":"` + r.Connectors[0].Manifest.Version + `","provider":"sandbox","evidence":"sandbox","seed":7,
		"checks":[{"id":"A1","result":"passed"},{"id":"E1","result":"not claimed","why":"because"}]}`
	path := filepath.Join(dir, "contract-report.json")
	if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	with := c.json(0, "release", "--evidence", filepath.Dir(dir))
	if list, _ := with["evidence"].([]any); len(list) != 1 {
		t.Errorf("evidence: %v", with["evidence"])
	}
	if err := os.WriteFile(path, []byte(strings.Replace(report, `"tickets"`, `"others"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.run("release", "--evidence", dir); r.code == 0 {
		t.Error("a report about another connector is evidence")
	}
}
