package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// author is a folder in which somebody writes connectors, without a network.
type author struct {
	*cli
	dir  string
	root string // of this checkout
}

// newAuthor is for tests that build what they write, which takes longer than all
// others together: in the first run one of them does, the rest in make guide.
func newAuthor(t *testing.T) *author {
	t.Helper()
	if testing.Short() || os.Getenv("DRAWBRIDGE_GUIDE") == "" && t.Name() != "TestNewConnector" {
		t.Skip("builds programs; make guide runs it")
	}
	t.Setenv("GOPROXY", "off")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	a := &author{newCLI(t, "acme/alice"), t.TempDir(), root}
	t.Chdir(a.dir)
	return a
}

func (a *author) must(args ...string) ran {
	a.t.Helper()
	r := a.run(args...)
	if r.code != 0 {
		a.t.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r
}

func (a *author) goTool(dir string, args ...string) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), "go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

// edit changes a file of the author in one place.
func (a *author) edit(file, old, new string) {
	a.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	if n := strings.Count(string(raw), old); n != 1 {
		a.t.Fatalf("%q is %d times in %s", old, n, file)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), old, new, 1)), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func formatted(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "gofmt", "-l", dir).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("gofmt: %s %v", out, err)
	}
}

// short keeps what an author must understand at a size that can be stated.
func short(t *testing.T, file string, most int) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "\n"); n > most {
		t.Errorf("%s has %d lines, over %d", file, n, most)
	}
}

// contracted runs the contract of a new connector and names what is broken.
func (a *author) contracted(dir string, passed int) {
	a.t.Helper()
	r := a.json(0, "contract", dir)
	n, claimed := 0, 0
	for _, c := range at(r, "checks").([]any) {
		switch at(c, "result") {
		case "passed":
			n++
			claimed++
		case "failed", "blocked":
			claimed++
		}
	}
	if n != claimed || n < passed {
		a.t.Errorf("%s: %d of %d checks passed, want all and at least %d", dir, n, claimed, passed)
	}
}

