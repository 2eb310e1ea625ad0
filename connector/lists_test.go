package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func page(h *harness, arguments string) connector.Result { return h.call("desk.search", arguments) }

// Guarantee: RUN4, CON4
// Case: D1
func TestDifferentAnswersAreDifferentResults(t *testing.T) {
	t.Parallel()
	one := []note{{"n1", "one"}}
	more := []connector.Missing{{What: "items", Reason: "more_pages"}}
	type seen struct {
		Status   connector.Status
		Complete bool
		Missing  []connector.Missing
		Next     bool
		Code     string
		Summary  string
		Items    string
	}
	total := func(n int) *int { return &n }
	for _, c := range []struct {
		name string
		page connector.Page[note]
		err  error
		want seen
	}{
		{"empty", connector.Page[note]{}, nil,
			seen{connector.StatusEmpty, true, nil, false, "", "nothing matched", `{"items":[]}`}},
		{"all filtered", connector.Page[note]{Fetched: 3}, nil,
			seen{connector.StatusEmpty, true, nil, false, "", "everything that matched was filtered out", `{"items":[]}`}},
		{"all excluded", connector.Page[note]{Fetched: 3, Missing: []connector.Missing{{What: "items", Reason: "excluded", Count: 3}}}, nil,
			seen{connector.StatusEmpty, false, []connector.Missing{{What: "items", Reason: "excluded", Count: 3}}, false, "",
				"everything that matched was filtered out", `{"items":[]}`}},
		{"all there", connector.Page[note]{Items: one, Total: total(1)}, nil,
			seen{connector.StatusSuccess, true, nil, false, "", "1 items, the last page", `{"items":[{"id":"n1","title":"one"}]}`}},
		{"first page", connector.Page[note]{Items: one, Next: "p2"}, nil,
			seen{connector.StatusSuccess, false, more, true, "", "1 items, and more behind next_cursor", `{"items":[{"id":"n1","title":"one"}]}`}},
		{"empty first page with more", connector.Page[note]{Next: "p2"}, nil,
			seen{connector.StatusSuccess, false, more, true, "", "0 items, and more behind next_cursor", `{"items":[]}`}},
		{"part of it timed out", connector.Page[note]{Items: one, Missing: []connector.Missing{{What: "project p2", Reason: "provider_timeout"}}}, nil,
			seen{connector.StatusPartial, false, []connector.Missing{{What: "project p2", Reason: "provider_timeout"}}, false, "",
				"1 items, the last page", `{"items":[{"id":"n1","title":"one"}]}`}},
		{"nothing, but part of it timed out", connector.Page[note]{Missing: []connector.Missing{{What: "project p2", Reason: "provider_timeout"}}}, nil,
			seen{connector.StatusPartial, false, []connector.Missing{{What: "project p2", Reason: "provider_timeout"}}, false, "",
				"0 items, the last page", `{"items":[]}`}},
		{"T24: fewer than the provider counts", connector.Page[note]{Items: one, Total: total(45)}, nil,
			seen{connector.StatusPartial, false, []connector.Missing{{What: "items", Reason: "provider_inconsistent", Count: 44}}, false, "",
				"1 items, the last page", `{"items":[{"id":"n1","title":"one"}]}`}},
		{"failed", connector.Page[note]{Items: one}, &connector.Error{Code: connector.CodeUnavailable},
			seen{connector.StatusError, false, nil, false, "UNAVAILABLE", "the provider could not be reached or is failing", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.search = func(context.Context, *connector.Access, searchIn, connector.Position) (connector.Page[note], error) {
				return c.page, c.err
			}
			r := page(h, `{"query":"x","page_size":5,"cursor":null}`)
			got := seen{r.Status, r.Coverage.Complete, r.Coverage.Missing, r.NextCursor != nil, code(r), r.Summary, string(r.Data)}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// walker answers with the pages of a script, by the provider's position.
func walker(h *harness, pages map[string]connector.Page[note]) *[]connector.Position {
	var asked []connector.Position
	h.toy.search = func(_ context.Context, _ *connector.Access, _ searchIn, p connector.Position) (connector.Page[note], error) {
		asked = append(asked, p)
		return pages[p.Cursor], nil
	}
	return &asked
}

func next(t *testing.T, r connector.Result) string {
	t.Helper()
	if r.NextCursor == nil {
		t.Fatalf("no next cursor: %s", text(t, r))
	}
	return *r.NextCursor
}

// Guarantee: RUN4, CUR1
func TestWalkHandsTheProvidersPositionBackAndEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	total := 3
	asked := walker(h, map[string]connector.Page[note]{
		"":          {Items: []note{{"n1", "a"}, {"n2", "b"}}, Next: "offset=2", Total: &total},
		"offset=2":  {Next: "offset=02", Fetched: 0, Total: &total},
		"offset=02": {Items: []note{{"n3", "c"}}, Total: &total},
	})
	r := page(h, `{"query":"x","page_size":2,"cursor":null}`)
	for range 2 {
		cursor := next(t, r)
		if leaks(text(t, r), "offset") {
			t.Errorf("the provider's position is in the result: %s", text(t, r))
		}
		r = page(h, fmt.Sprintf(`{"query":"x","page_size":2,"cursor":%q}`, cursor))
	}
	if r.Status != connector.StatusSuccess || !r.Coverage.Complete || r.NextCursor != nil {
		t.Errorf("last page = %s", text(t, r))
	}
	var cursors []string
	for _, p := range *asked {
		cursors = append(cursors, p.Cursor)
		if p.PageSize != 2 {
			t.Errorf("asked for %d items, want 2", p.PageSize)
		}
	}
	if diff := cmp.Diff([]string{"", "offset=2", "offset=02"}, cursors); diff != "" {
		t.Errorf("positions asked of the provider (-want +got):\n%s", diff)
	}
}

// Guarantee: RUN4
// Case: T24
func TestTotalIsComparedWithAllPagesOfTheWalk(t *testing.T) {
	t.Parallel()
	total := 45
	h := newHarness(t)
	walker(h, map[string]connector.Page[note]{
		"":   {Items: []note{{"1", ""}, {"2", ""}, {"3", ""}, {"4", ""}, {"5", ""}}, Next: "p2", Total: &total},
		"p2": {Items: []note{{"45", ""}}, Total: &total},
	})
	r := page(h, `{"query":"x","page_size":44,"cursor":null}`)
	r = page(h, fmt.Sprintf(`{"query":"x","page_size":44,"cursor":%q}`, next(t, r)))
	want := []connector.Missing{{What: "items", Reason: "provider_inconsistent", Count: 39}}
	if diff := cmp.Diff(want, r.Coverage.Missing); diff != "" || r.Status != connector.StatusPartial || r.Coverage.Complete {
		t.Errorf("status %s, missing (-want +got):\n%s", r.Status, diff)
	}
}

// Guarantee: RUN4
// Case: T26, D3
func TestPositionThatDoesNotMoveEndsTheWalk(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	walker(h, map[string]connector.Page[note]{
		"":    {Items: []note{{"1", ""}}, Next: "t=9"},
		"t=9": {Items: []note{{"1", ""}}, Next: "t=9"},
	})
	r := page(h, `{"query":"x","page_size":1,"cursor":null}`)
	r = page(h, fmt.Sprintf(`{"query":"x","page_size":1,"cursor":%q}`, next(t, r)))
	want := []connector.Missing{{What: "items", Reason: "cursor_stuck"}}
	if diff := cmp.Diff(want, r.Coverage.Missing); diff != "" || r.Status != connector.StatusPartial || r.NextCursor != nil {
		t.Errorf("status %s, next %v, missing (-want +got):\n%s", r.Status, r.NextCursor, diff)
	}
}

// Guarantee: CUR1, CUR3, RUN1
// Case: T27, D4
func TestCursorOpensOnlyForTheQuestionItAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, arguments string
		change          func(*connector.Connection)
		ok              bool
	}{
		{"same question", `{"query":"x","page_size":5,"cursor":%q}`, nil, true},
		{"same question, other order", `{"cursor":%q, "page_size":5, "query":"\u0078"}`, nil, true},
		{"other query", `{"query":"y","page_size":5,"cursor":%q}`, nil, false},
		{"one parameter more", `{"query":"x","projects":["p1"],"page_size":5,"cursor":%q}`, nil, false},
		{"other page size", `{"query":"x","page_size":6,"cursor":%q}`, nil, false},
		{"other connection", `{"query":"x","page_size":5,"cursor":%q}`, func(c *connector.Connection) { c.ID = "con-2" }, false},
		{"other tenant", `{"query":"x","page_size":5,"cursor":%q}`, func(c *connector.Connection) { c.Tenant = "other" }, false},
		{"other principal", `{"query":"x","page_size":5,"cursor":%q}`, func(c *connector.Connection) { c.Principal = "bob" }, false},
		{"narrower grant", `{"query":"x","page_size":5,"cursor":%q}`, func(c *connector.Connection) { c.Resources = []string{"p1"} }, false},
		{"other authorization", `{"query":"x","page_size":5,"cursor":%q}`, func(c *connector.Connection) { c.AuthzVersion++ }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			asked := walker(h, map[string]connector.Page[note]{"": {Items: []note{{"1", ""}}, Next: "p2"}})
			cursor := next(t, page(h, `{"query":"x","page_size":5,"cursor":null}`))
			if c.change != nil {
				h.changeConnection(c.change)
			}
			*asked = nil
			r := page(h, fmt.Sprintf(c.arguments, cursor))
			if c.ok {
				if r.Error != nil || len(*asked) != 1 {
					t.Errorf("result = %s, handler ran %d times", text(t, r), len(*asked))
				}
				return
			}
			if code(r) != "CURSOR_INVALID" || len(*asked) != 0 {
				t.Errorf("result = %s, handler ran %d times; want CURSOR_INVALID and 0", code(r), len(*asked))
			}
			if r.Error.Message != "the cursor is not valid for this call" || r.Error.Faults != nil {
				t.Errorf("the refusal hints why: %+v", r.Error)
			}
		})
	}
}

