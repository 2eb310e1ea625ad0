package tickets_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// questions are the list requests that the provider saw.
func (d *desk) questions() (out []url.Values) {
	for _, r := range d.org.Requests() {
		if r.Route == "GET /api/v1/tickets" {
			q, err := url.ParseQuery(r.Query)
			if err != nil {
				d.t.Errorf("query %q: %v", r.Query, err)
			}
			out = append(out, q)
		}
	}
	return out
}

// T33: every filter is on the wire, whatever the provider's defaults are, the
// projects are the grant's, and text is text.
// Guarantee: TIX1, TIX2
func TestT33EveryFilterIsSent(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	for _, c := range []struct {
		q    search
		want url.Values
	}{
		{search{Query: "a"}, url.Values{"q": {"a"}, "state": {"open"}, "project": {"orders", "web"}, "limit": {"50"}}},
		{search{Query: "a", State: "all", PageSize: 1}, url.Values{"q": {"a"}, "state": {"all"}, "project": {"orders", "web"}, "limit": {"1"}}},
		{search{Query: "a", State: "closed", Projects: []string{"web"}}, url.Values{"q": {"a"}, "state": {"closed"}, "project": {"web"}, "limit": {"50"}}},
		{search{Query: "state:closed project:secret &project=secret#qlang=1"}, url.Values{
			"q": {"state:closed project:secret &project=secret#qlang=1"}, "state": {"open"}, "project": {"orders", "web"}, "limit": {"50"}}},
	} {
		c.want["type"], c.want["archived"] = []string{"ticket"}, []string{"exclude"}
		before := len(alice.questions())
		alice.search(c.q)
		asked := alice.questions()[before:]
		if len(asked) != 1 {
			t.Fatalf("%+v: %d requests", c.q, len(asked))
		}
		if diff := cmp.Diff(c.want, asked[0]); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.q, diff)
		}
	}
	asked := alice.asked()
	for _, outside := range [][]string{{"secret"}, {"web", "secret"}, {"nowhere"}, {"Web"}, {"ops"}} {
		r, _ := alice.search(search{Query: "a", Projects: outside})
		alice.expect("projects "+strings.Join(outside, ","), r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	}
	if alice.asked() != asked {
		t.Error("a project outside the grant was asked for")
	}
}

// T33: closed, archived and what is no ticket are where the question says.
// Guarantee: TIX1
func TestT33HiddenDefaults(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	all := map[string]bool{}
	want := map[string]bool{}
	for _, x := range alice.org.Tickets() {
		if x.Type == "ticket" && !x.Archived && (x.Project.ID == "orders" || x.Project.ID == "web") {
			want[x.ID] = true
		}
	}
	for _, state := range []string{"open", "closed"} {
		for q, cursor := (search{Query: " ", State: state, PageSize: 7}), true; cursor; {
			r, found := alice.search(q)
			for _, x := range found {
				if x.State != state || all[x.ID] {
					t.Errorf("%s is %s, seen before: %v", x.ID, x.State, all[x.ID])
				}
				all[x.ID] = true
			}
			q.Cursor, cursor = r.NextCursor, r.NextCursor != nil
		}
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("tickets (-at the provider +found):\n%s", diff)
	}
	if r, _ := alice.get("CR-12"); code(r) != connector.CodeNotFound {
		t.Errorf("a change request: %s %v", r.Status, code(r))
	}
	r, archived := alice.get("WEB-3")
	if v, ok := archived.Archived.Get(); !v || !ok {
		t.Errorf("an archived ticket by id: %s, archived %v %v", r.Status, v, ok)
	}
}

const changeRequest = `{"id":"CR-12","type":"change_request","project":{"id":"orders"},"title":"x","body":"","state":"open","status":"x","severity":"low",
	"labels":[],"evidence":[],"author":{"login":"bob"},"created_at":"2025-03-03T08:15:00Z","updated_at":"2025-03-03T08:15:00Z","version":1}`

