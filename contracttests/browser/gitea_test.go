package browser

import (
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/host"
)

// The pages meet a provider that nobody here wrote: its own sign-in, its own
// consent, a redirect behind its own content policy.
//
// Guarantee: OPS2
func TestConnectGitea(t *testing.T) {
	chromium(t)
	org := gitea.ForTest(t, gitea.Config{})
	const login, password = "alice", "correct-horse-9"
	if err := org.CreateUser(t.Context(), login, password); err != nil {
		t.Fatal(err)
	}
	repo, err := org.CreateRepo(t.Context(), login, "orders", true)
	if err != nil {
		t.Fatal(err)
	}
	app, err := org.CreateOAuthApp(t.Context(), login, "drawbridge", []string{"http://127.0.0.1/callback/gitea"}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := newHouse(t, host.Instance{Name: "gitea", Driver: "gitea", URL: org.URL, ClientID: app.ClientID, Private: host.Loopback(org.URL)},
		console.Provider{Name: "gitea", Title: "Gitea", Host: strings.TrimPrefix(org.URL, "http://"), Scopes: []console.Scope{
			{Name: "read:user", Reason: "to show which account it is"}, {Name: "read:repository", Reason: "to see your projects"},
			{Name: "read:issue", Reason: "to find tickets for you"}, {Name: "write:issue", Reason: "to create the tickets that you approve"},
		}})
	w := s.enter(alice)
	w.ignore(org.URL)
	w.withoutScript() // Gitea's own script makes the driver wait for ever; its forms work without it
	w.open(s.base + "/connect?provider=gitea")
	w.press("main button")
	w.await("#user_name")
	w.write("#user_name", login)
	w.write("#password", password)
	w.press("form button.primary")
	w.await("#authorize-app")
	w.picture("gitea-consent")
	w.press("#authorize-app")
	w.await(".notice.good")
	w.reads("alice", "is connected", repo, "write:issue")
	w.picture("gitea-connected")
}
