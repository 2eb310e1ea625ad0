package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// Guarantee: OPS2
// Guarantee: CRE1
func TestConnectShowsWhoWhatAndWhyThenTheAccount(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		shows(t, b.get("/connections"), 200, "No account is connected. Connect one first")
		shows(t, b.get("/connect"), 200, "Sandbox")
		shows(t, b.get("/connect?provider=sandbox"), 200, "alice", "acme", "tickets:write", "to create the tickets that you approve", "drawbridge connect --provider sandbox")
		a := b.post("/connect", url.Values{"provider": {"sandbox"}, "projects": {"orders"}})
		to, err := url.Parse(a.leave(t))
		if err != nil || to.Query().Get("code_challenge_method") != "S256" || to.Query().Get("redirect_uri") != k.server.URL+"/callback/sandbox" {
			t.Fatalf("the way to the provider is %s", to)
		}
		if strings.Contains(to.String(), "webhooks:manage") {
			t.Errorf("an extra permission was asked for without need")
		}
		done := b.get(k.atProvider(to.String(), "alice", true))
		shows(t, done, 200, "alice at Acme is connected", "tickets:read", "Projectsorders\n")
		if strings.Contains(done.url.String(), "code=") {
			t.Errorf("the code stays in the address: %s", done.url)
		}
		shows(t, b.get("/connections"), 200, "alice", "works")
	})
}

// Guarantee: CRE1
func TestT2ReplayedAndForeignCallbacksSaySo(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		alice := k.as(acmeAlice)
		a := alice.post("/connect", url.Values{"provider": {"sandbox"}})
		back := k.atProvider(a.leave(t), "alice", true)
		shows(t, alice.get(back), 200, "is connected")
		exchanges := k.org.OAuthStats().TokenRequests["authorization_code"]
		shows(t, alice.get(back), 409, "This sign-in was used before", "The connection that was made")

		a = alice.post("/connect", url.Values{"provider": {"sandbox"}, "connection": {""}})
		back = k.atProvider(a.leave(t), "alice", true)
		shows(t, k.as(acmeBob).get(back), 404, "This sign-in was not started in this browser")
		// It was in the wrong hands, so it is dead for the right ones, too.
		shows(t, alice.get(back), 409, "start again")
		// The same person in another browser did not start it either.
		a = alice.post("/connect", url.Values{"provider": {"sandbox"}, "connection": {""}})
		shows(t, k.as(acmeAlice).get(k.atProvider(a.leave(t), "alice", true)), 404, "This sign-in was not started in this browser")
		shows(t, k.browser().get(back), 401, "You are not signed in here")
		if n := k.org.OAuthStats().TokenRequests["authorization_code"]; n != exchanges {
			t.Errorf("%d codes were exchanged after the first, want none", n-exchanges)
		}
		shows(t, alice.get("/callback/sandbox?code=x&state=none"), 404, "not started in this browser")
		shows(t, alice.get("/callback/sandbox?code=x"), 400, "names no sign-in")
	})
}

func TestExpiredSignInSaysSo(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		back := k.atProvider(b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t), "alice", true)
		k.exec(`UPDATE cred_transactions SET expires_at = 1`)
		shows(t, b.get(back), 410, "This sign-in took too long")
	})
}

// Guarantee: CRE2
func TestT3AnswerOfAnotherServerIsRefused(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		for name, change := range map[string]func(string) string{
			"another iss": func(back string) string {
				return strings.Replace(back, url.QueryEscape(k.org.Issuer()), url.QueryEscape("https://evil.example"), 1)
			},
			"no iss": func(back string) string {
				u, _ := url.Parse(back)
				q := u.Query()
				q.Del("iss")
				u.RawQuery = q.Encode()
				return u.String()
			},
		} {
			back := k.atProvider(b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t), "alice", true)
			if changed := change(back); changed == back {
				t.Fatalf("%s: the answer has no iss to change", name)
			} else {
				shows(t, b.get(changed), 403, "The answer came from another server")
			}
		}
		if n := k.org.OAuthStats().TokenRequests["authorization_code"]; n != 0 {
			t.Errorf("%d codes were exchanged, want none", n)
		}
	})
}

