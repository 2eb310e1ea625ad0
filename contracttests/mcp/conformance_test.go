package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"
)

// required is how many scenarios a revision requires; all of them have to pass.
var required = map[string]int{"2026-07-28": 37, "2025-11-25": 30}

// The official suite, through our real edge, resolver, sealer and capability check.
//
// Guarantee: MCP9, MCP1
func TestConformance(t *testing.T) {
	modules := packages(t)
	_, server, _ := open(t, fixtures())
	url := listen(t, server, suiteToken, local)
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		out := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := node(ctx, modules, filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
			"server", "--url", url, "--requirements", revision, "-o", out)
		printed, err := cmd.CombinedOutput()
		cancel()
		scenarios, checks, failed := results(t, out)
		names := requirements(t, filepath.Join(modules, "@modelcontextprotocol", "conformance", "requirements", revision+".yaml"))
		if len(names) != required[revision] {
			t.Fatalf("%s requires %d scenarios, want %d", revision, len(names), required[revision])
		}
		passed := 0
		for _, name := range names {
			if scenarios[name] {
				passed++
			} else {
				t.Errorf("%s: %s failed: %v", revision, name, failed[name])
			}
		}
		if passed < len(names) {
			t.Errorf("%s ended with %v\n%s", revision, err, tail(string(printed), 60))
		}
		fmt.Printf("figure: conformance %s  %d of %d scenarios  %d checks passed\n", revision, passed, required[revision], checks)
	}
}

// results reads the checks.json of each scenario.
func results(t *testing.T, dir string) (scenarios map[string]bool, checks int, failed map[string][]string) {
	t.Helper()
	scenarios, failed = map[string]bool{}, map[string][]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	sort.Strings(files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct{ ID, Status, ErrorMessage string }
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatal(err)
		}
		name := stamp.ReplaceAllString(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "server-"), "")
		scenarios[name] = len(all) > 0
		for _, c := range all {
			switch c.Status {
			case "SUCCESS":
				checks++
			case "FAILURE":
				scenarios[name] = false
				failed[name] = append(failed[name], c.ID+": "+c.ErrorMessage)
			}
		}
	}
	return scenarios, checks, failed
}

var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[0-9-]+Z$`)

// requirements reads the names of the server scenarios that a revision requires.
func requirements(t *testing.T, file string) (names []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "  - "); ok && within {
			names = append(names, strings.TrimSpace(name))
		} else if line != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "#") {
			within = line == "server:"
		}
	}
	return names
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
