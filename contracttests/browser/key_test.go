package browser

import (
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
)

// Guarantee: CRE9 (a key is entered in a browser without scripts, with the keyboard)
// Guarantee: OPS2
func TestEnterAKeyWithoutScript(t *testing.T) {
	chromium(t)
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	s := newHouse(t, host.Instance{Name: "sandbox", Driver: "sandbox", URL: org.URL(), SignIn: host.SignInKey, Private: host.Loopback(org.URL())},
		console.Provider{Name: "sandbox", Title: "Sandbox", Host: strings.TrimPrefix(org.URL(), "http://"), Key: true, Scopes: []console.Scope{
			{Name: "tickets:read", Reason: "to find tickets for you"}, {Name: "tickets:write", Reason: "to create the tickets that you approve"},
			{Name: "profile:read", Reason: "to show which account it is"},
		}})
	secret, err := org.PersonalToken(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	link, err := s.console.ConnectLink(t.Context(), alice, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := s.enter(alice)
	w.withoutScript()
	w.open(link)
	w.reads("You are alice of acme", "What the key must allow", "to create the tickets that you approve")
	w.tabTo("BUTTON Go on to enter a key")
	w.enter()
	w.await("#key")
	w.reads("Enter a key of Sandbox", "This form works once")
	w.picture("key")
	for expression, want := range map[string]string{
		`document.querySelector("#key").type`:                      "password",
		`document.querySelector("#key").autocomplete`:              "off",
		`document.querySelector("label[for=key]").innerText`:       "Key or personal token",
		`document.querySelector("#key").form.method`:               "post",
		`new URL(document.querySelector("#key").form.action).host`: strings.TrimPrefix(s.base, "http://"),
	} {
		if got := w.ask(expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	w.tabTo("INPUT key")
	w.write("#key", secret)
	w.enter()
	w.await(".notice.good")
	w.reads("alice at Acme is connected", "orders, web")
	if strings.Contains(w.at(), "?") || strings.Contains(w.text(), secret) || strings.Contains(w.ask("document.documentElement.outerHTML"), secret) {
		t.Errorf("the key is on the page, or something is in its address %s", w.at())
	}
	w.picture("key-connected")
	s.propose(draft) // the connection can be used
}
