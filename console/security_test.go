package console

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/store"
)

// filled is a path of a route with ids in it.
func filled(path string) string {
	return strings.NewReplacer("{id}", "apr_none", "{provider}", "sandbox", "{$}", "").Replace(path)
}

// Guarantee: OPS2
func TestC1EveryPostNeedsTheSessionsTokenAndOurOrigin(t *testing.T) {
	t.Parallel()
	k := sqlite(t, func(c *Config) { c.Deliveries = &fakeDeliveries{} })
	b, other := k.as(acmeAlice), k.as(acmeAlice)
	token, foreign := b.csrf(), other.csrf()
	if token == foreign {
		t.Fatal("two sessions have one token")
	}
	posts := 0
	for _, r := range routes {
		if r.method != http.MethodPost {
			continue
		}
		posts++
		for name, c := range map[string]struct {
			token  string
			header map[string]string
			want   int
			says   string
		}{
			"no token":               {"", nil, 403, "This form is out of date"},
			"another session's":      {foreign, nil, 403, "This form is out of date"},
			"cut short":              {token[:len(token)-1], nil, 403, "This form is out of date"},
			"cross-site":             {token, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, "This form came from another site"},
			"same-site sibling":      {token, map[string]string{"Sec-Fetch-Site": "same-site"}, 403, "This form came from another site"},
			"foreign origin":         {token, map[string]string{"Origin": "https://evil.example"}, 403, "This form came from another site"},
			"opaque origin":          {token, map[string]string{"Origin": "null"}, 403, "This form came from another site"},
			"token in the address":   {"", nil, 403, "This form is out of date"},
			"a body that is no form": {token, map[string]string{"Content-Type": "text/plain"}, 403, "This form is out of date"},
		} {
			path := filled(r.path)
			if name == "token in the address" {
				path += "?csrf=" + url.QueryEscape(token)
			}
			req := b.request(r.method, path, url.Values{"csrf": {c.token}})
			for h, v := range c.header {
				req.Header.Set(h, v)
			}
			a := b.do(req)
			if r.open && c.header == nil || r.open && name == "a body that is no form" {
				// Its own one-time token stands in for the session's.
				if a.status != http.StatusGone {
					t.Errorf("%s %s: %d, want 410", r.path, name, a.status)
				}
				continue
			}
			if a.status != c.want || !strings.Contains(a.body, c.says) {
				t.Errorf("%s %s: %d, want %d with %q", r.path, name, a.status, c.want, c.says)
			}
		}
	}
	if posts < 9 {
		t.Fatalf("%d POST routes, the table has lost some", posts)
	}
	shows(t, b.get("/"), 200) // still signed in: no sign-out went through
	shows(t, b.post("/signout", nil), 200, "Sign in")
	if a := b.get("/"); a.url.Path != "/signin" {
		t.Errorf("signed out and still at %s", a.url)
	}
}

// Guarantee: OPS2
func TestEveryRouteIsClosedAgainstFramesAndStrangers(t *testing.T) {
	t.Parallel()
	k := sqlite(t, func(c *Config) { c.Deliveries = &fakeDeliveries{} })
	b, stranger := k.as(acmeAlice), k.browser()
	for _, who := range []*browser{b, stranger} {
		who.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	b.client.CheckRedirect = nil
	token := b.csrf()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, r := range routes {
		method := r.method
		if method == "" {
			method = http.MethodPut
		}
		if r.path == "/signout" {
			continue // below
		}
		for _, who := range []*browser{b, stranger} {
			a := who.do(who.request(method, filled(r.path), url.Values{"csrf": {token}}))
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
				"X-Frame-Options":         "DENY",
				"X-Content-Type-Options":  "nosniff",
				"Referrer-Policy":         "no-referrer",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s %s: %s is %q, want %q", method, r.path, name, got, want)
				}
			}
			if cache := a.header.Get("Cache-Control"); cache != "no-store" && r.path != "/style.css" {
				t.Errorf("%s %s: Cache-Control is %q", method, r.path, cache)
			}
			if strings.Contains(a.body, "<script") || strings.Contains(a.body, " style=") || strings.Contains(a.body, " onclick") {
				t.Errorf("%s %s has script or style in the page", method, r.path)
			}
			if who == stranger && !r.open {
				moved := a.status == http.StatusSeeOther && strings.HasPrefix(a.header.Get("Location"), "/signin?")
				if !moved && a.status != http.StatusUnauthorized {
					t.Errorf("%s %s answers a stranger with %d", method, r.path, a.status)
				}
			}
		}
	}
}