func like(from string, replace ...string) string {
	return strings.NewReplacer(append([]string{`"change_request"`, `"ticket"`}, replace...)...).Replace(from)
}

// T33, T24: a page of things that are no tickets goes on and is not the end;
// what was dropped counts as seen.
// Guarantee: RUN4
func TestT33PageOfNonTicketsGoesOn(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	first, second := onList, onList
	first.Nth, second.Nth = []int{1}, []int{2}
	alice.misbehave(
		answers(first, 200, `{"items":[`+changeRequest+`,`+changeRequest+`],"next_cursor":"p2","total":3}`),
		answers(second, 200, `{"items":[`+like(changeRequest, "CR-12", "007")+`],"next_cursor":null,"total":3}`))
	r, found := alice.search(search{Query: "x", PageSize: 2})
	alice.expect("a page of change requests", r, connector.StatusSuccess, 0, connector.DispositionNone)
	if len(found) != 0 || r.NextCursor == nil || r.Coverage.Complete {
		t.Fatalf("found %v, next %v, coverage %+v", ids(found), r.NextCursor, r.Coverage)
	}
	r, found = alice.search(search{Query: "x", PageSize: 2, Cursor: r.NextCursor})
	alice.expect("the last page", r, connector.StatusSuccess, 0, connector.DispositionNone)
	if diff := cmp.Diff([]string{"007"}, ids(found)); diff != "" || r.NextCursor != nil || !r.Coverage.Complete {
		t.Errorf("next %v, coverage %+v (-want +got):\n%s", r.NextCursor, r.Coverage, diff)
	}
	if q := alice.questions(); q[len(q)-1].Get("cursor") != "p2" {
		t.Errorf("the position went out as %q", q[len(q)-1].Get("cursor"))
	}
}

// Nothing matched, all filtered out, first page only and failed are four
// different results.
// Guarantee: RUN4, TIX2
func TestFourKindsOfNothing(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	r, _ := alice.search(search{Query: "no ticket says this"})
	alice.expect("nothing matched", r, connector.StatusEmpty, 0, connector.DispositionNone)
	nothing := r.Summary
	if !r.Coverage.Complete || string(r.Data) != `{"items":[]}` {
		t.Errorf("nothing matched: %+v %s", r.Coverage, r.Data)
	}

	foreign := like(changeRequest, `"orders"`, `"secret"`)
	alice.misbehave(answers(onList, 200, `{"items":[`+foreign+`],"next_cursor":null,"total":1}`))
	r, _ = alice.search(search{Query: "x"})
	alice.expect("all filtered out", r, connector.StatusEmpty, 0, connector.DispositionNone)
	if diff := cmp.Diff([]connector.Missing{{What: "items", Reason: "outside_grant"}}, r.Coverage.Missing); diff != "" || r.Coverage.Complete || r.Summary == nothing {
		t.Errorf("all filtered out: %q (-want +got):\n%s", r.Summary, diff)
	}

	// T11: a filter that the provider dropped brings everything; only what was
	// asked for comes through.
	alice.misbehave(answers(onList, 200, `{"items":[`+foreign+`,`+like(changeRequest, `"CR-12"`, `"7"`, `"open"`, `"closed"`)+`,`+
		like(changeRequest, `"CR-12"`, `"007"`)+`],"next_cursor":null,"total":3}`))
	r, found := alice.search(search{Query: "x", Projects: []string{"orders"}})
	if diff := cmp.Diff([]string{"007"}, ids(found)); diff != "" || r.Provenance.ObjectVersions["7"] != "" {
		t.Errorf("a dropped filter (-want +got):\n%s", diff)
	}

	alice.misbehave()
	r, found = alice.search(search{Query: "e", PageSize: 2})
	alice.expect("first page", r, connector.StatusSuccess, 0, connector.DispositionNone)
	if len(found) != 2 || r.NextCursor == nil || r.Coverage.Complete {
		t.Errorf("first page: %d items, next %v, %+v", len(found), r.NextCursor, r.Coverage)
	}

	alice.misbehave(answers(onList, 400, ""))
	r, _ = alice.search(search{Query: "e"})
	alice.expect("failed", r, connector.StatusError, connector.CodeInvalidInput, connector.DispositionNone)
}