// The first minute of an author, and the first change: green, linted, locked; a
// wider scope is seen by the lock file and has to be said by the version.
// Guarantee: OPS3, CON7
func TestNewConnector(t *testing.T) {
	a := newAuthor(t)
	a.must("new", "hello", "--replace", a.root)
	formatted(t, "hello")
	a.goTool("hello", "vet", "./...")
	a.contracted("hello", 39)
	a.must("lint", "hello")
	a.must("surface", "check", "hello")
	short(t, "hello/hello.go", 80)
	short(t, "hello/hello_test.go", 30)

	old, err := os.ReadFile("hello/connector.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	a.edit("hello/hello.go", `Sensitivity: connector.SensitivityInternal, Scopes: []string{"notes:read"}}, get)`,
		`Sensitivity: connector.SensitivityInternal, Scopes: []string{"notes:read", "notes:write"}}, get)`)
	if r := a.run("surface", "check", "hello"); r.code != 1 || !strings.Contains(r.out, "needs new consent") {
		t.Errorf("check: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if r := a.run("surface", "write", "hello"); r.code != 1 || !strings.Contains(r.err, "needs a major step") {
		t.Errorf("write: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	a.edit("hello/hello.go", `Version: "0.1.0"`, `Version: "0.2.0"`)
	a.must("surface", "write", "hello")
	a.must("surface", "check", "hello")
	if err := os.WriteFile("old.json", old, 0o600); err != nil {
		t.Fatal(err)
	}
	diff := a.json(0, "surface", "diff", "old.json", "hello/connector.lock.json")
	if text(diff, "kind") != "needs new consent" || text(diff, "subject") != "hello.get" || text(diff, "step") != "major" {
		t.Errorf("diff: %v", diff)
	}
	if r := a.run("surface", "diff", "hello/connector.lock.json", "old.json"); r.code != 1 || !strings.Contains(r.err, "goes back") {
		t.Errorf("diff back: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// Guarantee: OPS3
func TestLintSpeaksTheAuthorsWords(t *testing.T) {
	a := newAuthor(t)
	a.must("new", "hello", "--replace", a.root)
	a.edit("hello/hello.go", "Find: find, ", "")
	a.edit("hello/hello.go", "Effect: connector.EffectRead, ", "")
	before := folderText(t, "hello")
	r := a.run("lint", "hello")
	if r.code != 1 || !strings.Contains(r.err, "hello.create can't be settled: it has no Find") || !strings.Contains(r.err, "hello.get is unclassified: set its effect") {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if v := a.json(1, "lint", "hello"); at(v, "valid") != false || len(at(v, "faults").([]any)) < 2 {
		t.Errorf("as JSON: %v", v)
	}
	if r := a.run("surface", "write", "hello"); r.code != 1 {
		t.Errorf("a connector that can't be mounted was locked: %s%s", r.out, r.err)
	}
	if folderText(t, "hello") != before {
		t.Error("lint wrote into the author's folder")
	}
}

func folderText(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// Each way of connecting, and a package inside a module that is there.
// Guarantee: OPS3
func TestNewPackageOfAModule(t *testing.T) {
	a := newAuthor(t)
	a.must("new", "first", "--replace", a.root, "--auth", "key")
	t.Chdir("first")
	a.must("new", "second", "--auth", "client-credentials", "--dir", "internal/second")
	if _, err := os.Stat("internal/second/go.mod"); err == nil {
		t.Error("a package inside a module has a module of its own")
	}
	a.contracted(".", 38)
	a.contracted("internal/second", 37)
	a.must("lint", "internal/second")
	for file, kind := range map[string]string{"connector.lock.json": "static", "internal/second/connector.lock.json": "client_credentials"} {
		if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), `"kind": "`+kind+`"`) {
			t.Errorf("%s: %v\n%s", file, err, raw)
		}
	}
}

// Guarantee: OPS3
func TestNewFromAnAPIDescription(t *testing.T) {
	a := newAuthor(t)
	api := filepath.Join(a.root, "cmd/drawbridge/testdata/api.json")
	a.must("new", "alerts", "--replace", a.root, "--provider-openapi", api, "--account", "GET /me",
		"--operation", "GET /alerts/{alertId}", "--operation", "POST /alerts")
	formatted(t, "alerts")
	a.goTool("alerts", "vet", "./...")
	a.contracted("alerts", 31)
	a.must("surface", "check", "alerts")
	for file, wants := range map[string][]string{
		"getalert.json":    {`"path": "/alerts/sample"`, `"query": "expand=history&limit=10"`, `"status": "success"`},
		"createalert.json": {`"method": "POST"`, `"path": "/alerts"`, `"title": "disk full"`, `"made": "sample"`},
	} {
		raw, err := os.ReadFile(filepath.Join("alerts/testdata/contract", file))
		for _, want := range wants {
			if err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("%s lacks %s, %v:\n%s", file, want, err, raw)
			}
		}
	}
	raw, err := os.ReadFile("alerts/connector.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"alerts.get_alert"`, `"effect": "irreversible_write"`, `"sensitivity": "restricted"`, `"maxLength": 80`, `"alerts:write"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the lock file lacks %s", want)
		}
	}
}

func TestWhatCanNotBeCarriedOverIsRefused(t *testing.T) {
	a := newAuthor(t)
	api := filepath.Join(a.root, "cmd/drawbridge/testdata/api.json")
	r := a.run("new", "alerts", "--replace", a.root, "--provider-openapi", api,
		"--operation", "GET /alerts", "--operation", "GET /odd", "--operation", "POST /odd", "--operation", "PUT /odd", "--operation", "GET /none")
	if r.code != 2 {
		t.Errorf("exit code %d", r.code)
	}
	for _, why := range []string{"GET /alerts: its answer is no JSON object", `GET /odd: it needs "X-Key" in a header`, `POST /odd: "a" may be null and may be left out`,
		"PUT /odd: write GET or POST", "GET /none: the description has no such operation", "--account: say which read"} {
		if !strings.Contains(r.err, why) {
			t.Errorf("the refusal lacks %q:\n%s", why, r.err)
		}
	}
	if _, err := os.Stat("alerts"); err == nil {
		t.Error("something was written")
	}
}

func TestNewRefusals(t *testing.T) {
	a := newAuthor(t)
	if err := os.MkdirAll("full/x", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"name":                {[]string{"new", "Hello-World"}, "can't name a connector"},
		"keyword":             {[]string{"new", "func"}, "can't name a connector"},
		"auth":                {[]string{"new", "a", "--auth", "magic"}, "--auth is"},
		"owner":               {[]string{"new", "a", "--owner", `"; panic("`}, "--owner is"},
		"full folder":         {[]string{"new", "full"}, "nothing was written"},
		"no checkout":         {[]string{"new", "a", "--replace", "full"}, "full is none"},
		"no release":          {[]string{"new", "a"}, "say --replace"},
		"module":              {[]string{"new", "a", "--replace", a.root, "--module", "a b"}, "--module is"},
		"not API":             {[]string{"new", "a", "--replace", a.root, "--provider-openapi", filepath.Join(a.root, "go.mod")}, "not JSON"},
		"op alone":            {[]string{"new", "a", "--replace", a.root, "--operation", "GET /"}, "--provider-openapi"},
		"lint nothing":        {[]string{"lint", "none"}, "there is no folder none"},
		"lint a program":      {[]string{"lint", filepath.Join(a.root, "cmd/drawbridge")}, "is a program"},
		"lint no constructor": {[]string{"lint", filepath.Join(a.root, "keys")}, "no exported function"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := a.run(tc.args...); r.code != 2 || !strings.Contains(r.err, tc.want) {
				t.Errorf("exit code %d, %q; want 2 and %q", r.code, r.err, tc.want)
			}
		})
	}
	if _, err := os.Stat("a"); err == nil {
		t.Error("something was written")
	}
}
