package gitea_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// draft has a body that pretends to end in a foot of its own.
var draft = tickets.Draft{Project: "ana/a", Title: "Printer on fire", Severity: "high", Labels: []string{"l4", "l0"}, Evidence: []string{"ana/a#1", `"quoted" <&>`},
	Body: "Room 4.\r\nSmoke.\n\n---\nSeverity: low\nDrawbridge operation: op_fake"}

func withLabels(f *fixture) *fixture {
	f.labels["ana/a"] = []string{"l0", "l1", "l2", "l3", "l4"}
	return f
}

func (f *fixture) posts() (n int) {
	for _, r := range f.asked() {
		if strings.HasPrefix(r, http.MethodPost) {
			n++
		}
	}
	return n
}

// hangUp loses the answer.
func hangUp(w http.ResponseWriter) bool {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
	return true
}

// T15: what Gitea has no field for is at the foot of the text that a person
// approves, and comes back as the fields it was.
// Guarantee: TIX5, TIX6, TIX7
func TestCreateIsApprovedSentAndReadBack(t *testing.T) {
	t.Parallel()
	f := withLabels(newFixture(t, "ana/a"))
	f.pageSize = 2 // labels are on three pages
	c := connect(t, f)
	pending := c.approved(draft)
	var shown struct {
		Title, Body string
		Labels      []int64
	}
	if err := json.Unmarshal([]byte(pending.Body), &shown); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{104, 100}, shown.Labels); diff != "" || pending.Path != "/api/v1/repos/ana/a/issues" || len(pending.Notes) != 3 {
		t.Errorf("pending %s, notes %q, labels (-want +got):\n%s", pending.Path, pending.Notes, diff)
	}
	if n := f.posts(); n != 0 {
		t.Errorf("%d creates before the approval was used", n)
	}
	r := c.call("tickets.create", draft)
	c.expect("created", r, connector.StatusSuccess, 0, connector.DispositionApplied)
	if r.Receipt == nil || r.Receipt.Proof() != connector.ProofVerified || r.Receipt.ExternalID() != "ana/a#1" || len(r.Receipt.Differences()) != 0 {
		t.Fatalf("receipt %+v", r.Receipt)
	}
	if !slices.Equal(f.bodies, []string{shown.Body}) || !strings.HasSuffix(shown.Body, "\nDrawbridge operation: "+string(r.Receipt.Operation())) {
		t.Errorf("sent %q, shown %q", f.bodies, shown.Body)
	}
	var got tickets.Ticket
	if err := json.Unmarshal(r.Data, &got); err != nil {
		t.Fatal(err)
	}
	severity, _ := got.Severity.Get()
	if want := strings.ReplaceAll(draft.Body, "\r\n", "\n"); got.Body != want || severity != "high" || !slices.Equal(got.Evidence, draft.Evidence) {
		t.Errorf("came back as %+v", got)
	}
	if again := c.call("tickets.create", draft); !again.Replayed || f.posts() != 1 {
		t.Errorf("the call again: %+v", again)
	}
}

// T11, T13: a label that Gitea does not know is dropped by it without a word, so
// it is refused before a person is asked; one that it drops all the same is listed.
// Guarantee: TIX6, TIX7
func TestCreateLabels(t *testing.T) {
	t.Parallel()
	f := withLabels(newFixture(t, "ana/a"))
	c := connect(t, f)
	for name, labels := range map[string][]string{"absent": {"l1", "absent"}, "another case": {"l1", "L2"}} {
		d := draft
		d.Labels = labels
		r := c.call("tickets.create", d)
		c.expect(name, r, connector.StatusError, connector.CodeInvalidInput, connector.DispositionNone)
		if diff := cmp.Diff([]connector.Fault{{Pointer: "/labels/1", Keyword: "enum"}}, r.Error.Faults); diff != "" || r.Pending != nil {
			t.Errorf("%s: pending %v, faults (-want +got):\n%s", name, r.Pending, diff)
		}
	}
	f.change(func() {
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/labels") {
				f.answer(w, 500, nil)
				return true
			}
			return false
		}
	})
	c.expect("labels can't be read", c.call("tickets.create", draft), connector.StatusError, connector.CodeUnavailable, connector.DispositionNone)
	f.change(func() {
		f.before, f.after = nil, func(_ http.ResponseWriter, made *issue) bool { made.Labels = made.Labels[:1]; return false }
	})
	f.asked()
	c.approved(draft)
	r := c.call("tickets.create", draft)
	c.expect("dropped", r, connector.StatusPartial, 0, connector.DispositionApplied)
	if diff := cmp.Diff([]connector.Change{{Pointer: "/labels", Sent: "l4, l0", Stored: "l4"}}, r.Receipt.Differences()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := f.posts(); n != 1 {
		t.Errorf("%d creates", n)
	}
}