// T24, T29: the end that the provider claims is compared with its own total.
// Guarantee: RUN4
func TestT24EndBeforeTheTotalIsPartial(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	alice.switches(sandbox.Switches{NoNextCursor: true})
	r, found := alice.search(search{Query: "e", State: "all", PageSize: 5})
	alice.expect("no next page", r, connector.StatusPartial, 0, connector.DispositionNone)
	if len(found) != 5 || len(r.Coverage.Missing) != 1 || r.Coverage.Missing[0].Reason != "provider_inconsistent" || r.Coverage.Missing[0].Count < 1 {
		t.Errorf("%d items, %+v", len(found), r.Coverage)
	}

	// T26: a position that leads to itself ends the walk and is no success.
	alice.switches(sandbox.Switches{ConstantCursor: "round"})
	r, _ = alice.search(search{Query: "e", PageSize: 5})
	if r.NextCursor == nil {
		t.Fatal("no first position")
	}
	r, _ = alice.search(search{Query: "e", PageSize: 5, Cursor: r.NextCursor})
	alice.expect("stuck", r, connector.StatusPartial, 0, connector.DispositionNone)
	if r.NextCursor != nil || !slices.ContainsFunc(r.Coverage.Missing, func(m connector.Missing) bool { return m.Reason == "cursor_stuck" }) {
		t.Errorf("next %v, %+v", r.NextCursor, r.Coverage)
	}

	// T19: a position that looks like an address is a position.
	alice.misbehave(answers(onList, 200, `{"items":[],"next_cursor":"https://evil.test/api?x","total":9}`))
	r, _ = alice.search(search{Query: "e", PageSize: 5})
	alice.misbehave()
	r, _ = alice.search(search{Query: "e", PageSize: 5, Cursor: r.NextCursor})
	alice.expect("a foreign position", r, connector.StatusError, connector.CodeInvalidInput, connector.DispositionNone)
	if q := alice.questions(); q[len(q)-1].Get("cursor") != "https://evil.test/api?x" {
		t.Errorf("asked %v", q[len(q)-1])
	}
}

// T27: a position opens for the question it came from and for nobody else, and
// nothing is asked of the provider before that is known.
// Guarantee: TIX2
func TestT27PositionOfAnotherQuestion(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice, bob := d.connect("alice"), d.connect("bob")
	q := search{Query: "e", State: "open", Projects: []string{"web"}, PageSize: 2}
	r, _ := alice.search(q)
	if r.NextCursor == nil {
		t.Fatal("no position")
	}
	asked := d.asked()
	flipped := []byte(*r.NextCursor)
	flipped[len(flipped)/2] ^= 1
	for name, use := range map[string]func() connector.Result{
		"state": func() connector.Result {
			q := q
			q.State = "all"
			q.Cursor = r.NextCursor
			r, _ := alice.search(q)
			return r
		},
		"text": func() connector.Result {
			q := q
			q.Query = "E"
			q.Cursor = r.NextCursor
			r, _ := alice.search(q)
			return r
		},
		"projects": func() connector.Result {
			q := q
			q.Projects = nil
			q.Cursor = r.NextCursor
			r, _ := alice.search(q)
			return r
		},
		"page size": func() connector.Result {
			q := q
			q.PageSize = 3
			q.Cursor = r.NextCursor
			r, _ := alice.search(q)
			return r
		},
		"principal": func() connector.Result { q := q; q.Cursor = r.NextCursor; r, _ := bob.search(q); return r },
		"one bit":   func() connector.Result { q := q; q.Cursor = ptr(string(flipped)); r, _ := alice.search(q); return r },
		"made up":   func() connector.Result { q := q; q.Cursor = ptr("eyJjIjoiMCJ9"); r, _ := alice.search(q); return r },
	} {
		alice.expect(name, use(), connector.StatusError, connector.CodeCursorInvalid, connector.DispositionNone)
	}
	if d.asked() != asked {
		t.Error("the provider was asked")
	}
	q.Cursor = r.NextCursor
	r, _ = alice.search(q)
	alice.expect("the right question", r, connector.StatusSuccess, 0, connector.DispositionNone)
}

