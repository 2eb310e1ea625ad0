package surface

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
)

// Guarantee: CON7
func TestTheVersionSaysWhatChanged(t *testing.T) {
	nothing := func(*Surface) {}
	text := func(s *Surface) { s.Tools[0].Title = "Another" }
	compatible := func(s *Surface) { s.Manifest.Capabilities[0].Deprecated = "use another" }
	added := func(s *Surface) {
		c := s.Manifest.Capabilities[0]
		c.Name = "desk.peek"
		s.Manifest.Capabilities = append(s.Manifest.Capabilities, c)
		tool := s.Tools[0]
		tool.Name = "desk.peek"
		s.Tools = append(s.Tools, tool)
	}
	scope := func(s *Surface) { s.Manifest.Capabilities[0].Scopes = []string{"notes", "profile"} }
	breaking := func(s *Surface) { s.Manifest.Provider = "memos" }
	for name, tc := range map[string]struct {
		old, new string
		edit     func(*Surface)
		want     string // part of the error; empty: fine
	}{
		"nothing":                      {"1.2.3", "1.2.3", nothing, ""},
		"nothing, another build":       {"1.2.3+a", "1.2.3+b", nothing, ""},
		"nothing, released anyway":     {"1.2.3", "1.2.4", nothing, ""},
		"back":                         {"1.2.3", "1.2.2", nothing, "goes back"},
		"back to a pre-release":        {"1.2.3", "1.2.3-rc.1", nothing, "goes back"},
		"back among pre-releases":      {"1.2.3-rc.10", "1.2.3-rc.9", nothing, "goes back"},
		"text, no step":                {"1.2.3", "1.2.3", text, "needs a patch step from 1.2.3, and 1.2.3 is a none one"},
		"text, another build":          {"1.2.3+a", "1.2.3+b", text, "needs a patch step"},
		"text, patch":                  {"1.2.3", "1.2.4", text, ""},
		"compatible, patch":            {"1.2.3", "1.2.4", compatible, "needs a minor step"},
		"compatible, minor":            {"1.2.3", "1.3.0", compatible, ""},
		"new tool, patch":              {"1.2.3", "1.2.4", added, "needs a minor step"},
		"new tool, minor":              {"1.2.3", "1.3.0", added, ""},
		"wider, minor":                 {"1.2.3", "1.3.0", scope, "needs a major step"},
		"wider, major":                 {"1.2.3", "2.0.0", scope, ""},
		"breaking, minor":              {"1.2.3", "1.3.0", breaking, "needs a major step"},
		"breaking, major":              {"1.2.3", "2.0.0", breaking, ""},
		"breaking, next pre-release":   {"1.2.3", "2.0.0-rc.1", breaking, ""},
		"breaking, among pre-releases": {"2.0.0-rc.1", "2.0.0-rc.2", breaking, ""},
		"breaking, from a pre-release": {"1.2.3-rc.1", "1.2.3", breaking, ""},
		"0.x breaking, minor":          {"0.2.3", "0.3.0", breaking, ""},
		"0.x breaking, patch":          {"0.2.3", "0.2.4", breaking, "needs a major step"},
		"0.x new tool, patch":          {"0.2.3", "0.2.4", added, ""},
		"0.x wider, patch":             {"0.2.3", "0.2.4", scope, "needs a major step"},
		"not a version":                {"1.2", "1.2.3", nothing, "not a semantic version"},
		"number too long":              {"1.2.3", "1.2.99999999999999999999", nothing, "not a semantic version"},
	} {
		t.Run(name, func(t *testing.T) {
			old := surfaceOf(t)
			new := reread(t, old)
			old.Manifest.Version, new.Manifest.Version = tc.old, tc.new
			tc.edit(&new)
			err := Check(old, new)
			switch {
			case (err == nil) != (tc.want == ""):
				t.Errorf("error %v, want one with %q", err, tc.want)
			case err != nil && !strings.Contains(err.Error(), tc.want):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTwoConnectorsAreNotTwoVersions(t *testing.T) {
	old := surfaceOf(t)
	new := reread(t, old)
	new.Manifest.ID, new.Manifest.Version = "table", "2.0.0"
	if err := Check(old, new); err == nil || !strings.Contains(err.Error(), "two connectors") {
		t.Errorf("error %v", err)
	}
}

func TestPrecedence(t *testing.T) {
	// The example of semver.org, section 11.
	order := []string{"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0"}
	for i, a := range order {
		for j, b := range order {
			v, errV := parseVersion(a)
			w, errW := parseVersion(b)
			if errV != nil || errW != nil {
				t.Fatal(errV, errW)
			}
			if got := v.compare(w); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s against %s is %d", a, b, got)
			}
		}
	}
}

// A tool that is deprecated still works, says so where tools are listed, and
// can't go in the version after one that did not say so, however large the step.
// Guarantee: CON8
func TestAToolIsDeprecatedBeforeItGoes(t *testing.T) {
	c := desk("", "")
	deprecated := c.Operations[1].Spec()
	deprecated.Deprecated = "use desk.read"
	c.Operations = []connector.Operation{connector.Read(deprecated, func(context.Context, *connector.Access, getIn) (note, error) {
		return note{ID: "n1"}, nil
	})}
	rt := runtime(t, c)
	defs, err := rt.Tools(t.Context(), caller)
	if err != nil || len(defs) != 1 || defs[0].Deprecated != "use desk.read" {
		t.Errorf("definitions %+v, error %v", defs, err)
	}
	if r := rt.Execute(t.Context(), caller, connector.Call{Tool: "desk.get", Arguments: []byte(`{"id":"n1"}`)}); r.Status != connector.StatusSuccess {
		t.Errorf("a deprecated tool answers %s %+v", r.Status, r.Error)
	}

	before := surfaceOf(t)
	without := edited(t, before, func(s *Surface) {
		s.Manifest.Version = "2.0.0"
		s.Manifest.Capabilities = []manifest.Capability{s.Manifest.Capabilities[1]}
		s.Tools = s.Tools[1:]
	})
	if err := Check(before, without); err == nil || !strings.Contains(err.Error(), "deprecated in one version before it goes in another") {
		t.Errorf("it may go at once: %v", err)
	}
	marked := edited(t, before, func(s *Surface) {
		s.Manifest.Version = "1.3.0"
		s.Manifest.Capabilities[0].Deprecated = "use desk.read"
	})
	if err := Check(before, marked); err != nil {
		t.Errorf("it can't be deprecated: %v", err)
	}
	if err := Check(marked, without); err != nil {
		t.Errorf("it can't go afterwards: %v", err)
	}
	if diff := cmp.Diff([]string{"breaking: desk.get: is gone, as its deprecation said [major]"}, lines(Diff(marked, without))); diff != "" {
		t.Error(diff)
	}
}
