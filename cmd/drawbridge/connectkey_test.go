package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector/manifest"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/host"
)

// Guarantee: CRE9 (a key comes by standard input or by the page, and nowhere out)
func TestConnectWithAKey(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	secret, err := org.PersonalToken(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	if r := c.run("connect", "--provider", "sandbox", "--url", org.URL(), "--key"); r.code != 2 || !strings.Contains(r.err, "standard input") {
		t.Errorf("without a key: %d %s", r.code, r.err)
	}
	r := c.runWith(secret+"\n", "connect", "--provider", "sandbox")
	if r.code != 0 || !strings.Contains(r.out, "connected: alice") {
		t.Fatalf("connect: %d %s%s", r.code, r.out, r.err)
	}
	if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("call: %s", r.err)
	}
	// The page is for the same kind of provider.
	s := c.serve()
	if status, page := s.do(http.MethodGet, s.signIn, nil); status != http.StatusOK {
		t.Fatalf("sign-in: %d %s", status, page)
	}
	token := s.signIn[strings.Index(s.signIn, "t=")+2:]
	s.do(http.MethodPost, s.base+"/signin/local", url.Values{"t": {token}})
	if status, page := s.do(http.MethodGet, s.base+"/connect?provider=sandbox", nil); status != http.StatusOK || !strings.Contains(page, "Go on to enter a key") {
		t.Errorf("the page: %d %s", status, page)
	}
	if r := c.runWith("pat_CANARY", "connect", "--provider", "sandbox"); r.code == 0 || strings.Contains(r.out+r.err, "CANARY") {
		t.Errorf("a key that nobody made: %d %s", r.code, r.err)
	}
	if strings.Contains(c.seen.String(), secret) {
		t.Error("the key was printed")
	}
	// When it was last used is written once the command that used it ends.
	if at, _ := c.json(0, "connections")["last_used_at"].(string); at == "" {
		t.Error("the connection was never used")
	}
	if r := c.run("connections"); !strings.Contains(r.out, "LAST USED") || strings.Contains(r.out, "never") {
		t.Errorf("the list does not say when it was used:\n%s", r.out)
	}
}

// What the administrator lets be asked for later is offered as that, with its reason.
func TestMoreScopesAreExtra(t *testing.T) {
	m := manifest.Manifest{EndpointProfile: "work", Auth: manifest.Auth{Scopes: []string{"read", "write"}},
		Capabilities: []manifest.Capability{{Name: "tickets.create", Scopes: []string{"write"}}}}
	got := connectable([]host.Instance{{Name: "work", URL: "https://work.example", Scopes: []string{"read"}, MoreScopes: []string{"write"}}}, []manifest.Manifest{m})
	want := []console.Scope{{Name: "read", Reason: "to find out whose account it is"}, {Name: "write", Reason: "for tickets.create", Extra: true}}
	if len(got) != 1 || got[0].Key {
		t.Fatalf("providers are %+v", got)
	}
	if diff := cmp.Diff(want, got[0].Scopes); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	if got := connectable([]host.Instance{{Name: "work", URL: "https://work.example", SignIn: host.SignInKey}}, []manifest.Manifest{m}); !got[0].Key {
		t.Error("a provider of keys is offered as one of sign-ins")
	}
}