// T02, T10, T11, T12: what became of a create is read from the repository's list,
// whole or not at all, and a mark counts only on an issue of our own account.
// Guarantee: TIX5, TIX7
func TestCreateLostAnswerIsFoundByItsMark(t *testing.T) {
	t.Parallel()
	const absent, cannotTell = "absent, but the settle time is not over", "the look-up cannot tell"
	other := func(f *fixture) { f.put(f.repos[0], nil) }
	f := newFixture(t)
	for n := range 20 {
		f.repos = append(f.repos, fmt.Sprintf("ana/r%02d", n)) // one a case, the first of what is left
	}
	p := connect(t, f)
	for _, c := range []struct {
		name     string
		pageSize int
		made     bool                                                          // whether Gitea committed before the answer was lost
		then     func(f *fixture, text string)                                 // what happens before the look-up
		listing  func(f *fixture, w http.ResponseWriter, q *http.Request) bool // what happens during it
		state    connector.OperationState
		reason   string
	}{
		{"found", 50, true, nil, nil, connector.StateApplied, ""},
		{"found behind others, in small pages", 2, true, func(f *fixture, _ string) {
			for range 7 {
				other(f)
			}
		}, nil, connector.StateApplied, ""},
		{"absent", 50, false, nil, nil, connector.StateUnknown, absent},
		{"absent, in small pages", 2, false, func(f *fixture, _ string) { other(f); other(f); other(f); other(f) }, nil, connector.StateUnknown, absent},
		{"mark copied by another account", 50, false, func(f *fixture, text string) {
			f.put(f.repos[0], func(i *issue) { i.Body, i.User = text, ben })
		}, nil, connector.StateUnknown, absent},
		{"mark copied by nobody", 50, false, func(f *fixture, text string) {
			f.put(f.repos[0], func(i *issue) { i.Body, i.User = text, nil })
		}, nil, connector.StateUnknown, absent},
		{"mark on a pull request", 50, false, func(f *fixture, text string) {
			f.put(f.repos[0], func(i *issue) { i.Body, i.PullRequest = text, &struct{}{} })
		}, nil, connector.StateUnknown, absent},
		{"mark quoted in another text", 50, false, func(f *fixture, text string) {
			f.put(f.repos[0], func(i *issue) { i.Body = text + "\n\nsee above" })
		}, nil, connector.StateUnknown, absent},
		{"copy and original", 50, true, func(f *fixture, text string) {
			f.put(f.repos[0], func(i *issue) { i.Body, i.User = text, ben })
		}, nil, connector.StateApplied, ""},
		{"line ends turned by an edit", 50, true, func(f *fixture, text string) {
			i := &f.issues[f.repos[0]][0]
			i.Body = strings.ReplaceAll(i.Body, "\n", "\r\n") + "\r\n"
		}, nil, connector.StateApplied, ""},
		{"list moves while it is read", 2, false, func(f *fixture, _ string) { other(f); other(f); other(f) },
			func(f *fixture, _ http.ResponseWriter, q *http.Request) bool {
				if q.URL.Query().Get("page") == "2" {
					other(f)
				}
				return false
			}, connector.StateUnknown, cannotTell},
		{"first page comes again and again", 2, true, func(f *fixture, _ string) { other(f); other(f); other(f) },
			func(_ *fixture, _ http.ResponseWriter, q *http.Request) bool { alwaysFirst(q); return false }, connector.StateUnknown, cannotTell},
		{"list ends before its total", 50, false, func(f *fixture, _ string) { other(f) },
			func(f *fixture, w http.ResponseWriter, q *http.Request) bool {
				w.Header().Set("X-Total-Count", "90")
				f.answer(w, 200, []issue{})
				return true
			}, connector.StateUnknown, cannotTell},
		{"list is refused", 50, true, nil, func(f *fixture, w http.ResponseWriter, _ *http.Request) bool { f.answer(w, 404, nil); return true },
			connector.StateUnknown, "look-up: NOT_FOUND"},
		{"list is a page", 50, true, nil, func(_ *fixture, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte("<html>"))
			return true
		}, connector.StateUnknown, "look-up: PROVIDER_CONTRACT"},
		{"list is null", 50, true, nil, func(_ *fixture, w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Total-Count", "0")
			w.Write([]byte("null"))
			return true
		}, connector.StateUnknown, "look-up: PROVIDER_CONTRACT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			draft := draft
			draft.Project, draft.Labels = f.repos[0], nil
			f.change(func() { f.before, f.after, f.pageSize = nil, nil, c.pageSize })
			defer f.change(func() { f.repos = f.repos[1:] })
			pending := p.approved(draft)
			var sent struct{ Body string }
			if err := json.Unmarshal([]byte(pending.Body), &sent); err != nil {
				t.Fatal(err)
			}
			f.change(func() {
				if c.made {
					f.after = func(w http.ResponseWriter, _ *issue) bool { return hangUp(w) }
					return
				}
				f.before = func(w http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodPost && hangUp(w) }
			})
			lost := p.call("tickets.create", draft)
			p.expect("lost", lost, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
			f.change(func() {
				f.before, f.after = nil, nil
				if c.then != nil {
					c.then(f, sent.Body)
				}
				if c.listing != nil {
					f.before = func(w http.ResponseWriter, r *http.Request) bool { return c.listing(f, w, r) }
				}
			})
			if n := f.posts(); n != 1 {
				t.Errorf("%d creates", n)
			}
			rec := p.settle(lost.Effect.Operation)
			if rec.State != c.state || c.reason != "" && rec.Reason != c.reason {
				t.Errorf("settled as %s (%s), want %s (%s)", rec.State, rec.Reason, c.state, c.reason)
			}
			for _, asked := range f.asked() {
				if strings.HasPrefix(asked, "POST") || strings.Contains(asked, "q=") || strings.Contains(asked, "/issues?") &&
					!(strings.Contains(asked, "state=all&type=issues") && strings.Contains(asked, "since=")) {
					t.Errorf("the look-up asked %s", asked)
				}
			}
			if c.state == connector.StateApplied {
				r := p.call("tickets.create", draft)
				p.expect("settled", r, connector.StatusSuccess, 0, connector.DispositionApplied)
				if !r.Replayed || r.Receipt.ExternalID() != draft.Project+"#1" || r.Receipt.How() != "look_up" {
					t.Errorf("receipt %+v", r.Receipt)
				}
			}
		})
	}
}

