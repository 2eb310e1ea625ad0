package main

import (
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/host"
)

// TestGiteaSubscribe is a subscription at a ticket system that nobody here wrote: its
// key is ours, and is in what a person approves.
// Guarantee: TIX4, TIX5, HOO1, HOO4
func TestGiteaSubscribe(t *testing.T) {
	org := giteaOrg{Server: gitea.ForTest(t, gitea.Config{})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(org.CreateUser(t.Context(), giteaUser, giteaPassword))
	var err error
	org.repo, err = org.CreateRepo(t.Context(), giteaUser, "orders", true)
	must(err)
	app, err := org.CreateOAuthApp(t.Context(), giteaUser, "drawbridge", []string{"http://127.0.0.1/callback"}, false)
	must(err)

	c := newCLI(t, "acme/alice")
	must(host.SaveInstance(c.data, host.Instance{Name: "gitea", Driver: "gitea", URL: org.URL, ClientID: app.ClientID, Private: host.Loopback(org.URL),
		MoreScopes: []string{"write:repository"}}))
	conn := text(c.json(0, "connect", "--provider", "gitea", "--login", giteaUser+":"+giteaPassword,
		"--scope", "read:issue,write:issue,read:repository,write:repository,read:user"), "connection_id")
	s := c.serve()
	subscribe := func(want int, more ...string) map[string]any {
		t.Helper()
		return c.json(want, append([]string{"endpoints", "subscribe", conn, "--origin", s.base}, more...)...)
	}
	if r := subscribe(4); text(r, "error", "code") != "INVALID_INPUT" {
		t.Errorf("without a project: %v", r)
	}
	if r := subscribe(4, "--project", "nobody/nothing"); text(r, "error", "code") == "" {
		t.Errorf("of a project that is not granted: %v", r)
	}
	asked := subscribe(4, "--project", org.repo)
	key := c.giteaKey(text(asked, "error", "approval_id"))
	c.json(0, "approvals", "approve", text(asked, "error", "approval_id"))
	seen := c.seen.String()
	made := subscribe(0, "--project", org.repo)
	if text(made, "subscription", "state") != "active" || text(made, "subscription", "hook") == "" || at(made, "subscription", "troubles") != nil {
		t.Fatalf("made: %v", made)
	}
	var hooks []struct {
		Config struct{ URL string } `json:"config"`
	}
	list := func() int {
		t.Helper()
		must(org.API(t.Context(), giteaUser, "GET", "/repos/"+org.repo+"/hooks", nil, &hooks))
		return len(hooks)
	}
	if subscribe(0, "--project", org.repo); list() != 1 {
		t.Errorf("%d webhooks", len(hooks))
	}
	if printed := strings.TrimPrefix(c.seen.String(), seen); strings.Contains(printed, key) || strings.Contains(printed, hooks[0].Config.URL) {
		t.Error("the command prints the address or the key")
	}

	issue, err := org.CreateIssue(t.Context(), giteaUser, org.repo, gitea.NewIssue{Title: "Announced by an event", Body: "b"})
	must(err)
	got := c.decoded("Gitea's event", func(map[string]any) bool { return true })
	if got["pull"] != nil || text(got, "event_type") != "issues" || issue.Number == 0 {
		t.Errorf("delivered: %v", got)
	}

	// An administrator removes it there.
	must(org.API(t.Context(), giteaUser, "DELETE", "/repos/"+org.repo+"/hooks/"+text(made, "subscription", "hook"), nil, nil))
	due(t, c)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(c.run("deliveries").out, "--replace "+text(made, "subscription", "endpoint")); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody tells: %s", c.run("deliveries").out)
		}
	}
	subscribe(0, "--project", org.repo, "--replace", text(made, "subscription", "endpoint"), "--yes")
	if list() != 1 {
		t.Errorf("replaced: %d webhooks", len(hooks))
	}
}

// giteaKey reads the signing key from a card, as whoever approves it can.
func (c *cli) giteaKey(approval string) (key string) {
	c.t.Helper()
	c.onHost(func(h *host.Host) {
		card, err := h.Ledger.Approval(c.t.Context(), "acme", approval)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range card.Fields {
			if strings.HasSuffix(f.Name.Shown, "secret") {
				key = f.Value.Shown
			}
		}
	})
	if key == "" {
		c.t.Fatal("the card has no key")
	}
	return key
}
