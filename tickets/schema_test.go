package tickets_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var drivers = map[string]tickets.Driver{"sandboxorg": sandboxorg.Driver{}, "gitea": gitea.Driver{}}

// Guarantee: TIX7
func TestConnectorsLintClean(t *testing.T) {
	t.Parallel()
	for name, d := range drivers {
		if err := connector.Lint(tickets.New(d)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f := d.Facts(); len(f.Limitations) == 0 || f.Settle <= 0 || f.Provider == "" || f.ProviderVersion == "" {
			t.Errorf("%s does not declare what it can't guarantee: %+v", name, f)
		}
	}
}

// What a model is shown. A reviewer reads the difference; -update rewrites.
// Guarantee: TIX1, TIX7
func TestDefinitionsGolden(t *testing.T) {
	t.Parallel()
	for name, d := range drivers {
		definitions := tickets.New(d).Definitions()
		got, err := json.MarshalIndent(definitions, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", name+".definitions.json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-golden +got):\n%s", path, diff)
		}
		var names []string
		for _, def := range definitions {
			names = append(names, def.Name)
			if (def.Effect == connector.EffectRead) == def.Approval {
				t.Errorf("%s: %s has effect %v and approval %v", name, def.Name, def.Effect, def.Approval)
			}
		}
		if diff := cmp.Diff([]string{"tickets.search", "tickets.get", "tickets.create"}, names); diff != "" {
			t.Errorf("%s has other tools (-want +got):\n%s", name, diff)
		}
	}
}

// No bulk, no delete, no address, and no field that a person wrote in private.
// Guarantee: TIX1, TIX2
func TestSchemasAreClosedAndFitTheTypes(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	read := func(name string) (doc object) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join("tools", name+".json"))
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	var walk func(name, at string, node any)
	walk = func(name, at string, node any) {
		switch n := node.(type) {
		case object:
			if n["type"] == "object" && n["additionalProperties"] != false {
				t.Errorf("%s%s is open", name, at)
			}
			for key, child := range n {
				walk(name, at+"/"+key, child)
			}
		case []any:
			for _, child := range n {
				walk(name, at, child)
			}
		}
	}
	names := func(v any) (out []string) {
		for name := range v.(object)["properties"].(object) {
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	fields := func(v any) (all, always []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, name)
			if options == "" {
				always = append(always, name)
			}
		}
		slices.Sort(all)
		slices.Sort(always)
		return all, always
	}
	for _, name := range []string{"search.input", "search.output", "get.input", "ticket.output", "create.input"} {
		walk(name, "", read(name))
	}

	ticket, one, item := tickets.Ticket{}, read("ticket.output"), read("search.output")["$defs"].(object)["ticket"]
	all, always := fields(ticket)
	required := func(doc object) (out []string) {
		for _, name := range doc["required"].([]any) {
			out = append(out, name.(string))
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff(all, names(one)); diff != "" {
		t.Errorf("ticket.output and Ticket (-type +schema):\n%s", diff)
	}
	if diff := cmp.Diff(always, required(one)); diff != "" {
		t.Errorf("required of ticket.output (-type +schema):\n%s", diff)
	}
	if diff := cmp.Diff(any(one), item); diff != "" {
		t.Errorf("tickets.get and tickets.search show other tickets (-get +search):\n%s", diff)
	}

	all, always = fields(tickets.Draft{})
	if diff := cmp.Diff(all, names(read("create.input"))); diff != "" {
		t.Errorf("create.input and Draft (-type +schema):\n%s", diff)
	}
	if diff := cmp.Diff(always, required(read("create.input"))); diff != "" {
		t.Errorf("required of create.input (-type +schema):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"projects", "query", "state"}, names(read("search.input"))); diff != "" {
		t.Errorf("search.input (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"id", "max_age_seconds"}, names(read("get.input"))); diff != "" {
		t.Errorf("get.input (-want +got):\n%s", diff)
	}
	for i, want := range tickets.Severities {
		if got := read("create.input")["properties"].(object)["severity"].(object)["enum"].([]any)[i]; got != want {
			t.Errorf("severity %d of the schema is %v, want %v", i, got, want)
		}
	}
}
