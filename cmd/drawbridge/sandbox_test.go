package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector/manifest"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
)

// Guarantee: OPS1, TST5
func TestDemoPrintsOneObject(t *testing.T) {
	c := newCLI(t, "acme/alice")
	report := c.json(0, "demo")
	if report["passed"] != true {
		t.Fatalf("the demo did not pass: %v", report)
	}
	want := map[string][3]float64{ // writes, tickets, steps
		"investigate": {0, 0, 3}, "approved-create": {1, 1, 3}, "lost-answer": {1, 1, 3}, "revoked-midway": {0, 0, 3},
	}
	for _, s := range report["scenarios"].([]any) {
		name := text(s, "name")
		got := [3]float64{at(s, "provider_writes").(float64), at(s, "tickets_at_provider").(float64), float64(len(at(s, "steps").([]any)))}
		if got != want[name] || at(s, "passed") != true {
			t.Errorf("%s: writes, tickets, steps = %v, want %v: %v", name, got, want[name], s)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("scenarios that did not run: %v", want)
	}
}

// TestTheMainJob is the four steps, by the exact commands.
// Guarantee: TIX1, TIX4, TIX5, TIX6, RUN4, CUR1
func TestTheMainJob(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	conn := c.connect(org, "alice")
	if got := text(conn, "account", "login"); got != "alice" {
		t.Errorf("connected as %q", got)
	}
	if diff := cmp.Diff([]any{"orders", "web"}, conn["projects"]); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if got := c.json(0, "call", "tickets.get", `{"id":"007"}`); len(at(got, "attempts").([]any)) != 1 || at(got, "quota") == nil {
		t.Errorf("the result has attempts %v and quota %v", got["attempts"], got["quota"])
	}

	// Every page once, through sealed cursors.
	seen := map[string]bool{}
	cursor := "null"
	for range 30 {
		page := c.json(0, "call", "tickets.search", `{"query":"customer","page_size":5,"cursor":`+cursor+`}`)
		for _, item := range at(page, "data", "items").([]any) {
			if seen[text(item, "id")] {
				t.Errorf("ticket %s came twice", text(item, "id"))
			}
			seen[text(item, "id")] = true
		}
		next, ok := page["next_cursor"].(string)
		if !ok {
			if at(page, "coverage", "complete") != true {
				t.Errorf("the last page is not complete: %v", page["coverage"])
			}
			break
		}
		cursor = `"` + next + `"`
	}
	want := 0
	for _, ticket := range org.Tickets() {
		if ticket.Type == "ticket" && ticket.State == "open" && !ticket.Archived &&
			(ticket.Project.ID == "orders" || ticket.Project.ID == "web") &&
			(strings.Contains(strings.ToLower(ticket.Title), "customer") || strings.Contains(strings.ToLower(ticket.Body), "customer")) {
			want++
			if !seen[ticket.ID] {
				t.Errorf("ticket %s was not found", ticket.ID)
			}
		}
	}
	if len(seen) != want || want < 10 {
		t.Errorf("found %d tickets, the provider holds %d", len(seen), want)
	}

	draft := `{"project":"orders","title":"Printer on fire","body":"Room 4.","severity":"high","labels":["bug"],"evidence":["007"]}`
	asked := c.json(4, "call", "tickets.create", draft)
	approval := text(asked, "error", "approval_id")
	if text(asked, "error", "code") != "APPROVAL_REQUIRED" || approval == "" || text(asked, "pending", "approval_id") != approval {
		t.Fatalf("first call: %v", asked)
	}
	if n := org.Count("Printer on fire"); n != 0 {
		t.Fatalf("%d tickets before the approval", n)
	}
	// The same fields, in another order, are the same proposal.
	same := c.json(4, "call", "tickets.create", `{"severity":"high","evidence":["007"], "labels":["bug"],"body":"Room 4.","title":"Printer on fire","project":"orders"}`)
	if text(same, "error", "approval_id") != approval {
		t.Errorf("key order made another proposal")
	}
	card := c.json(0, "approvals", "show", approval)
	if text(card, "state") != "pending" || text(card, "payload_digest") != text(asked, "pending", "payload_digest") {
		t.Errorf("card: %v", card)
	}
	if diff := cmp.Diff([]any{map[string]any{"shown": "007", "length": 3.0}}, card["evidence"]); diff != "" {
		t.Errorf("evidence on the card (-want +got):\n%s", diff)
	}
	if got := c.json(0, "approvals", "approve", approval[:9]); text(got, "state") != "approved" {
		t.Errorf("approve by a unique beginning: %v", got)
	}
	first := c.json(0, "call", "tickets.create", draft)
	again := c.json(0, "call", "tickets.create", draft)
	if diff := cmp.Diff(first["receipt"], again["receipt"]); diff != "" || again["replayed"] != true {
		t.Errorf("the repeated call has another receipt (-first +again):\n%s", diff)
	}
	if text(first, "receipt", "proof") != "verified" {
		t.Errorf("receipt: %v", first["receipt"])
	}
	if n := org.Count("Printer on fire"); n != 1 {
		t.Errorf("the provider holds %d tickets, want 1", n)
	}
	if n := org.CountKey(text(first, "receipt", "operation_id")); n != 1 {
		t.Errorf("%d tickets under the operation's key, want 1", n)
	}
	c.leaksNothing(org)
}

// Guarantee: CON5
func TestABadCallShowsEveryFaultAndMakesNoRequest(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	before := len(org.Requests())
	result := c.json(4, "call", "tickets.search", `{"query":"","page_size":500,"cursor":null,"tenant":"x"}`)
	want := []any{
		map[string]any{"pointer": "/page_size", "keyword": "maximum"},
		map[string]any{"pointer": "/query", "keyword": "minLength"},
		map[string]any{"pointer": "/tenant", "keyword": "additionalProperties"},
	}
	if diff := cmp.Diff(want, at(result, "error", "faults")); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if n := len(org.Requests()) - before; n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

// Guarantee: TIX5, RUN4
func TestALostAnswerIsSettledByLookingItUp(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	draft := `{"project":"web","title":"Lost in transit","body":"","severity":"low"}`
	c.json(0, "approvals", "approve", text(c.json(4, "call", "tickets.create", draft), "error", "approval_id"))
	if err := org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Times: 1},
		Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}}); err != nil {
		t.Fatal(err)
	}
	lost := c.json(5, "call", "tickets.create", draft)
	op := text(lost, "effect", "operation_id")
	if text(lost, "error", "code") != "OUTCOME_UNKNOWN" || text(lost, "effect", "disposition") != "unknown" || op == "" {
		t.Fatalf("lost answer: %v", lost)
	}
	settled := c.json(0, "operations", "show", op)
	if text(settled, "state") != "applied" || text(settled, "receipt", "how") != "look_up" {
		t.Errorf("settled: %v", settled)
	}
	if n := org.Count("Lost in transit"); n != 1 {
		t.Errorf("the provider holds %d tickets, want 1", n)
	}
}

