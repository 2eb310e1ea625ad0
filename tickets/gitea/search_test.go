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

type search struct {
	Query    string   `json:"query"`
	State    string   `json:"state,omitempty"`
	Projects []string `json:"projects,omitempty"`
	PageSize int      `json:"page_size"`
	Cursor   *string  `json:"cursor"`
}

func (c *client) search(q search) (connector.Result, []string) {
	c.t.Helper()
	r := c.call("tickets.search", q)
	var found struct{ Items []tickets.Ticket }
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, &found); err != nil {
			c.t.Fatal(err)
		}
	}
	var ids []string
	for _, t := range found.Items {
		ids = append(ids, t.ID)
	}
	return r, ids
}

// walk follows the positions to the end.
func (c *client) walk(q search) (ids, reasons []string, pages int) {
	c.t.Helper()
	for pages = 1; pages < 100; pages++ {
		r, found := c.search(q)
		if r.Error != nil {
			c.t.Fatalf("page %d: %+v", pages, r.Error)
		}
		ids = append(ids, found...)
		for _, reason := range missing(r) {
			if reason != "more_pages" {
				reasons = append(reasons, reason)
			}
		}
		if q.Cursor = r.NextCursor; q.Cursor == nil {
			return ids, reasons, pages
		}
	}
	c.t.Fatal("no end")
	return nil, nil, 0
}

// T33: one repository after the other, empty ones too; pull requests are left
// out, every filter is sent, and nothing is lost when pages are smaller than asked for.
// Guarantee: TIX1, TIX7
func TestSearchWalksRepositories(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a", "ana/b", "ana/c", "ana/d", "org/e")
	want := []string{}
	for _, repo := range []string{"ana/b", "ana/d", "org/e"} {
		for n := range 7 {
			pull := n%3 == 1
			f.add(repo, func(i *issue) {
				if pull {
					i.PullRequest = &struct{}{}
				}
			})
			if !pull {
				want = append(want, fmt.Sprintf("%s#%d", repo, n+1))
			}
		}
		f.add(repo, func(i *issue) { i.State = "closed" })
	}
	slices.Sort(want)
	c := connect(t, f)
	for _, sizes := range [][2]int{{50, 50}, {3, 50}, {1, 50}, {50, 2}, {5, 3}} {
		f.change(func() { f.pageSize = sizes[1] })
		ids, reasons, pages := c.walk(search{Query: "Issue", PageSize: sizes[0]})
		slices.Sort(ids)
		if diff := cmp.Diff(want, ids); diff != "" || len(reasons) > 0 {
			t.Errorf("pages of %d, at most %d, %d of them, missing %v (-want +got):\n%s", sizes[0], sizes[1], pages, reasons, diff)
		}
		for _, r := range f.asked() {
			if !strings.Contains(r, "q=Issue&state=open&type=issues") || !strings.HasPrefix(r, "GET /api/v1/repos/") {
				t.Errorf("asked %s", r)
			}
		}
	}
	f.asked()
	if _, ids := c.search(search{Query: "Issue", State: "closed", Projects: []string{"org/e"}, PageSize: 5}); !slices.Equal(ids, []string{"org/e#8"}) {
		t.Errorf("closed in one: %v", ids)
	}
	if asked := f.asked(); len(asked) != 1 || !strings.Contains(asked[0], "/org/e/issues?limit=5&page=1&q=Issue&state=closed&type=issues") {
		t.Errorf("asked %v", asked)
	}
	r, _ := c.search(search{Query: "x", Projects: []string{"ben/secret"}, PageSize: 5})
	c.expect("outside the grant", r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	if asked := f.asked(); len(asked) != 0 {
		t.Errorf("asked %v", asked)
	}
}

// T33: a call that meets only empty repositories stops somewhere and goes on.
func TestSearchOverManyEmptyRepositories(t *testing.T) {
	t.Parallel()
	var repos []string
	for n := range 23 {
		repos = append(repos, fmt.Sprintf("ana/r%02d", n))
	}
	f := newFixture(t, repos...)
	f.add("ana/r22", nil)
	c := connect(t, f)
	r, ids := c.search(search{Query: "Issue", PageSize: 5})
	if len(ids) != 0 || r.NextCursor == nil || len(f.asked()) > 10 {
		t.Errorf("first call: %v, next %v", ids, r.NextCursor)
	}
	ids, reasons, pages := c.walk(search{Query: "Issue", PageSize: 5})
	if !slices.Equal(ids, []string{"ana/r22#1"}) || len(reasons) > 0 || pages != 3 {
		t.Errorf("found %v on %d pages, missing %v", ids, pages, reasons)
	}
}

// T26, T33: pages are numbered, so a list that changed in between may repeat or
// hide an item, and the result says so.
// Guarantee: TIX7, RUN4
func TestSearchSaysThatTheListChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a")
	for range 5 {
		f.add("ana/a", nil)
	}
	c := connect(t, f)
	r, _ := c.search(search{Query: "Issue", PageSize: 2})
	f.add("ana/a", nil)
	r, _ = c.search(search{Query: "Issue", PageSize: 2, Cursor: r.NextCursor})
	c.expect("after an insert", r, connector.StatusPartial, 0, connector.DispositionNone)
	if !slices.Contains(missing(r), "changed_while_paging") {
		t.Errorf("missing %v", missing(r))
	}
	ids, reasons, _ := c.walk(search{Query: "Issue", PageSize: 2})
	if len(ids) != 6 || len(reasons) > 0 {
		t.Errorf("at rest: %v, missing %v", ids, reasons)
	}
}

