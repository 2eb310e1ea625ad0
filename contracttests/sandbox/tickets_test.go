package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type listing struct {
	Items []Ticket `json:"items"`
	Next  *string  `json:"next_cursor"`
	Total int      `json:"total"`
}

func (b *bench) list(token, query string) listing {
	b.t.Helper()
	r := b.call("GET", "/api/v1/tickets?"+query, token, nil)
	if r.Status != 200 {
		b.t.Fatalf("list %s: %d %s", query, r.Status, r.Body)
	}
	var out listing
	r.into(b.t, &out)
	return out
}

// Guarantee: TST2
func TestAccessListMatrix(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	sees := map[string][]string{"alice": {"orders", "web"}, "bob": {"orders", "web", "secret"}, "guest": {"web"}, "carol": {"ops"}}
	sample := map[string]string{"orders": "007", "web": "WEB-1", "secret": "SEC-1", "ops": "0042"}
	for login, allowed := range sees {
		token := b.as(login).Access
		found := map[string]bool{}
		for _, item := range b.list(token, "state=all&archived=include&limit=100").Items {
			found[item.Project.ID] = true
		}
		for project, id := range sample {
			want := slices.Contains(allowed, project)
			if found[project] != want {
				t.Errorf("%s lists %s: %v, want %v", login, project, found[project], want)
			}
			if n := len(b.list(token, "state=all&project="+project).Items); (n > 0) != want {
				t.Errorf("%s asks for %s: %d items", login, project, n)
			}
			if n := len(b.list(token, "qlang=1&q=project:"+project).Items); (n > 0) != want {
				t.Errorf("%s asks for %s by language: %d items", login, project, n)
			}
			hidden, absent := b.call("GET", "/api/v1/tickets/"+id, token, nil), b.call("GET", "/api/v1/tickets/none", token, nil)
			if (hidden.Status == 200) != want {
				t.Errorf("%s reads %s: %d", login, id, hidden.Status)
			}
			if !want {
				for _, h := range []string{"X-Request-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Date"} {
					hidden.Header.Del(h)
					absent.Header.Del(h)
				}
				if diff := cmp.Diff(absent, hidden); diff != "" {
					t.Errorf("hidden differs from absent:\n%s", diff)
				}
			}
			r := b.call("POST", "/api/v1/tickets", token, map[string]string{"project": project, "title": "by " + login})
			wantStatus := 404
			if want {
				wantStatus = 201
			}
			if login == "guest" && want {
				wantStatus = 403
			}
			if r.Status != wantStatus {
				t.Errorf("%s creates in %s: %d, want %d", login, project, r.Status, wantStatus)
			}
		}
	}
	token := b.as("alice").Access
	if err := b.SetAccess("alice", "secret", RoleReader); err != nil {
		t.Fatal(err)
	}
	if r := b.call("GET", "/api/v1/tickets/SEC-1", token, nil); r.Status != 200 {
		t.Errorf("after the access list changed: %d", r.Status)
	}
	if err := b.SetAccess("alice", "orders", RoleNone); err != nil {
		t.Fatal(err)
	}
	if r := b.call("GET", "/api/v1/tickets/007", token, nil); r.Status != 404 {
		t.Errorf("after access was taken away: %d", r.Status)
	}
	if err := b.SetAccess("alice", "ops", RoleReader); err == nil {
		t.Error("access across organisations")
	}
}

