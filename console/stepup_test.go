package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// readOnly is a desk whose administrator lets writing be asked for when a call needs
// it, and not before.
func readOnly(t *testing.T, d storetest.Database) *desk {
	t.Helper()
	return newDeskOf(t, d, func(i *host.Instance) {
		i.Scopes, i.MoreScopes = []string{"tickets:read", "profile:read", "offline_access"}, []string{"tickets:write"}
	}, func(*host.Config) {}, func(c *Config) {
		all := c.Providers()
		for n := range all[0].Scopes {
			all[0].Scopes[n].Extra = all[0].Scopes[n].Extra || all[0].Scopes[n].Name == "tickets:write"
		}
		c.Providers = func() []Provider { return all }
	})
}

// lacking has a call fail for want of a permission, and makes the link that its
// caller is given.
func (k *desk) lacking() (path string, scopes []string) {
	k.t.Helper()
	r := k.create(acmeAlice, draft)
	if r.Error == nil || r.Error.Code != connector.CodeScopeRequired || r.Error.Next != connector.NextGrantScopes {
		k.t.Fatalf("the call answered %s %v, want SCOPE_REQUIRED", r.Status, r.Error)
	}
	link, err := k.console.ConnectLink(k.t.Context(), acmeAlice, "sandbox", r.Error.Scopes)
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.TrimPrefix(link, k.server.URL), r.Error.Scopes
}

func (k *desk) submit(b *browser, path string) answer {
	return b.post("/connect", url.Values{"t": {strings.TrimPrefix(path, "/connect?t=")}})
}

// Guarantee: CRE7 (from the call that lacked a scope through the pages to the same
// call done)
func TestT15C15MissingScopeIsAskedForOnThePage(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		k := readOnly(t, d)
		b := k.as(acmeAlice)
		id := b.connect("alice")
		if usual := b.get("/connect?connection=" + string(id)); strings.Contains(usual.body, "tickets:write") {
			t.Error("an extra permission is asked for without need")
		}
		path, lacks := k.lacking()
		if !slices.Equal(lacks, []string{"tickets:write"}) {
			t.Fatalf("the call lacks %v", lacks)
		}
		page := b.get(path)
		shows(t, page, 200, "Connect Sandbox again", "alice", "What is missing", "to create the tickets that you approve", "What is asked for again")
		if missing, rest, _ := strings.Cut(page.body, "What is asked for again"); !strings.Contains(missing, "tickets:write") || strings.Contains(missing, "tickets:read") || strings.Contains(rest, "tickets:write") {
			t.Errorf("the page mixes what is missing with what is not:\n%s", page.body)
		}
		to, err := url.Parse(k.submit(b, path).leave(t))
		if err != nil {
			t.Fatal(err)
		}
		asked := strings.Fields(to.Query().Get("scope"))
		slices.Sort(asked)
		if want := []string{"offline_access", "profile:read", "tickets:read", "tickets:write"}; !slices.Equal(asked, want) {
			t.Errorf("the provider is asked for %v, want %v", asked, want)
		}
		shows(t, b.get(k.atProvider(to.String(), "alice", true)), 200, "is connected", "tickets:write")
		if r := k.create(acmeAlice, draft); r.Pending == nil {
			t.Errorf("the same call answers %s %v", r.Status, r.Error)
		}
		if views, err := k.host.Credentials.List(t.Context(), acmeAlice); err != nil || len(views) != 1 || views[0].Connection.ID != id {
			t.Errorf("connections are %v, %v", views, err)
		}
		// The link has nothing more to ask for.
		if done := b.get(path); strings.Contains(done.body, "What is missing") {
			t.Error("what was granted still counts as missing")
		}
	})
}

// Guarantee: CRE7 (the administrator's list counts again when the page is opened and
// when it is sent)
func TestStepUpPassesPolicyAgain(t *testing.T) {
	t.Parallel()
	k := readOnly(t, storetest.SQLite(t))
	b := k.as(acmeAlice)
	b.connect("alice")
	before := k.org.Hits("GET /oauth/authorize")
	path, _ := k.lacking()
	shows(t, k.as(acmeBob).get(path), 403, "This link was made for another person")
	all := k.console.cfg.Providers()
	all[0].Scopes = slices.DeleteFunc(all[0].Scopes, func(s Scope) bool { return s.Name == "tickets:write" })
	k.console.cfg.Providers = func() []Provider { return all }
	for _, a := range []answer{b.get(path), k.submit(b, path)} {
		shows(t, a, 403, "The administrator does not let this be asked for")
	}
	if n := k.org.Hits("GET /oauth/authorize"); n != before {
		t.Errorf("%d people were sent to the provider", n-before)
	}
}

// A page that could be opened again and again would send its person to the provider
// as often.
func TestStepUpIsAskedTwiceAnHour(t *testing.T) {
	t.Parallel()
	k := readOnly(t, storetest.SQLite(t))
	b := k.as(acmeAlice)
	b.connect("alice")
	path, _ := k.lacking()
	for range 2 {
		shows(t, b.get(k.atProvider(k.submit(b, path).leave(t), "alice", false)), 403, "declined")
	}
	shows(t, k.submit(b, path), 429, "asked for twice within an hour")
}

// Of several connections the person says which one is meant.
func TestStepUpOfSeveralConnectionsIsAChoice(t *testing.T) {
	t.Parallel()
	k := readOnly(t, storetest.SQLite(t))
	b := k.as(acmeAlice)
	id := b.connect("alice")
	a := b.post("/connect", url.Values{"provider": {"sandbox"}, "connection": {""}})
	shows(t, b.get(k.atProvider(a.leave(t), "bob", true)), 200, "bob at Acme is connected")
	link, err := k.console.ConnectLink(t.Context(), acmeAlice, "sandbox", []string{"tickets:write"})
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(link, k.server.URL)
	shows(t, b.get(path), 200, "You have connected this ticket system already", "Renew alice at Acme", "Renew bob at Acme")
	chosen := b.post("/connect", url.Values{"t": {strings.TrimPrefix(path, "/connect?t=")}, "connection": {string(id)}})
	shows(t, b.get(k.atProvider(chosen.leave(t), "alice", true)), 200, "alice at Acme is connected", "tickets:write")
}