func TestAnotherHostNameAndALargeBodyAreRefused(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	b := k.as(acmeAlice)
	for _, host := range []string{"evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example", ""} {
		r := httptest.NewRequest(http.MethodGet, "/signin", nil)
		r.Host = host
		w := httptest.NewRecorder()
		k.console.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), "<") {
			t.Errorf("host %q: %d", host, w.Code)
		}
	}
	shows(t, b.post("/connect", url.Values{"provider": {strings.Repeat("x", maxBody)}}), 413, "This is too large")
}

func TestHostNamesAreComparedAsBrowsersWriteThem(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	for _, c := range []struct {
		base, host string
		want       bool
	}{
		{"https://drawbridge.example", "drawbridge.example", true},
		{"https://drawbridge.example", "Drawbridge.Example:443", true},
		{"https://drawbridge.example", "drawbridge.example:80", false},
		{"https://drawbridge.example:8443", "drawbridge.example", false},
		{"http://[::1]:8080", "[::1]:8080", true},
		{"http://localhost", "localhost:80", true},
	} {
		config := k.console.cfg
		config.BaseURL = c.base
		console, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := console.sameHost(c.host); got != c.want {
			t.Errorf("%s for %s: %v", c.host, c.base, got)
		}
	}
}

func TestBaseURLsThatWouldNotBeSafe(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	for _, base := range []string{"", "drawbridge.example", "http://drawbridge.example", "http://10.0.0.1", "https://drawbridge.example/path",
		"https://drawbridge.example?x", "https://u@drawbridge.example", "https://drawbridge.example#f", "ftp://127.0.0.1"} {
		config := k.console.cfg
		config.BaseURL = base
		if _, err := New(config); err == nil {
			t.Errorf("%q was accepted", base)
		}
	}
}

// Guarantee: OPS2
func TestNoSignInEndsOnAnotherSite(t *testing.T) {
	for wish, want := range map[string]string{
		"/":                                      "/",
		"/approvals/apr_7h2k":                    "/approvals/apr_7h2k",
		"/operations":                            "/operations",
		"/connect?t=ABCDEFGHIJKLMNOPQRSTUVWXYZ":  "/connect?t=ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"":                                       "/",
		"https://evil.example":                   "/",
		"//evil.example":                         "/",
		"/\\evil.example":                        "/",
		"\\\\evil.example":                       "/",
		"/%2f/evil.example":                      "/",
		"/approvals//evil.example":               "/",
		"/approvals/../signout":                  "/",
		"/approvals/x?next=//evil":               "/",
		"/approvals/x#//evil":                    "/",
		"/approvals/x\n":                         "/",
		"/approvals/x\r\nSet-Cookie":             "/",
		"javascript:alert(1)":                    "/",
		" /approvals":                            "/",
		"/callback/sandbox?code=1":               "/",
		"/signin":                                "/",
		"/connect?t=AAAA&provider=x":             "/",
		"/connect?provider=sandbox":              "/",
		"/approvals/" + strings.Repeat("a", 100): "/",
	} {
		if got := returnTo(wish); got != want {
			t.Errorf("returnTo(%q) = %q, want %q", wish, got, want)
		}
	}
}