// alwaysFirst is a server that takes no notice of page numbers.
func alwaysFirst(q *http.Request) {
	v := q.URL.Query()
	v.Set("page", "1")
	q.URL.RawQuery = v.Encode()
}

// D3: a page that comes twice ends the walk, and it does not count as the rest.
// Guarantee: RUN4, TIX7
func TestSearchOfAPageThatRepeats(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a")
	for range 5 {
		f.add("ana/a", nil)
	}
	f.change(func() {
		f.before = func(_ http.ResponseWriter, q *http.Request) bool { alwaysFirst(q); return false }
	})
	c := connect(t, f)
	first, _ := c.search(search{Query: "Issue", PageSize: 2})
	r, ids := c.search(search{Query: "Issue", PageSize: 2, Cursor: first.NextCursor})
	if len(ids) > 0 || r.NextCursor != nil || r.Coverage.Complete || !slices.Equal(missing(r), []string{"cursor_stuck"}) {
		t.Errorf("%s with %v, next %v, %+v", r.Status, ids, r.NextCursor, r.Coverage)
	}
}

// T42: a repository that is gone at the provider does not take the others
// along; one that is gone from the grant kills the positions of before.
// Guarantee: TIX2
func TestSearchWithARepositoryGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a", "ana/b", "ana/c")
	for _, repo := range []string{"ana/a", "ana/b", "ana/c"} {
		f.add(repo, nil)
		f.add(repo, nil)
	}
	c := connect(t, f)
	first, ids := c.search(search{Query: "Issue", PageSize: 2})
	if !slices.Equal(ids, []string{"ana/a#2", "ana/a#1"}) {
		t.Fatalf("first page %v", ids)
	}
	f.change(func() { f.repos = []string{"ana/a", "ana/c"} })
	r, ids := c.search(search{Query: "Issue", PageSize: 2, Cursor: first.NextCursor})
	if !slices.Equal(ids, []string{"ana/c#2", "ana/c#1"}) || r.NextCursor != nil || !slices.Equal(missing(r), []string{"outside_grant"}) || r.Coverage.Complete {
		t.Errorf("second page %v, next %v, missing %v", ids, r.NextCursor, missing(r))
	}
	r, _ = c.search(search{Query: "Issue", PageSize: 2, Projects: []string{"ana/b"}})
	c.expect("asked for alone", r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)

	c.signIn("ana/a")
	r, _ = c.search(search{Query: "Issue", PageSize: 2, Cursor: first.NextCursor})
	c.expect("a position of the wider grant", r, connector.StatusError, connector.CodeCursorInvalid, connector.DispositionNone)
	if asked := f.asked(); len(asked) != 0 {
		t.Errorf("asked %v", asked)
	}
}