// Guarantee: CUR1
func TestPositionThatWasNotOursIsInvalid(t *testing.T) {
	t.Parallel()
	for _, position := range []string{``, `{}`, `{"c":""}`, `null`, `5`, `{"c":5}`} {
		h := newHarness(t)
		asked := walker(h, map[string]connector.Page[note]{"": {Next: "p2"}})
		cursor := next(t, page(h, `{"query":"x","page_size":5,"cursor":null}`))
		s := h.cursors.sealed[cursor]
		s.position = []byte(position)
		h.cursors.sealed[cursor] = s
		*asked = nil
		if r := page(h, fmt.Sprintf(`{"query":"x","page_size":5,"cursor":%q}`, cursor)); code(r) != "CURSOR_INVALID" || len(*asked) != 0 {
			t.Errorf("position %q: %s, handler ran %d times; want CURSOR_INVALID and 0", position, code(r), len(*asked))
		}
	}
}

// Guarantee: TIX2, TIX3
// Case: T43
func TestNarrowNeverLeavesTheGrant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked, want string
		code        string
	}{
		{`[]`, "p1 p2", ""},
		{`["p2"]`, "p2", ""},
		{`["p2","p1"]`, "p2 p1", ""},
		{`["p3"]`, "", "NOT_FOUND"},
		{`["p1","p3"]`, "", "NOT_FOUND"},
		{`["P1"]`, "", "NOT_FOUND"},
		{`["p1 "]`, "", "NOT_FOUND"},
		{`[""]`, "", "NOT_FOUND"},
	} {
		t.Run(c.asked, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			var got string
			h.toy.search = func(ctx context.Context, a *connector.Access, in searchIn, _ connector.Position) (connector.Page[note], error) {
				narrowed, err := a.Narrow(in.Projects)
				if err != nil {
					return connector.Page[note]{}, err
				}
				got = strings.Join(narrowed, " ")
				for i := range narrowed {
					narrowed[i] = "p9" // a copy: the grant stays as it is
				}
				if a.Allowed("p9") {
					t.Error("the handler widened its own grant")
				}
				_, err = a.Get(ctx, connector.Request{Path: "/notes/n1"})
				return connector.Page[note]{}, err
			}
			h.provider.seed("one")
			r := page(h, fmt.Sprintf(`{"query":"x","projects":%s,"page_size":5,"cursor":null}`, c.asked))
			if code(r) != c.code || got != c.want {
				t.Errorf("%s narrowed to %q, %s; want %q, %q", c.asked, got, code(r), c.want, c.code)
			}
			if n := h.seen()["transport.read"]; (n == 0) != (c.code != "") {
				t.Errorf("the provider was asked %d times", n)
			}
		})
	}
}