// Guarantee: CRE2
func TestT3AnswerOnAnotherProvidersPathIsForeign(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		back := k.atProvider(b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t), "alice", true)
		for _, path := range []string{"/callback/other", "/callback"} {
			shows(t, b.get(strings.Replace(back, "/callback/sandbox", path, 1)), map[string]int{"/callback/other": 404, "/callback": 404}[path], "not started in this browser")
		}
		shows(t, b.get(back), 409, "start again")
	})
}

func TestDeclinedAtTheProvider(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		back := k.atProvider(b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t), "alice", false)
		shows(t, b.get(back), 403, "Access was declined at the provider")
		shows(t, b.get("/connections"), 200, "No account is connected")
	})
}

// Guarantee: CRE3
func TestT14AnotherAccountNeedsAChoice(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		id := b.connect("alice")
		shows(t, b.get("/connect?connection="+string(id)), 200, "Sign in with the same account")
		a := b.post("/connect", url.Values{"connection": {string(id)}})
		switched := b.get(k.atProvider(a.leave(t), "bob", true))
		shows(t, switched, 409, "You signed in with another account", "bob", "the old connection is unchanged", `href="/connect?provider=sandbox"`)
		if views, _ := k.host.Credentials.List(t.Context(), acmeAlice); len(views) != 1 || views[0].Connection.Account.Login != "alice" {
			t.Fatalf("connections are %v", views)
		}
		// The deliberate choice.
		shows(t, b.get("/connect?provider=sandbox"), 200, "You have connected this ticket system already", "Connect another account beside it")
		a = b.post("/connect", url.Values{"provider": {"sandbox"}, "connection": {""}})
		shows(t, b.get(k.atProvider(a.leave(t), "bob", true)), 200, "bob at Acme is connected", "orders, web, secret")
		if views, _ := k.host.Credentials.List(t.Context(), acmeAlice); len(views) != 2 {
			t.Fatalf("%d connections, want 2", len(views))
		}
	})
}

// Guarantee: CRE1
func TestT1C42ForwardedConnectLinkIsForOnePersonOnly(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		link, err := k.console.ConnectLink(t.Context(), acmeAlice, "sandbox", []string{"tickets:read", "profile:read", "webhooks:manage"})
		if err != nil {
			t.Fatal(err)
		}
		for _, personal := range []string{"alice", "acme", "sandbox", "tickets"} {
			if strings.Contains(strings.TrimPrefix(link, k.server.URL), personal) {
				t.Errorf("the link %s names %q", link, personal)
			}
		}
		path := strings.TrimPrefix(link, k.server.URL)
		token := strings.TrimPrefix(path, "/connect?t=")
		// Not signed in: the sign-in comes first, and leads back.
		out := k.browser().get(path)
		if out.url.Path != "/signin" || out.url.Query().Get("return") != path {
			t.Errorf("a stranger is sent to %s", out.url)
		}
		for _, other := range []connector.Caller{acmeBob, globexAlice} {
			b := k.as(other)
			for _, a := range []answer{b.get(path), b.post("/connect", url.Values{"t": {token}})} {
				shows(t, a, 403, "This link was made for another person", "Nothing was connected")
				main := a.body[strings.Index(a.body, "<main"):]
				for _, leak := range []string{"sandbox", "Sandbox", "tickets:read", "alice"} {
					if strings.Contains(main, leak) {
						t.Errorf("%v is told %q", other, leak)
					}
				}
			}
		}
		if n := k.org.Hits("GET /oauth/authorize"); n != 0 {
			t.Errorf("%d people were sent to the provider", n)
		}
		alice := k.as(acmeAlice)
		page := alice.get(path)
		shows(t, page, 200, "webhooks:manage", "to be told of changes")
		if strings.Contains(page.body, "tickets:write") {
			t.Errorf("the page asks for more than the link")
		}
		a := alice.post("/connect", url.Values{"t": {token}})
		if to, _ := url.Parse(a.leave(t)); to.Query().Get("scope") != "tickets:read profile:read webhooks:manage" {
			t.Errorf("asked for %q", to.Query().Get("scope"))
		}
		// The second half in somebody else's browser.
		shows(t, k.as(acmeBob).get(k.atProvider(a.leave(t), "bob", true)), 404, "not started in this browser")
		k.exec(`UPDATE console_link SET expires_at = 1`)
		shows(t, alice.get(path), 410, "This link no longer works")
	})
}

func TestConnectLinkIsRefusedForWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	for name, c := range map[string]struct {
		who      connector.Caller
		provider string
		scopes   []string
		want     connector.Code
	}{
		"provider": {acmeAlice, "nowhere", nil, connector.CodeNotFound},
		"scope":    {acmeAlice, "sandbox", []string{"admin"}, connector.CodePermissionDenied},
		"nobody":   {connector.Caller{}, "sandbox", nil, connector.CodePermissionDenied},
	} {
		if _, err := k.console.ConnectLink(t.Context(), c.who, c.provider, c.scopes); connector.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A connect link and a sign-in link open nothing of each other.
func TestLinksAreOfOneKind(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	connect, err := k.console.ConnectLink(t.Context(), acmeAlice, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	token := connect[strings.Index(connect, "t=")+2:]
	shows(t, k.browser().do(k.browser().request("POST", "/signin/local", url.Values{"t": {token}})), 410, "This link no longer works")
	local, err := k.console.LocalLink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shows(t, k.as(acmeAlice).get("/connect?t="+local[strings.Index(local, "t=")+2:]), 410, "This link no longer works")
}

func TestPrefetchOfTheCallbackSpendsNothing(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	b := k.as(acmeAlice)
	back := k.atProvider(b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t), "alice", true)
	for _, header := range []string{"Sec-Purpose", "Purpose"} {
		r := b.request(http.MethodGet, back, nil)
		r.Header.Set(header, "prefetch")
		if a := b.do(r); a.status != http.StatusNoContent {
			t.Errorf("%s: %d", header, a.status)
		}
	}
	if a := b.do(b.request(http.MethodHead, back, nil)); a.status != http.StatusNoContent {
		t.Errorf("HEAD: %d", a.status)
	}
	shows(t, b.get(back), 200, "is connected")
}

// Guarantee: CRE8
func TestDisconnectAsksThenShowsItsSteps(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		id := string(b.connect("alice"))
		shows(t, b.get("/connections/"+id+"/disconnect"), 200, "nothing is read or written", "drawbridge connections disconnect "+id)
		if v, _ := k.host.Credentials.Show(t.Context(), acmeAlice, connector.ConnectionID(id)); v.Status != credentials.StatusActive {
			t.Fatalf("looking at the question made it %s", v.Status)
		}
		shows(t, b.post("/connections/"+id+"/disconnect", nil), 200, "Stopped here: done", "Refresh token revoked: done", "Did the provider confirm it all? <strong>yes</strong>")
		if n := k.org.OAuthStats().RevocationRequests; n == 0 {
			t.Errorf("the provider saw no revocation")
		}
		shows(t, b.get("/connections/"+id+"/connected"), 200, "Disconnecting, step by step")
		shows(t, b.get("/connect?connection="+id), 404) // what is cut is not renewed
	})
}

// Guarantee: CRE8
func TestDisconnectShowsWhatIsStillPending(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		id := string(b.connect("alice"))
		k.org.Close()
		shows(t, b.post("/connections/"+id+"/disconnect", nil), 200, "Stopped here: done", "Refresh token revoked: pending", "<strong>unknown</strong>")
	})
}