// T16, T35: what Gitea refuses for sure, and what only looks like it.
// Guarantee: TIX6, TIX7, NET8
func TestCreateRefused(t *testing.T) {
	t.Parallel()
	f := withLabels(newFixture(t, "ana/a"))
	c := connect(t, f)
	for _, tc := range []struct {
		name   string
		status int
		body   string
		want   connector.Status
		code   connector.Code
		effect connector.Disposition
	}{
		{"renamed", 301, ``, connector.StatusError, connector.CodeMoved, connector.DispositionNotApplied},
		{"archived", 423, `{"message":"ana/a is archived"}`, connector.StatusError, connector.CodeConflict, connector.DispositionNotApplied},
		{"scope", 403, `{"message":"token does not have at least one of required scope(s), required=[write:issue], token scope=read:issue"}`,
			connector.StatusError, connector.CodeScopeRequired, connector.DispositionNotApplied},
		{"hidden", 404, `{"message":"not found"}`, connector.StatusError, connector.CodeNotFound, connector.DispositionNotApplied},
		{"title", 422, `{"message":"[Title]: Required"}`, connector.StatusError, connector.CodeInvalidInput, connector.DispositionNotApplied},
		{"303", 303, ``, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown},
		{"500", 500, `{"message":""}`, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown},
		{"200 and a list", 200, `[]`, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown},
	} {
		f.change(func() { f.before = nil })
		d := draft
		d.Title = tc.name
		c.approved(d)
		f.asked()
		f.change(func() {
			f.before = func(w http.ResponseWriter, _ *http.Request) bool {
				if tc.status < 400 {
					w.Header().Set("Location", "/api/v1/repos/ana/moved/issues")
				}
				w.WriteHeader(tc.status)
				w.Write([]byte(tc.body))
				return true
			}
		})
		r := c.call("tickets.create", d)
		c.expect(tc.name, r, tc.want, tc.code, tc.effect)
		if asked := f.asked(); len(asked) != 1 {
			t.Errorf("%s: asked %v", tc.name, asked)
		}
	}
}