// T37: ids are opaque and come back as they are; text over the cap says so.
// Guarantee: TIX1
func TestT37IdsAreOpaqueAndTextIsCapped(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	for _, id := range []string{"007", "7", "9007199254740993", "9007199254740992", "WEB-1"} {
		r, got := alice.get(id)
		if got.ID != id || r.Provenance.ObjectVersions[id] == "" {
			t.Errorf("%s came back as %q", id, got.ID)
		}
	}
	if _, found := alice.search(search{Query: "large id"}); len(found) != 1 || found[0].ID != "9007199254740992" {
		t.Errorf("found %v", ids(found))
	}
	asked := alice.asked()
	for _, id := range []string{"..", ".", "a/b", `a\b`, "%2e%2e", "../me", "/api/v1/me"} {
		r, _ := alice.get(id)
		alice.expect(id, r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	}
	if alice.asked() != asked {
		t.Error("an id that is a path was asked for")
	}
	for _, id := range []string{"web-1", "Web-1", "0007", "7.0", "9.007199254740993e15", "+7", " 7", "7 ", "7?x=1", "7#a", "CR-12"} {
		r, _ := alice.get(id)
		alice.expect(id, r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	}
	planted, err := alice.org.AddTicket(sandbox.Seed{Project: ptr("web"), ID: ptr("Ω & ?#ö"), Title: ptr(strings.Repeat("€", 1000)), Body: ptr(strings.Repeat("€", 1<<18))})
	if err != nil {
		t.Fatal(err)
	}
	r, got := alice.get(planted.ID)
	if whole, _ := alice.get("WEB-1"); whole.Truncated || !r.Truncated {
		t.Errorf("a whole ticket is called cut: %v; a cut one: %v", whole.Truncated, r.Truncated)
	}
	if got.ID != planted.ID || len(got.Title) > 1000 || !got.TitleTruncated || len(got.Body) > 64<<10 || !got.Truncated || !strings.HasSuffix(got.Body, "€") {
		t.Errorf("id %q, title %d bytes %v, body %d bytes %v", got.ID, len(got.Title), got.TitleTruncated, len(got.Body), got.Truncated)
	}

	// Text that is no text is refused whole, never repaired in silence.
	for _, title := range []string{`"\ud800"`, "\"\xff\"", `9`} {
		alice.misbehave(answers(onGet, 200, like(changeRequest, `"CR-12"`, `"007"`, `"title":"x"`, `"title":`+title)))
		r, _ := alice.get("007")
		alice.expect("title "+title, r, connector.StatusError, connector.CodeProviderContract, connector.DispositionNone)
	}
	alice.misbehave(answers(onGet, 200, like(changeRequest, `"CR-12"`, `9007199254740993`)))
	if r, _ := alice.get("9007199254740993"); code(r) != connector.CodeProviderContract {
		t.Errorf("an id as a number: %s %v", r.Status, code(r))
	}
	alice.misbehave(answers(onGet, 200, like(changeRequest, `"CR-12"`, `"007"`, `"severity":"low"`, `"severity":null`)))
	_, got = alice.get("007")
	if _, has := got.Severity.Get(); has || got.Severity.IsZero() {
		t.Errorf("a severity of null became %+v", got.Severity)
	}
}