// T22, T24: a list that does not say how much there is, or is none, is refused.
// Guarantee: NET8
func TestSearchOfOddLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a")
	c := connect(t, f)
	for name, send := range map[string]func(http.ResponseWriter){
		"no total":       func(w http.ResponseWriter) { w.Write([]byte(`[]`)) },
		"negative total": func(w http.ResponseWriter) { w.Header().Set("X-Total-Count", "-1"); w.Write([]byte(`[]`)) },
		"total in words": func(w http.ResponseWriter) { w.Header().Set("X-Total-Count", "many"); w.Write([]byte(`[]`)) },
		"null":           func(w http.ResponseWriter) { w.Header().Set("X-Total-Count", "0"); w.Write([]byte(`null`)) },
		"an object":      func(w http.ResponseWriter) { w.Header().Set("X-Total-Count", "0"); w.Write([]byte(`{"message":"x"}`)) },
	} {
		f.change(func() { f.before = func(w http.ResponseWriter, _ *http.Request) bool { send(w); return true } })
		r, _ := c.search(search{Query: "x", PageSize: 5})
		c.expect(name, r, connector.StatusError, connector.CodeProviderContract, connector.DispositionNone)
	}
	f.change(func() {
		f.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Total-Count", "40")
			w.Write([]byte(`[]`))
			return true
		}
	})
	r, _ := c.search(search{Query: "x", PageSize: 5})
	c.expect("T24 nothing of 40", r, connector.StatusPartial, 0, connector.DispositionNone)
	if !slices.Equal(missing(r), []string{"provider_inconsistent"}) {
		t.Errorf("missing %v", missing(r))
	}
}

// T35, T37: one issue has one id; a pull request, a neighbour and what is
// outside the grant are absent.
// Guarantee: TIX1, TIX3
func TestGet(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a", "ana/out")
	f.add("ana/a", func(i *issue) {
		i.Title, i.Body, i.Labels = "Printer", "Room 4.\r\nSmoke.\r\n\r\n---\r\nSeverity: high\r\nEvidence: [\"007\"]\r\nDrawbridge operation: op_x", []label{{100, "bug"}}
	})
	f.add("ana/a", func(i *issue) { i.PullRequest = &struct{}{} })
	f.add("ana/a", func(i *issue) { i.User, i.State = nil, "closed" })
	f.add("ana/out", nil)
	c := connect(t, f, "ana/a")

	r := c.call("tickets.get", map[string]string{"id": "ana/a#1"})
	c.expect("get", r, connector.StatusSuccess, 0, connector.DispositionNone)
	want := `{"id":"ana/a#1","project":"ana/a","title":"Printer","body":"Room 4.\nSmoke.","state":"open","status":"open","severity":"high","severity_as":"high",` +
		`"labels":["bug"],"evidence":["007"],"author":"ana","created_at":"2026-05-07T12:00:30Z","updated_at":"2026-05-07T12:00:30Z","version":"2026-05-07T12:00:30Z"}`
	if diff := cmp.Diff(want, string(r.Data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r = c.call("tickets.get", map[string]string{"id": "ana/a#3"})
	if !strings.Contains(string(r.Data), `"author":null`) || strings.Contains(string(r.Data), `"severity"`) {
		t.Errorf("an issue of nobody: %s", r.Data)
	}
	f.asked()
	absent := c.call("tickets.get", map[string]string{"id": "ana/a#4711"})
	for _, id := range []string{"ana/a#2", "ana/a#01", "ana/a#+1", "ana/a#0", "ana/a#-1", "ana/a#1.0", "ana/a# 1", "ana/a#", "ana/a", "#1", "ana/a#1#1", "ana/a#9223372036854775808",
		"ana/out#1", "Ana/a#1", "ana/a/../out#1", "nobody/nothing#1", "garbage"} {
		r := c.call("tickets.get", map[string]string{"id": id})
		c.expect(id, r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
		if diff := cmp.Diff(absent.Error, r.Error); diff != "" {
			t.Errorf("%s (-absent +this):\n%s", id, diff)
		}
	}
	for _, asked := range f.asked() {
		if !strings.HasPrefix(asked, "GET /api/v1/repos/ana/a/issues/2?") && !strings.HasPrefix(asked, "GET /api/v1/repos/ana/a/issues/4711?") {
			t.Errorf("asked %s", asked)
		}
	}
	f.change(func() {
		f.before = func(w http.ResponseWriter, _ *http.Request) bool {
			f.answer(w, 200, map[string]string{"message": "busy"})
			return true
		}
	})
	c.expect("T22 an error with 200", c.call("tickets.get", map[string]string{"id": "ana/a#1"}), connector.StatusError, connector.CodeProviderContract, connector.DispositionNone)
}