func TestListFiltersAndHiddenDefaults(t *testing.T) { // T33
	t.Parallel()
	b := start(t, Config{})
	token := b.as("bob").Access
	all := b.list(token, "state=all&archived=include&limit=100")
	if all.Total != len(all.Items) || all.Next != nil {
		t.Fatalf("total %d of %d items", all.Total, len(all.Items))
	}
	count := func(keep func(Ticket) bool) int {
		n := 0
		for _, i := range all.Items {
			if keep(i) {
				n++
			}
		}
		return n
	}
	for query, keep := range map[string]func(Ticket) bool{
		"":                                     func(i Ticket) bool { return i.State == "open" && !i.Archived },
		"state=closed":                         func(i Ticket) bool { return i.State == "closed" && !i.Archived },
		"state=all&archived=only":              func(i Ticket) bool { return i.Archived },
		"state=all&type=ticket":                func(i Ticket) bool { return i.Type == "ticket" && !i.Archived },
		"q=ORDER&state=all":                    func(i Ticket) bool { return !i.Archived && strings.Contains(strings.ToLower(i.Title+i.Body), "order") },
		"project=web&project=secret&state=all": func(i Ticket) bool { return i.Project.ID != "orders" && !i.Archived },
		"project=nowhere":                      func(Ticket) bool { return false },
		"q=state:closed":                       func(i Ticket) bool { return i.ID == "WEB-2" },
		"q=state:closed&qlang=1":               func(i Ticket) bool { return i.State == "closed" && !i.Archived },
		"q=project:secret&qlang=1&project=web": func(i Ticket) bool { return i.Project.ID == "secret" && i.State == "open" && !i.Archived },
		"q=label:p1+severity:critical&qlang=1": func(i Ticket) bool {
			return slices.Contains(i.Labels, "p1") && i.Severity == "critical" && i.State == "open" && !i.Archived
		},
		"updated_since=2025-04-02T08:15:00.123Z&state=all": func(i Ticket) bool { return i.UpdatedAt.Year() == 2025 && i.UpdatedAt.Month() >= 4 && !i.Archived },
	} {
		got := b.list(token, query+"&limit=100")
		if want := count(keep); got.Total != want || len(got.Items) != want {
			t.Errorf("%q: total %d, %d items, want %d", query, got.Total, len(got.Items), want)
		}
	}
	for query, want := range map[string]string{"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "state=weird": "state", "type=x": "type", "archived=x": "archived", "updated_since=today": "updated_since"} {
		r := b.call("GET", "/api/v1/tickets?"+query, token, nil)
		if r.Status != 400 || !strings.Contains(string(r.Body), `"`+want+`"`) {
			t.Errorf("%s: %d %s", query, r.Status, r.Body)
		}
	}
	if r := b.call("GET", "/api/v1/tickets?cursor=zzz", token, nil); r.Status != 400 || !strings.Contains(string(r.Body), "invalid_cursor") {
		t.Errorf("bad cursor: %d %s", r.Status, r.Body)
	}
	if len(b.list(token, "").Items) != min(30, b.list(token, "").Total) {
		t.Error("the default page is not 30")
	}
}