// Guarantee: TIX3
func TestHiddenAbsentAndForeignTicketsAnswerAlike(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	var first map[string]any
	for _, id := range []string{"SEC-1", "0042", "CR-12", "no-such-ticket", "../me", "a b"} {
		r := c.json(4, "call", "tickets.get", `{"id":"`+id+`"}`, "--call-id", "same-for-all-"+id)
		for _, volatile := range []string{"call_id", "provenance", "attempts", "quota"} {
			delete(r, volatile)
		}
		if first == nil {
			first = r
			if text(r, "error", "code") != "NOT_FOUND" {
				t.Fatalf("%s: %v", id, r)
			}
		}
		if diff := cmp.Diff(first, r); diff != "" {
			t.Errorf("%s answers otherwise (-hidden +this):\n%s", id, diff)
		}
	}
}

func TestDenyAndDisconnect(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	id := text(c.connect(org, "alice"), "connection_id")
	draft := `{"project":"web","title":"Denied","body":"","severity":"low"}`
	approval := text(c.json(4, "call", "tickets.create", draft), "error", "approval_id")
	if got := c.json(0, "approvals", "deny", approval, "--reason", "not now"); text(got, "state") != "denied" {
		t.Errorf("deny: %v", got)
	}
	if next := text(c.json(4, "call", "tickets.create", draft), "error", "approval_id"); next == approval || next == "" {
		t.Errorf("a denied approval %s answers the next proposal", next)
	}
	if r := c.runWith("no\n", "connections", "disconnect", id); r.code != 2 {
		t.Errorf("disconnect without the typed word: exit code %d", r.code)
	}
	steps := c.json(0, "connections", "disconnect", id, "--yes")
	if text(steps, "revoked_at_provider") != "yes" || text(steps, "stopped", "state") != "done" {
		t.Errorf("steps: %v", steps)
	}
	if got := c.json(4, "call", "tickets.get", `{"id":"007"}`); text(got, "error", "code") != "CONNECTION_REQUIRED" {
		t.Errorf("after the disconnect: %v", got)
	}
	if n := org.Count("Denied"); n != 0 {
		t.Errorf("%d tickets were made", n)
	}
	if alive := org.OAuthStats().FamiliesAlive; alive != 0 {
		t.Errorf("%d token families are alive at the provider", alive)
	}
}

