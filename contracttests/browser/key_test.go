package browser

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
)

// personalToken is a bearer token of an account, as its owner would make one there.
func personalToken(t *testing.T, org *sandbox.Server, login string) string {
	t.Helper()
	if err := org.RegisterClient(sandbox.Client{ID: "tokens", Secret: "of-the-test", Account: login}); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"tickets:read tickets:write profile:read"}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, org.URL()+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("tokens", "of-the-test")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
		t.Fatalf("no token: %v", err)
	}
	return out.Token
}

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
	secret := personalToken(t, org, "alice")
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