// Guarantee: OPS2
func TestSessionCookieAndFixation(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		link, err := k.console.LocalLink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := k.browser()
		base, _ := url.Parse(k.server.URL)
		// What an attacker planted before the sign-in.
		planted := &http.Cookie{Name: "drawbridge-session", Value: "PLANTEDPLANTEDPLANTEDPLANTED", Path: "/"}
		b.client.Jar.SetCookies(base, []*http.Cookie{planted})
		shows(t, b.get(strings.TrimPrefix(link, k.server.URL)), 200, "Sign in") // shows a button
		token := link[strings.Index(link, "t=")+2:]
		signIn := func() answer {
			b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			defer func() { b.client.CheckRedirect = nil }()
			return b.do(b.request(http.MethodPost, "/signin/local", url.Values{"t": {token}}))
		}
		a := signIn()
		cookies, _ := http.ParseSetCookie(a.header.Get("Set-Cookie"))
		if a.status != http.StatusSeeOther || cookies == nil || cookies.Value == planted.Value || len(cookies.Value) < 26 ||
			!cookies.HttpOnly || cookies.SameSite != http.SameSiteLaxMode || cookies.Path != "/" || cookies.Domain != "" || cookies.MaxAge != 0 {
			t.Fatalf("%d with cookie %v", a.status, cookies)
		}
		shows(t, b.get("/"), 200, "alice of acme")
		var kept int
		if err := k.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT count(*) FROM console_session WHERE token_hash = ?`, []byte(cookies.Value)).Scan(&kept); err != nil || kept != 0 {
			t.Errorf("the database holds the token itself (%v)", err)
		}
		shows(t, signIn(), 410, "was used before")

		// A second sign-in ends the session that the browser had.
		link, _ = k.console.LocalLink(t.Context())
		token = link[strings.Index(link, "t=")+2:]
		signIn()
		thief := k.browser()
		thief.client.Jar.SetCookies(base, []*http.Cookie{{Name: cookies.Name, Value: cookies.Value, Path: "/"}})
		if a := thief.get("/"); a.url.Path != "/signin" {
			t.Errorf("the session from before the sign-in still works")
		}
		shows(t, b.get("/"), 200, "alice of acme")

		link, _ = k.console.LocalLink(t.Context())
		token = link[strings.Index(link, "t=")+2:]
		k.exec(`UPDATE console_link SET expires_at = 1`)
		shows(t, signIn(), 410, "has expired")
	})
}

func TestCookieOverHTTPSIsForThisHostOnly(t *testing.T) {
	t.Parallel()
	k := sqlite(t, func(c *Config) { c.BaseURL = "https://drawbridge.example" })
	w := httptest.NewRecorder()
	if err := k.console.signIn(t.Context(), w, nil, acmeAlice, "alice"); err != nil {
		t.Fatal(err)
	}
	c := w.Result().Cookies()[0]
	if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || c.Path != "/" || c.Domain != "" || !c.HttpOnly {
		t.Errorf("cookie is %v", c)
	}
	r := httptest.NewRequest(http.MethodGet, "https://drawbridge.example/", nil)
	r.AddCookie(c)
	w = httptest.NewRecorder()
	k.console.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Header().Get("Strict-Transport-Security") == "" {
		t.Errorf("%d with %v", w.Code, w.Header())
	}
	// The plain name is somebody else's cookie there.
	r = httptest.NewRequest(http.MethodGet, "https://drawbridge.example/", nil)
	r.AddCookie(&http.Cookie{Name: "drawbridge-session", Value: c.Value})
	w = httptest.NewRecorder()
	k.console.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusSeeOther {
		t.Errorf("a cookie without the prefix was taken: %d", w.Code)
	}
}

func TestSessionsEnd(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		for name, age := range map[string]string{
			"idle":     `UPDATE console_session SET seen_at = seen_at - 3600000`,
			"absolute": `UPDATE console_session SET expires_at = expires_at - 43200000`,
		} {
			b := k.as(acmeAlice)
			shows(t, b.get("/"), 200)
			k.exec(age)
			if a := b.get("/"); a.url.Path != "/signin" {
				t.Errorf("%s: still signed in", name)
			}
		}
		b := k.as(acmeAlice)
		for range 3 { // use keeps it alive
			k.exec(`UPDATE console_session SET seen_at = seen_at - 3000000`)
			shows(t, b.get("/"), 200)
		}
		k.exec(`UPDATE console_session SET expires_at = 1 WHERE tenant = ?`, "acme")
		k.as(acmeBob)
		var left int
		if err := k.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT count(*) FROM console_session`).Scan(&left); err != nil || left != 1 {
			t.Errorf("%d sessions are kept (%v), want 1", left, err)
		}
	})
}

func TestSecretsStayOutOfTheDatabase(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	s := session{token: "ABC"}
	if s.csrf() == s.browserKey("/callback") || s.browserKey("/callback") == s.browserKey("/callback/x") {
		t.Error("two purposes share a secret")
	}
	link, err := k.console.ConnectLink(t.Context(), acmeAlice, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	var kept int
	if err := k.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT count(*) FROM console_link WHERE token_hash = ?`, []byte(link[strings.Index(link, "t=")+2:])).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("the database holds the token itself (%v)", err)
	}
}

var _ Credentials = (*credentials.Service)(nil)