func TestTenantsAndPrincipalsDoNotMeet(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	id := text(c.connect(org, "alice"), "connection_id")
	approval := text(c.json(4, "call", "tickets.create", `{"project":"web","title":"Mine","body":"","severity":"low"}`), "error", "approval_id")
	for _, other := range []string{"acme/bob", "globex/alice"} {
		c.as = other
		for _, args := range [][]string{
			{"call", "tickets.get", `{"id":"007"}`}, {"call", "tickets.get", `{"id":"007"}`, "--connection", id},
			{"connections", "show", id}, {"connections", "disconnect", id, "--yes"},
		} {
			if r := c.run(args...); r.code != 4 {
				t.Errorf("%s: %v: exit code %d\n%s%s", other, args, r.code, r.out, r.err)
			}
		}
	}
	if r := c.run("approvals", "approve", approval); r.code != 4 {
		t.Errorf("another tenant may approve: exit code %d", r.code)
	}
}

func TestUsageErrorsAreExitCode2(t *testing.T) {
	c := newCLI(t, "acme/alice")
	for _, args := range [][]string{
		{"nonsense"}, {"call"}, {"call", "tickets.get"}, {"connect"}, {"connect", "--provider", "sandbox"},
		{"connect", "--provider", "nothing", "--url", "http://127.0.0.1:1"}, {"tools", "--shape", "x"}, {"call", "--no-such-flag"},
	} {
		if r := c.run(args...); r.code != 2 || r.err == "" {
			t.Errorf("%v: exit code %d, text %q", args, r.code, r.err)
		}
	}
	c.as = "no-slash"
	if r := c.run("connections"); r.code != 2 {
		t.Errorf("--as without a slash: exit code %d", r.code)
	}
}

// TestTheLinkWorksInABrowser walks the printed link with a cookie jar, and shows
// that a browser without the link's cookie can't finish it. C42, C23.
// Guarantee: CRE1
func TestTheLinkWorksInABrowser(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	errR, errW := io.Pipe()
	var out bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(t.Context(), []string{"connect", "--provider", "sandbox", "--url", org.URL(), "--data", c.data, "--as", c.as, "--json"}, strings.NewReader(""), &out, errW)
		errW.Close()
	}()
	link := ""
	lines := bufio.NewScanner(errR)
	for link == "" && lines.Scan() {
		link = regexp.MustCompile(`http://127\.0\.0\.1:\d+/start\?\S+`).FindString(lines.Text())
	}
	go io.Copy(io.Discard, errR)

	get := func(client *http.Client, address string, header ...string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	stranger := &http.Client{Timeout: 10 * time.Second}
	defer browser.CloseIdleConnections()
	defer stranger.CloseIdleConnections()
	if resp := get(browser, link, "Sec-Purpose", "prefetch"); resp.StatusCode != http.StatusNoContent {
		t.Errorf("a prefetch of the link got %d", resp.StatusCode)
	}
	started := get(browser, link)
	if started.StatusCode != http.StatusSeeOther {
		t.Fatalf("the link answered %d", started.StatusCode)
	}
	if resp := get(stranger, link); resp.StatusCode != http.StatusGone {
		t.Errorf("the link works twice: %d", resp.StatusCode)
	}
	back, err := sandbox.Login(t.Context(), &http.Client{}, started.Header.Get("Location"), "alice", password(t, org, "alice"), true)
	if err != nil {
		t.Fatal(err)
	}
	if resp := get(stranger, back.String()); resp.StatusCode != http.StatusForbidden {
		t.Errorf("another browser may finish the sign-in: %d", resp.StatusCode)
	}
	if resp := get(browser, back.String(), "Purpose", "prefetch"); resp.StatusCode != http.StatusNoContent {
		t.Errorf("a prefetch of the callback got %d", resp.StatusCode)
	}
	if resp := get(browser, back.String()); resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the callback answered %d", resp.StatusCode)
	}
	if code := <-done; code != 0 {
		t.Fatalf("connect ended with %d", code)
	}
	var conn map[string]any
	if err := json.Unmarshal(out.Bytes(), &conn); err != nil || text(conn, "account", "login") != "alice" {
		t.Errorf("connected: %v %v", conn, err)
	}
}

