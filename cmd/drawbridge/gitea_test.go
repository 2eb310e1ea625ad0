package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/host"
)

// giteaOrg is a real Gitea with one person, one repository and more issues
// than a page holds.
type giteaOrg struct {
	*gitea.Server
	client string // OAuth client id
	repo   string
}

const (
	giteaUser     = "alice"
	giteaPassword = "correct-horse-9"
	giteaIssues   = 57
)

func startGitea(t *testing.T) giteaOrg {
	t.Helper()
	org := giteaOrg{Server: gitea.ForTest(t, gitea.Config{})}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(org.CreateUser(ctx, giteaUser, giteaPassword))
	var err error
	org.repo, err = org.CreateRepo(ctx, giteaUser, "orders", true)
	must(err)
	_, err = org.CreateLabel(ctx, org.repo, "bug")
	must(err)
	for i := range giteaIssues {
		_, err := org.CreateIssue(ctx, giteaUser, org.repo, gitea.NewIssue{Title: fmt.Sprintf("Checkout fails (%d)", i), Body: "customer words"})
		must(err)
	}
	app, err := org.CreateOAuthApp(ctx, giteaUser, "drawbridge", []string{"http://127.0.0.1/callback"}, false)
	must(err)
	org.client = app.ClientID
	org.awaitIndex(t)
	return org
}

// awaitIndex returns when the keyword search finds all issues: it lags behind,
// and a list that grows between two pages is rightly called partial.
func (o giteaOrg) awaitIndex(t *testing.T) {
	t.Helper()
	for {
		var found []struct{}
		if err := o.API(t.Context(), giteaUser, "GET", "/repos/"+o.repo+"/issues?q=Checkout&state=open&type=issues&limit=1&page="+fmt.Sprint(giteaIssues), nil, &found); err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the index never caught up")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *cli) connectGitea(org giteaOrg, url string) map[string]any {
	c.t.Helper()
	return c.json(0, "connect", "--provider", "gitea", "--url", url, "--client-id", org.client, "--login", giteaUser+":"+giteaPassword)
}

// TestGiteaMainJob is the main job against a ticket system that nobody here
// wrote, through a proxy that can lose its answers.
// Guarantee: TIX5, TIX6, TIX7
func TestGiteaMainJob(t *testing.T) {
	org := startGitea(t)
	proxy, err := fault.Start(t.Context(), org.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	c := newCLI(t, "acme/alice")
	conn := c.connectGitea(org, proxy.URL())
	if text(conn, "account", "login") != giteaUser || len(conn["notes"].([]any)) != 0 {
		t.Errorf("connected as %v", conn)
	}
	if diff := cmp.Diff([]any{org.repo}, conn["projects"]); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}

	seen := map[string]bool{}
	cursor, pages := "null", 0
	for ; cursor != ""; pages++ {
		page := c.json(0, "call", "tickets.search", `{"query":"Checkout","page_size":20,"cursor":`+cursor+`}`)
		for _, item := range at(page, "data", "items").([]any) {
			seen[text(item, "id")] = true
		}
		cursor = ""
		if next, ok := page["next_cursor"].(string); ok {
			cursor = `"` + next + `"`
		}
	}
	if len(seen) != giteaIssues || pages != 3 {
		t.Errorf("found %d tickets on %d pages, want %d on 3", len(seen), pages, giteaIssues)
	}

	id := org.repo + "#7"
	got := c.json(0, "call", "tickets.get", `{"id":"`+id+`"}`)
	if text(got, "data", "id") != id || text(got, "data", "title") != "Checkout fails (6)" {
		t.Errorf("get: %v", got["data"])
	}
	for _, absent := range []string{org.repo + "#4711", "nobody/nothing#1", "garbage", org.repo + "#-1"} {
		if r := c.json(4, "call", "tickets.get", `{"id":"`+absent+`"}`); text(r, "error", "code") != "NOT_FOUND" {
			t.Errorf("%s: %v", absent, r["error"])
		}
	}

	// An approved create, read back and compared.
	draft := `{"project":"` + org.repo + `","title":"Printer on fire","body":"Room 4.\r\nSmoke.","severity":"high","labels":["bug"],"evidence":["` + id + `"]}`
	asked := c.json(4, "call", "tickets.create", draft)
	c.json(0, "approvals", "approve", text(asked, "error", "approval_id"))
	first := c.json(0, "call", "tickets.create", draft)
	again := c.json(0, "call", "tickets.create", draft)
	if diff := cmp.Diff(first["receipt"], again["receipt"]); diff != "" || text(first, "receipt", "proof") != "verified" || at(first, "receipt", "differences") != nil {
		t.Errorf("receipt %v (-first +again):\n%s", first["receipt"], diff)
	}

	// A lost answer, settled by listing.
	draft = `{"project":"` + org.repo + `","title":"Lost in transit","body":"","severity":"low"}`
	c.json(0, "approvals", "approve", text(c.json(4, "call", "tickets.create", draft), "error", "approval_id"))
	proxy.Next(fault.Rule{Method: "POST", Path: "/api/v1/repos/", Action: fault.LoseAnswer})
	lost := c.json(5, "call", "tickets.create", draft)
	op := text(lost, "effect", "operation_id")
	if text(lost, "error", "code") != "OUTCOME_UNKNOWN" || op == "" || proxy.Unspent() != 0 {
		t.Fatalf("lost answer: %v", lost)
	}
	settled := c.json(0, "operations", "show", op)
	if text(settled, "state") != "applied" || text(settled, "receipt", "how") != "look_up" {
		t.Errorf("settled: %v", settled)
	}
	for _, e := range proxy.Seen() {
		if strings.Contains(e.Target, op) {
			t.Errorf("the look-up asked a search for the mark: %v", e)
		}
	}

	titles := map[string]int{}
	issues, err := org.ListIssues(t.Context(), org.repo)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range issues {
		titles[i.Title]++
	}
	if titles["Printer on fire"] != 1 || titles["Lost in transit"] != 1 || len(issues) != giteaIssues+2 {
		t.Errorf("Gitea holds %d issues: %d and %d of ours, want one each", len(issues), titles["Printer on fire"], titles["Lost in transit"])
	}
}

// TestGiteaWidenedScopesAreNoticed has an administrator misspell a scope, which
// Gitea turns into all of the account.
// Guarantee: CRE3
func TestGiteaWidenedScopesAreNoticed(t *testing.T) {
	org := startGitea(t)
	c := newCLI(t, "acme/alice")
	if err := host.SaveInstance(c.data, host.Instance{Name: "gitea", Driver: "gitea", URL: org.URL, ClientID: org.client,
		Scopes: []string{"read:issue", "read:repository", "read:user", "read:isue"}}); err != nil {
		t.Fatal(err)
	}
	conn := c.connectGitea(org, org.URL)
	notes, _ := conn["notes"].([]any)
	if len(notes) != 1 || !strings.Contains(notes[0].(string), "more than was asked for") {
		t.Errorf("notes: %v", notes)
	}
	shown := c.json(0, "connections", "show", text(conn, "connection_id"))
	if diff := cmp.Diff(conn["notes"], shown["notes"]); diff != "" {
		t.Errorf("the notes are not kept (-connect +show):\n%s", diff)
	}
}
