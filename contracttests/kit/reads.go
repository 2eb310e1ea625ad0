package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// readChecks: what was found, what was not, and what nobody knows must be three
// different answers.
var readChecks = []check{
	{"D0", "TIX1", "A list returns each object once, in pages no larger than asked for, and says when it was all.", "", []string{"A1"}, listWalks},
	{"R0", "RUN4", "One object is read by its id, with its text and where it comes from.", "", []string{"A1"}, readsOne},
	{"A5", "CON4", "Whatever the provider stores, the output keeps its own schema.", "", []string{"R0"}, outputFits},
	{"D5", "RUN4", "Nothing found is empty: neither a failure nor a partial answer.", "", []string{"D0"}, emptyIsEmpty},
	{"D1", "RUN4", "A provider that fails is a failure: never an empty list.", "", []string{"D0"}, failureIsNotEmpty},
	{"D2", "RUN4", "When a later page fails, the answer doesn't pass for complete.", "", []string{"D0"}, laterPageFails},
	{"D3", "RUN4", "A provider whose next page is always the same is not walked for ever, and the answer says that it is not all.", "", []string{"D0"}, stuckPageStops},
	{"D4", "CUR1", "A cursor opens for the caller, query and page size that it was made for, and for nothing else.", "", []string{"D0"}, cursorIsBound},
	{"D6", "CON4", "An answer without what it must have is the provider's breach: never data, never empty.", "", []string{"D0"}, missingFields},
	{"D9", "CON4", "A field that the provider added is passed over.", "", []string{"D0"}, addedFields},
}

// D0, R0 and D5 keep the basics apart from the faults.
func listWalks(t *trial) {
	t.uses(t.subject.List, "list")
	want := map[string]bool{}
	for i := range 5 {
		want[t.seed(0, fmt.Sprintf("%s number %d", t.marker, i), "one of five")] = true
	}
	pages, all := t.owner().walk(t.marker, 2)
	for i, p := range pages {
		if p.Error != nil || p.Status == connector.StatusEmpty {
			t.fatalf("page %d answered %s", i+1, says(p))
		}
		if n := len(items(p)); n > 2 {
			t.errorf("page %d has %d items, 2 were asked for", i+1, n)
		}
	}
	if len(all) != 5 {
		t.errorf("%d items came, 5 are there", len(all))
	}
	seen := map[string]bool{}
	for _, item := range all {
		if seen[string(item)] {
			t.errorf("an item came twice")
		}
		seen[string(item)] = true
	}
	if last := pages[len(pages)-1]; last.Status != connector.StatusSuccess || !last.Coverage.Complete || last.NextCursor != nil {
		t.errorf("the last page is %s", says(last))
	}
}

// uses ends a trial of an operation that the connector does not have.
func (t *trial) uses(u Use, what string) {
	if u.Tool == "" {
		t.notClaimed("the connector has no %s operation", what)
	}
}

func readsOne(t *trial) {
	t.uses(t.subject.Read, "read")
	id := t.seed(0, t.marker+" to be read", "with a body")
	r := t.owner().read(id)
	if !looked(r) || !strings.Contains(string(r.Data), t.marker) {
		t.fatalf("reading %s", says(r))
	}
	if p := r.Provenance; p == nil || p.Connector == "" || p.Version == "" || p.FetchedAt.IsZero() {
		t.errorf("the result does not say where it comes from")
	}
}

// odd are objects that a provider may well store.
func odd(marker string) []Object {
	return []Object{
		{Title: marker + " " + strings.Repeat("long ", 36), Body: strings.Repeat("0123456789", 2000)},
		{Title: marker + " without a body", Body: ""},
		{Title: marker + " ümläut 漢字 🧺 \u00e9", Body: "line\r\nline\n\n\ttab"},
	}
}

func outputFits(t *trial) {
	a := t.owner()
	for _, o := range odd(t.marker) {
		id := t.seed(0, o.Title, o.Body)
		if r := a.read(id); code(r) == connector.CodeProviderContract {
			t.errorf("an object with %d characters of title and %d of body is refused: %s", len(o.Title), len(o.Body), r.Error.Message)
		}
	}
	if t.subject.List.Tool == "" {
		return
	}
	if r := a.list(t.marker, 10, nil); code(r) == connector.CodeProviderContract {
		t.errorf("a list with the same objects is refused: %s", r.Error.Message)
	}
}

func emptyIsEmpty(t *trial) {
	if r := t.owner().list("nothing"+t.marker, 10, nil); r.Status != connector.StatusEmpty || !r.Coverage.Complete {
		t.errorf("a list of nothing answered %s", says(r))
	}
}

// fails is what a read must answer when the provider can't be understood.
func (t *trial) fails(what string, r connector.Result) {
	if r.Status != connector.StatusError || len(r.Data) > 0 {
		t.errorf("%s: answered %s", what, says(r))
	}
}