// Guarantee: CON4
func TestOutputThatBreaksItsSchemaIsNotPassedOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.edit = func(c *connector.Connector) {
		s := spec("desk.get", connector.EffectRead)
		s.Output = []byte(`{"type":"object","additionalProperties":false,"required":["id","title"],"properties":{"id":{"type":"string"},"title":{"type":"string","maxLength":3}}}`)
		c.Operations[0] = connector.Read(s, func(context.Context, *connector.Access, getIn) (note, error) {
			return note{"n1", "private words"}, nil
		})
	}
	r := h.call("desk.get", `{"id":"n1"}`)
	if code(r) != "PROVIDER_CONTRACT" || r.Data != nil || leaks(text(t, r), "private words") {
		t.Errorf("result = %s, want PROVIDER_CONTRACT and nothing passed on", text(t, r))
	}
}

// Guarantee: RUN10
func TestResultOverTheLimitIsRefusedWithAHint(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.config.MaxResultBytes = 20
	h.provider.seed(strings.Repeat("long", 20))
	r := h.call("desk.get", `{"id":"n1"}`)
	if code(r) != "TOO_LARGE" || r.Data != nil || r.Error.Next != connector.NextFixInput || r.Error.Message == "" {
		t.Errorf("result = %s, want TOO_LARGE with a hint and no data", text(t, r))
	}
}