// Whatever is inserted or changed between two pages, what was there at the first
// page is returned once.
func TestPagingReturnsEverythingOnce(t *testing.T) { // T26
	b := start(t, Config{Tickets: 25})
	token := b.as("bob").Access
	b.client = &http.Client{Transport: direct{b.Handler()}} // hundreds of requests; the socket adds nothing here
	rapid.Check(t, func(t *rapid.T) {
		b.world.reset()
		limit := rapid.IntRange(2, 20).Draw(t, "limit")
		before := map[string]bool{}
		for _, i := range b.list(token, "state=all&archived=include&limit=100").Items {
			before[i.ID] = true
		}
		seen := map[string]int{}
		cursor, pages := "", 0
		for {
			page := b.list(token, fmt.Sprintf("state=all&archived=include&limit=%d&cursor=%s", limit, url.QueryEscape(cursor)))
			pages++
			for _, i := range page.Items {
				seen[i.ID]++
			}
			if page.Next == nil {
				break
			}
			if len(page.Items) != limit {
				t.Fatalf("a page of %d with a next one, limit %d", len(page.Items), limit)
			}
			cursor = *page.Next
			for range rapid.IntRange(0, 3).Draw(t, "inserts") {
				project := rapid.SampledFrom([]string{"orders", "web", "secret", "ops"}).Draw(t, "project")
				in := Seed{Project: &project}
				if rapid.Bool().Draw(t, "backdated") {
					at := page.Items[len(page.Items)-1].CreatedAt // right at the position
					in.CreatedAt = &at
				}
				if _, err := b.AddTicket(in); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.Bool().Draw(t, "change") {
				title := "changed"
				if _, err := b.ChangeTicket(page.Items[0].ID, Seed{Title: &title}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for id := range before {
			if seen[id] != 1 {
				t.Fatalf("%s returned %d times in %d pages", id, seen[id], pages)
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Fatalf("%s returned %d times", id, n)
			}
		}
	})
}

func TestConditionalGet(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	first := b.call("GET", "/api/v1/tickets/9007199254740993", token, nil)
	if !bytes.Contains(first.Body, []byte(`"id":"9007199254740993"`)) {
		t.Errorf("body %s", first.Body)
	}
	tag := first.Header.Get("Etag")
	if r := b.call("GET", "/api/v1/tickets/9007199254740993", token, nil, "If-None-Match", `"x", W/`+tag); r.Status != 304 || len(r.Body) != 0 {
		t.Errorf("same version: %d", r.Status)
	}
	title := "New title"
	if _, err := b.ChangeTicket("9007199254740993", Seed{Title: &title}); err != nil {
		t.Fatal(err)
	}
	if r := b.call("GET", "/api/v1/tickets/9007199254740993", token, nil, "If-None-Match", tag); r.Status != 200 || r.Header.Get("Etag") == tag {
		t.Errorf("new version: %d %s", r.Status, r.Header.Get("Etag"))
	}
	if r := b.call("GET", "/api/v1/tickets/0042", token, nil, "If-None-Match", `"0042.1"`); r.Status != 404 {
		t.Errorf("hidden ticket by tag: %d, want 404", r.Status)
	}
}

// Guarantee: TST2
func TestIdempotencyKey(t *testing.T) { // T09
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	body := map[string]any{"project": "orders", "title": "Printer on fire", "labels": []string{"bug"}, "external_ref": "op-1", "evidence": []string{"run-1/log-2"}}
	first := b.call("POST", "/api/v1/tickets", token, body, "Idempotency-Key", "k1")
	again := b.call("POST", "/api/v1/tickets", token, body, "Idempotency-Key", "k1")
	if first.Status != 201 || again.Status != 201 || !bytes.Equal(first.Body, again.Body) || first.Header.Get("Location") != again.Header.Get("Location") {
		t.Errorf("replay differs: %d %s / %d %s", first.Status, first.Body, again.Status, again.Body)
	}
	if first.Header.Get("Idempotency-Replayed") != "" || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("Idempotency-Replayed is on the wrong answer")
	}
	body["title"] = "Printer still on fire"
	if r := b.call("POST", "/api/v1/tickets", token, body, "Idempotency-Key", "k1"); r.Status != 409 || !strings.Contains(string(r.Body), "idempotency_key_reused") {
		t.Errorf("same key, other body: %d %s", r.Status, r.Body)
	}
	var op struct {
		Found, Complete, Deleted bool
		Ticket                   Ticket
	}
	b.call("GET", "/api/v1/operations/k1", token, nil).into(t, &op)
	var made Ticket
	first.into(t, &made)
	if !op.Found || op.Ticket.ID != made.ID || b.Count("Printer on fire") != 1 || b.CountKey("k1") != 1 || b.CountRef("op-1") != 1 {
		t.Errorf("operation = %+v", op)
	}
	if want := (Write{Seq: 1, Kind: "create", Via: "api", TicketID: made.ID, Project: "orders", Organisation: "acme", Login: "alice", Client: "drawbridge-cli",
		Title: "Printer on fire", IdempotencyKey: "k1", ExternalRef: "op-1"}); len(b.Ledger()) != 1 {
		t.Errorf("ledger has %d writes", len(b.Ledger()))
	} else {
		got := b.Ledger()[0]
		if got.BodySHA256 == "" || got.RequestID != first.Header.Get("X-Request-Id") {
			t.Errorf("ledger entry = %+v", got)
		}
		got.At, got.BodySHA256, got.RequestID = want.At, "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
	}
	for _, other := range []string{"k2", "K1", "k1%20"} {
		op.Found = true
		b.call("GET", "/api/v1/operations/"+other, token, nil).into(t, &op)
		if op.Found || !op.Complete {
			t.Errorf("operation %q: %+v", other, op)
		}
	}
	// Another organisation's key is another key.
	b.call("GET", "/api/v1/operations/k1", b.as("carol").Access, nil).into(t, &op)
	if op.Found || !op.Complete {
		t.Errorf("carol sees %+v", op)
	}
	// Someone who may not see the ticket is told neither yes nor no.
	b.call("GET", "/api/v1/operations/k1", b.as("guest").Access, nil).into(t, &op)
	if op.Found || op.Complete {
		t.Errorf("guest sees %+v", op)
	}
	if err := b.DeleteTicket(made.ID); err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/api/v1/operations/k1", token, nil).into(t, &op)
	if !op.Found || !op.Deleted {
		t.Errorf("after deletion: %+v", op)
	}
}

// Guarantee: TST2
func TestTwentyConcurrentCreatesWithOneKey(t *testing.T) { // T01
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	bodies := make([][]byte, 20)
	var wg sync.WaitGroup
	for i := range bodies {
		wg.Go(func() {
			r, err := b.try("POST", "/api/v1/tickets", token, `{"project":"orders","title":"Race"}`, "Idempotency-Key", "race")
			if err == nil && r.Status == 201 {
				bodies[i] = r.Body
			}
		})
	}
	wg.Wait()
	for i, body := range bodies {
		if len(body) == 0 || !bytes.Equal(body, bodies[0]) {
			t.Errorf("answer %d = %s", i, body)
		}
	}
	if n := b.Count("Race"); n != 1 {
		t.Errorf("org holds %d tickets, want 1", n)
	}
	b.behave(Behaviour{Switches: Switches{NoIdempotency: true, NoOperationLookup: true}})
	for range 2 {
		b.call("POST", "/api/v1/tickets", token, `{"project":"orders","title":"Twice"}`, "Idempotency-Key", "ignored")
	}
	if n := b.CountKey("ignored"); n != 2 {
		t.Errorf("with the key ignored: %d tickets, want 2", n)
	}
	if r := b.call("GET", "/api/v1/operations/ignored", token, nil); r.Status != 404 {
		t.Errorf("lookup switched off: %d", r.Status)
	}
}

func TestCreateValidation(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	for body, want := range map[string]string{
		`{}`:                               "422 project:required title:required",
		`{"project":"orders","title":" "}`: "422 title:required",
		`{"project":"orders","title":"` + strings.Repeat("ä", 201) + `","body":"` + strings.Repeat("x", 20001) + `"}`: "422 body:too_long title:too_long",
		`{"project":"orders","title":"a\u0000b","severity":"odd"}`:                                                    "422 severity:invalid title:invalid",
		`{"project":"orders","title":"a","private_notes":"x"}`:                                                        "422 private_notes:unknown",
		`{"project":"orders","title":5}`:                                                                              "422 title:invalid",
		`{"project":"orders","title":"a"} x`:                                                                          "400",
		`[]`:                                                                                                          "400",
		"{\"project\":\"orders\",\"title\":\"\xff\"}":                                                                 "400",
		`{"project":"secret","title":""}`:                                                                             "404",
		`{"project":"orders","title":"` + strings.Repeat("ä", 200) + `","body":"` + strings.Repeat("x", 20000) + `"}`: "201",
	} {
		r := b.call("POST", "/api/v1/tickets", token, body)
		got := fmt.Sprint(r.Status)
		var p problem
		json.Unmarshal(r.Body, &p)
		for _, f := range p.Errors {
			got += " " + f.Field + ":" + f.Code
		}
		if got != want {
			t.Errorf("%.60s: %s, want %s", body, got, want)
		}
	}
	if r := b.call("POST", "/api/v1/tickets", token, "project=orders", "Content-Type", "application/x-www-form-urlencoded"); r.Status != 415 {
		t.Errorf("form body: %d", r.Status)
	}
	if r := b.call("POST", "/api/v1/tickets", token, `{"project":"orders","title":"`+strings.Repeat("x", 1<<20)+`"}`); r.Status != 413 {
		t.Errorf("huge body: %d", r.Status)
	}
	if n := len(b.Ledger()); n != 1 {
		t.Errorf("%d writes, want the one that was valid", n)
	}
}

func TestLabelsAreDroppedSilently(t *testing.T) { // T13
	t.Parallel()
	b := start(t, Config{})
	for login, want := range map[string][]string{"alice": {"bug"}, "bob": {"bug", "brand-new"}} {
		var made Ticket
		b.world.reset()
		b.call("POST", "/api/v1/tickets", b.as(login).Access, map[string]any{"project": "web", "title": "x", "labels": []string{"bug", "brand-new"}}).into(t, &made)
		if diff := cmp.Diff(want, made.Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", login, diff)
		}
	}
	b.behave(Behaviour{Switches: Switches{DropFields: []string{"labels", "evidence", "external_ref", "severity"}}})
	var made Ticket
	b.call("POST", "/api/v1/tickets", b.as("bob").Access, map[string]any{"project": "web", "title": "x", "labels": []string{"bug"}, "evidence": []string{"e"}, "external_ref": "r", "severity": "high"}).into(t, &made)
	if len(made.Labels)+len(made.Evidence) != 0 || made.ExternalRef != "" || made.Severity != "medium" {
		t.Errorf("dropped fields are there: %+v", made)
	}
}

// The answer of a create holds the private fields, and each is a canary.
func TestCanariesCoverWhatIsHandedOut(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	got := b.as("alice")
	var made Ticket
	b.call("POST", "/api/v1/tickets", got.Access, map[string]any{"project": "orders", "title": "x"}).into(t, &made)
	list := b.Canaries()
	for _, secret := range []string{made.RequesterEmail, made.RequesterPhone, made.PrivateNotes, got.Access, got.Refresh, b.AdminToken(), b.password("bob"), b.Clients()[1].Secret} {
		if secret == "" || !slices.Contains(list, secret) {
			t.Errorf("%q is no canary", secret)
		}
	}
	for _, i := range b.Tickets() {
		if i.PrivateNotes == "" || !slices.Contains(list, i.PrivateNotes) {
			t.Errorf("notes of %s are no canary", i.ID)
		}
	}
}

func TestSameSeedSameData(t *testing.T) {
	t.Parallel()
	one, err := New(Config{Seed: 7, BaseURL: "http://org.test"})
	if err != nil {
		t.Fatal(err)
	}
	two, _ := New(Config{Seed: 7, BaseURL: "http://org.test"})
	other, _ := New(Config{Seed: 8, BaseURL: "http://org.test"})
	if diff := cmp.Diff(one.Tickets(), two.Tickets()); diff != "" {
		t.Errorf("same seed differs:\n%s", diff)
	}
	if diff := cmp.Diff(one.Users(), two.Users()); diff != "" {
		t.Errorf("users differ:\n%s", diff)
	}
	if cmp.Equal(one.Tickets(), other.Tickets()) || one.Users()[0].Password == other.Users()[0].Password || one.AdminToken() == two.AdminToken() {
		t.Error("another seed gives the same secrets")
	}
	if n := one.Total(); n != 60 {
		t.Errorf("%d tickets, want 60", n)
	}
	before := one.Tickets()
	one.DeleteTicket("007")
	if one.Reset(); !cmp.Equal(before, one.Tickets()) {
		t.Error("reset does not restore the data")
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("")
	f.Add(position{epoch, "9007199254740993"}.cursor())
	f.Add("cDEgeiA")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parseCursor(text)
		if !ok {
			return
		}
		if q, ok := parseCursor(p.cursor()); !ok || *q != *p {
			t.Errorf("%q reads as %v, again as %v", text, p, q)
		}
	})
}

func BenchmarkListPageOf20(b *testing.B) {
	s, err := New(Config{BaseURL: "http://org.test"})
	if err != nil {
		b.Fatal(err)
	}
	x := &exchange{who: &grant{user: s.world.user("bob")}}
	req, _ := url.Parse("/api/v1/tickets?limit=20&state=all&project=orders&project=web")
	x.r = newRequest(req)
	b.ReportAllocs()
	for b.Loop() {
		if a := s.listTickets(x); a.status != 200 {
			b.Fatal(a.status)
		}
	}
}