func failureIsNotEmpty(t *trial) {
	t.seed(0, t.marker, "there")
	a := t.owner()
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusForbidden} {
		t.house.proxy.Clear()
		t.onReads(fault.Rule{Action: fault.Answer, Status: status, Times: fault.Forever, Body: []byte(`{"error":"fault"}`)})
		t.fails(fmt.Sprintf("the provider answers %d", status), a.list(t.marker, 10, nil))
	}
}

// laterPageFails breaks the nth request of a walk, whoever makes it: a page of
// ours can be several of the provider's.
func laterPageFails(t *trial) {
	for i := range 5 {
		t.seed(0, fmt.Sprintf("%s number %d", t.marker, i), "one of five")
	}
	a := t.owner()
	before := t.asked()
	_, all := a.walk(t.marker, 2)
	requests := t.asked() - before
	if requests < 2 {
		t.notClaimed("one request fetches all pages")
	}
	for n := 1; n < requests; n++ {
		t.house.proxy.Clear()
		t.onReads(fault.Rule{Skip: n, Action: fault.Answer, Status: http.StatusInternalServerError, Times: fault.Forever})
		pages, got := a.walk(t.marker, 2)
		if last := pages[len(pages)-1]; last.Error == nil && last.Coverage.Complete && len(got) < len(all) {
			t.errorf("request %d failed, %d of %d items came, and the answer is %s", n+1, len(got), len(all), says(last))
		}
	}
}

func stuckPageStops(t *trial) {
	for i := range 5 {
		t.seed(0, fmt.Sprintf("%s number %d", t.marker, i), "one of five")
	}
	a := t.owner()
	t.replay(t.recorded(func() { a.list(t.marker, 2, nil) }), walkLimit)
	pages, _ := a.walk(t.marker, 2)
	last := pages[len(pages)-1]
	if last.NextCursor != nil {
		t.errorf("after %d pages there is still a next one", len(pages))
	}
	if last.Error == nil && last.Coverage.Complete {
		t.errorf("the walk ends as %s", says(last))
	}
}

func cursorIsBound(t *trial) {
	for i := range 3 {
		t.seed(0, fmt.Sprintf("%s number %d", t.marker, i), "one of three")
	}
	a, other := t.owner(), t.connect("other", Owner, Wish{})
	r := a.list(t.marker, 2, nil)
	if r.NextCursor == nil {
		t.fatalf("the first page answered %s, without a cursor", says(r))
	}
	flipped := []byte(*r.NextCursor)
	middle := len(flipped) / 2
	if flipped[middle]++; flipped[middle] > 'z' {
		flipped[middle] = 'a'
	}
	bent := string(flipped)
	refused := func(what string, r connector.Result) {
		if code(r) != connector.CodeCursorInvalid || len(r.Data) > 0 {
			t.errorf("%s: answered %s", what, says(r))
		}
	}
	before := t.asked()
	refused("another principal", other.list(t.marker, 2, r.NextCursor))
	refused("another query", a.list(t.marker+" number", 2, r.NextCursor))
	refused("another page size", a.list(t.marker, 3, r.NextCursor))
	refused("one character changed", a.list(t.marker, 2, &bent))
	if n := t.asked() - before; n != 0 {
		t.errorf("the provider was asked %d times", n)
	}
	if again := a.list(t.marker, 2, r.NextCursor); again.Error != nil {
		t.errorf("its own caller: answered %s", says(again))
	}
}

func missingFields(t *trial) {
	t.seed(0, t.marker, "there")
	a := t.owner()
	for _, body := range []string{`{}`, `{"message":"moved"}`} {
		t.house.proxy.Clear()
		t.onReads(fault.Rule{Action: fault.Replace, Status: http.StatusOK, Body: []byte(body), Times: fault.Forever})
		t.fails("the provider answers "+body, a.list(t.marker, 10, nil))
	}
}

func addedFields(t *trial) {
	t.seed(0, t.marker, "there")
	a := t.owner()
	answers := t.recorded(func() { a.list(t.marker, 10, nil) })
	for i, answer := range answers {
		var document any
		decoder := json.NewDecoder(bytes.NewReader(answer.Body))
		decoder.UseNumber() // ids may be larger than a float
		t.must(decoder.Decode(&document))
		answers[i].Body = jsonOf(added(document))
	}
	t.replay(answers, 1)
	if r := a.list(t.marker, 10, nil); !looked(r) {
		t.errorf("answered %s", says(r))
	}
}

// added puts a new field into every object of a document.
func added(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = added(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = added(v[k])
		}
		v["x_added_by_provider"] = map[string]any{"since": 1}
	}
	return v
}
