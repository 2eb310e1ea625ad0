package kit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// fixedRun runs a subject without a provider and returns what the check of the
// fixed files came to.
func fixedRun(t *testing.T, s Subject) (Outcome, Report) {
	t.Helper()
	r := Run(&told{T: t}, s)
	for _, o := range r.Checks {
		if o.ID == "A7" {
			return o, r
		}
	}
	t.Fatal("there is no such check")
	return Outcome{}, r
}

func pagesSubject(dir string, path string) Subject {
	return Subject{Connector: pages(path), FixedDir: dir, Fixed: []Case{
		{Name: "Two pages", Tool: "pages.list", Arguments: map[string]string{"text": "a b"}, Answers: []Answer{
			{Body: `{"items": ["one", "two"], "next": "p2"}`}, {Body: `{"items": ["three"]}`}}},
		{Name: "too many requests", Tool: "pages.list", Arguments: map[string]string{"text": ""}, Answers: []Answer{
			{Status: 429, Header: map[string][]string{"Retry-After": {"7"}}, Body: "slow down"}}},
		{Name: "who", Answers: []Answer{{Body: `{"id": "u1"}`}}},
	}}
}

// pages is a connector with a list of words.
func pages(path string) connector.Connector {
	c := loads()
	c.ID = "pages"
	c.Identify = func(ctx context.Context, a *connector.Access) (connector.Identity, error) {
		me, _, err := connector.Get[struct {
			ID string `json:"id"`
		}](ctx, a, connector.Request{Path: "/me"})
		return connector.Identity{Account: connector.Account{Subject: me.ID}}, err
	}
	c.Operations = []connector.Operation{connector.List(connector.Spec{Name: "pages.list", Title: "t", Doc: "d",
		Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal, Scopes: []string{"r"}},
		func(ctx context.Context, a *connector.Access, in struct {
			Text string `json:"text"`
		}, at connector.Position) (connector.Page[string], error) {
			p, _, err := connector.Get[struct {
				Items []string `json:"items"`
				Next  string   `json:"next"`
			}](ctx, a, connector.Request{Path: path, Query: map[string][]string{"q": {in.Text}, "at": {at.Cursor}}})
			return connector.Page[string]{Items: p.Items, Next: p.Next}, err
		})}
	return c
}

// What is written is what is compared; a changed request, a missing file and a
// file of no case are each told, with what to do.
// Guarantee: TST1
func TestFixedFiles(t *testing.T) {
	t.Setenv("DRAWBRIDGE_CONTRACT_REPORT", "")
	dir := filepath.Join(t.TempDir(), "fixed")

	missing, r := fixedRun(t, pagesSubject(dir, "/list"))
	if missing.Result != Failed || len(missing.Details) != 3 || !strings.Contains(missing.Details[0], "two-pages.json; write it with DRAWBRIDGE_UPDATE=1 go test") {
		t.Errorf("without files: %s %q", missing.Result, missing.Details)
	}
	if missing.Evidence != Unit || r.Evidence != Unit {
		t.Errorf("without a provider the evidence is %q and %q", missing.Evidence, r.Evidence)
	}

	t.Setenv(UpdateVariable, "1")
	if o, _ := fixedRun(t, pagesSubject(dir, "/list")); o.Result != Passed {
		t.Fatalf("writing: %s %q", o.Result, o.Details)
	}
	t.Setenv(UpdateVariable, "")
	if o, r := fixedRun(t, pagesSubject(dir, "/list")); o.Result != Passed || r.Count(Failed) != 0 || r.Count(Blocked) != 0 {
		t.Errorf("compared: %s %q, %s", o.Result, o.Details, r)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "two-pages.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"path": "/list"`, `"query": "at=&q=a+b"`, `"query": "at=p2&q=a+b"`, `"three"`, `"next_page": true`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the file lacks %s:\n%s", want, raw)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "too-many-requests.json")); err != nil ||
		!strings.Contains(string(raw), `"RATE_LIMITED"`) || !strings.Contains(string(raw), `"retry_after_seconds": 7`) {
		t.Errorf("%v\n%s", err, raw)
	}

	changed, _ := fixedRun(t, pagesSubject(dir, "/other"))
	if len(changed.Details) != 2 || !strings.Contains(changed.Details[0], "\n-       \"path\": \"/list\",\n") || !strings.Contains(changed.Details[0], "\n+       \"path\": \"/other\",\n") {
		t.Errorf("a changed path reads %q", changed.Details)
	}

	fewer := pagesSubject(dir, "/list")
	fewer.Fixed[0].Answers = fewer.Fixed[0].Answers[:1]
	fewer.Fixed[1].Name = "renamed"
	o, _ := fixedRun(t, fewer)
	if text := strings.Join(o.Details, "\n"); len(o.Details) != 3 || !strings.Contains(text, "0 answers too many and 1 too few") ||
		!strings.Contains(text, "no "+filepath.Join(dir, "renamed.json")) || !strings.Contains(text, "too-many-requests.json belongs to no case") {
		t.Errorf("%q", o.Details)
	}
	if o, _ := fixedRun(t, Subject{Connector: pages("/"), Fixed: fewer.Fixed[2:], FixedDir: t.TempDir()}); !strings.Contains(strings.Join(o.Details, "\n"), "pages.list has no fixed case") {
		t.Errorf("%q", o.Details)
	}
}

func TestDifferenceShowsWhatChanged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ want, got, shown string }{
		{"a\nb\nc\nd", "a\nx\nc\nd", "  a\n- b\n+ x\n  c"},
		{"a\nb", "a\nb\nc", "  b\n+ c\n "},
		{"", "a", "- \n+ a"},
		{"a\na\na", "a\na", "  a\n- a"},
	} {
		if diff := cmp.Diff(strings.TrimRight(tc.shown, "\n "), strings.TrimRight(difference(tc.want, tc.got), "\n ")); diff != "" {
			t.Errorf("%q to %q (-want +got):\n%s", tc.want, tc.got, diff)
		}
	}
}