// Guarantee: RUN4
func TestProvenanceSaysWhereDataCameFrom(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.provider.seed("one")
	h.toy.get = func(ctx context.Context, a *connector.Access, _ getIn) (note, error) {
		a.Version("n1", "7")
		n, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/n1", Query: map[string][]string{"token": {"s3cret"}}})
		return n, err
	}
	r := h.call("desk.get", `{"id":"n1"}`)
	p := *r.Provenance
	if p.FetchedAt.IsZero() {
		t.Error("fetched_at is missing")
	}
	p.FetchedAt = p.FetchedAt.Truncate(0)
	want := connector.Provenance{
		Connector: "desk", Version: "1.2.3", Provider: "notes", ProviderVersion: "v1", RequestID: "req-200",
		ObjectVersions: map[string]string{"n1": "7"}, Source: "/notes/n1", FetchedAt: p.FetchedAt,
		Limitations: []string{"notes are not versioned"},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("provenance (-want +got):\n%s", diff)
	}
	if len(r.Attempts) != 1 || leaks(text(t, r), "s3cret") {
		t.Errorf("attempts %v in %s", r.Attempts, text(t, r))
	}
}

// Guarantee: CON2, RUN1
func TestAccessOffersNoWriteVerb(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.get = func(ctx context.Context, a *connector.Access, in getIn) (note, error) {
		_, err := a.Get(ctx, connector.Request{Method: in.ID, Path: "/notes"})
		return note{"n1", "one"}, err
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "get", "GET\r\nX: y"} {
		if r := h.call("desk.get", string(must(json.Marshal(map[string]string{"id": method})))); code(r) != "INTERNAL" {
			t.Errorf("%q through Access = %s, want INTERNAL", method, code(r))
		}
	}
	if n := h.seen()["transport.read"] + h.seen()["transport.write"]; n != 0 {
		t.Errorf("%d requests left, want 0", n)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