func TestSandboxPrintsOneLineWhenReady(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"sandbox", "--json"}, strings.NewReader(""), w, io.Discard) }()
	var ready sandbox.Ready
	if err := json.NewDecoder(r).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	if ready.URL == "" || ready.Issuer == "" || ready.AdminToken == "" || len(ready.Users) == 0 || len(ready.Projects) == 0 {
		t.Errorf("ready: %+v", ready)
	}
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// leaksNothing looks for the provider's secrets in all that was printed and in
// every file of the data folder.
// Guarantee: CRE4, CRE5, NET10, RUN5, TIX2
func (c *cli) leaksNothing(org *sandbox.Server) {
	c.t.Helper()
	places := map[string]string{"the output": c.seen.String()}
	files, err := os.ReadDir(c.data)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(c.data, f.Name()))
		if err != nil {
			c.t.Fatal(err)
		}
		places[f.Name()] = string(raw)
	}
	if len(org.Canaries()) < 20 {
		c.t.Fatalf("only %d secrets to look for", len(org.Canaries()))
	}
	for where, content := range places {
		for _, secret := range org.Canaries() {
			if strings.Contains(content, secret) {
				c.t.Errorf("%s holds a secret of the provider: %s", where, fmt.Sprintf("%.14s...", secret))
			}
		}
	}
}

// Guarantee: CON1, RUN8
func TestToolsInEveryForm(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	m, err := manifest.Parse([]byte(c.run("tools", "manifest").out))
	if err != nil || m.ID != "tickets" || m.EndpointProfile != "sandbox" || len(m.Capabilities) != 3 {
		t.Errorf("manifest %+v: %v", m, err)
	}
	for shape, name := range map[string]string{"openai": `"name":"tickets-create"`, "openai-responses": `"name":"tickets-create"`, "anthropic": `"input_schema"`} {
		if r := c.run("tools", "--shape", shape); r.code != 0 || !strings.Contains(r.out, name) || !json.Valid([]byte(r.out)) {
			t.Errorf("%s: exit code %d\n%s", shape, r.code, r.out)
		}
	}
	if shown := c.json(0, "tools", "show", "tickets.create"); at(shown, "approval") != true || text(shown, "effect") != "compensable_write" {
		t.Errorf("show: %v", shown)
	}
	if r := c.run("tools", "show", "tickets.Create"); r.code != 4 {
		t.Errorf("another case is found: exit code %d", r.code)
	}
}

// Guarantee: NET1, OPS4
func TestProfilesAndDoctor(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	if r := c.run("profiles", "list"); r.code != 0 || !strings.Contains(r.out, "nothing may be reached") {
		t.Errorf("an empty folder: %d %s", r.code, r.out)
	}
	file := filepath.Join(c.data, "profiles.json")
	port := org.URL()[strings.LastIndex(org.URL(), ":")+1:]
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{\"profiles\": [{\n \"name\": \"work\",\n \"base_url\": \"https://a.example\",\n \"privat\": [],\n \"limits\": {\"read\": \"0s\"}}]}")
	if r := c.run("profiles", "check"); r.code == 0 || !strings.Contains(r.err, "line 4") || !strings.Contains(r.err, "line 5") {
		t.Errorf("two faults: %d %s", r.code, r.err)
	}
	write(`{"profiles": [{"name": "work", "base_url": "` + org.URL() + `", "private": [{"host": "127.0.0.1", "prefix": "127.0.0.1/32", "port": ` + port + `}], "limits": {"rate": 100}}]}`)
	if got := c.json(0, "profiles", "check"); got["valid"] != true {
		t.Errorf("check: %v", got)
	}
	if err := host.SaveInstance(c.data, host.Instance{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Profile: "work"}); err != nil {
		t.Fatal(err)
	}
	c.connect(org, "alice")
	c.json(0, "call", "tickets.get", `{"id":"007"}`)
	before := len(org.Requests())
	report := c.json(0, "doctor", "--profile", "work")
	if text(report, "profile") != "work" || len(at(report, "items").([]any)) < 5 {
		t.Errorf("doctor: %v", report)
	}
	for _, r := range org.Requests()[before:] {
		if r.Authorization {
			t.Errorf("the doctor sent a credential to %s", r.Path)
		}
	}
	org.Close()
	if r := c.run("doctor", "--profile", "work"); r.code != 1 || !strings.Contains(r.out, "failed") {
		t.Errorf("the doctor of a dead server: %d %s", r.code, r.out)
	}
	if r := c.run("doctor", "--profile", "none"); r.code != 2 {
		t.Errorf("no such profile: %d", r.code)
	}
}

// Guarantee: CRE9
func TestConnectWithACode(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	password := ""
	for _, u := range org.Users() {
		if u.Login == "alice" {
			password = u.Password
		}
	}
	conn := c.json(0, "connect", "--provider", "sandbox", "--url", org.URL(), "--device", "--login", "alice:"+password)
	if text(conn, "account", "login") != "alice" {
		t.Errorf("connected as %v", conn)
	}
	if r := c.run("call", "tickets.search", `{"query":"customer","page_size":2,"cursor":null}`); r.code != 0 && r.code != 3 {
		t.Errorf("search: %d %s", r.code, r.err)
	}
}
