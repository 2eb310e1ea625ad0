package dev_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
)

// Guarantee: OPS2
func TestNobodyComesInUnasked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, path := range []string{"/", "/tools/tickets.create", "/wire", "/log", "/faults", "/operations", "/nowhere"} {
		if status, text := d.do(http.MethodGet, path, nil, nil); status != http.StatusUnauthorized || strings.Contains(text, "tickets.create") {
			t.Errorf("%s answers %d to a stranger: %s", path, status, plain(text))
		}
	}
	if status, _ := d.post("/tools/tickets.create", draft("stranger")...); status != http.StatusUnauthorized {
		t.Errorf("a stranger's call is answered with %d", status)
	}
	if status, _ := d.enter(d.base + "/enter?t=guessed"); status != http.StatusGone {
		t.Errorf("a guessed link answers %d", status)
	}
	// Looking at the link does not use it up; coming in does.
	if status, text := d.do(http.MethodGet, strings.TrimPrefix(d.link, d.base), nil, nil); status != http.StatusOK || !strings.Contains(text, "Come in") {
		t.Errorf("the link shows %d", status)
	}
	if status, _ := d.enter(d.link); status != http.StatusOK {
		t.Errorf("the link answers %d", status)
	}
	d.web.Jar = nil
	if status, _ := d.enter(d.link); status != http.StatusGone {
		t.Errorf("the used link answers %d", status)
	}
	if n := len(d.bench.Proxy.Seen()); n != 1 { // identify, at the connection
		t.Errorf("the provider was asked %d times", n)
	}
}

// A page elsewhere can neither be taken for this one nor send a form to it.
// Guarantee: OPS2
func TestOtherSitesGetNothing(t *testing.T) {
	t.Parallel()
	d := inside(t)
	for _, host := range []string{"evil.example", "localhost:" + port(t, d.base), "127.0.0.1", "127.0.0.1:1"} {
		if status, text := d.do(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = host }); status != http.StatusMisdirectedRequest || strings.Contains(text, "tickets") {
			t.Errorf("as %s it answers %d", host, status)
		}
	}
	form := url.Values{"csrf": {d.csrf}, "fault": {"lose"}, "on": {"all"}}
	for name, change := range map[string]func(*http.Request){
		"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"another port":   func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
		"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
	} {
		if status, _ := d.do(http.MethodPost, "/faults", form, change); status != http.StatusForbidden {
			t.Errorf("%s: a form is answered with %d", name, status)
		}
	}
	form.Del("csrf")
	if status, _ := d.do(http.MethodPost, "/faults", form, nil); status != http.StatusForbidden {
		t.Errorf("a form without its token is answered with %d", status)
	}
	if n := d.bench.Proxy.Unspent(); n != 0 {
		t.Errorf("%d faults were switched on", n)
	}
}

func port(t *testing.T, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// Guarantee: OPS2
func TestEveryAnswerIsGuarded(t *testing.T) {
	t.Parallel()
	d := inside(t)
	for _, path := range []string{"/", "/style.css", "/enter", "/nowhere", "/calls/1"} {
		resp, err := d.web.Get(d.base + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s has the policy %q", path, policy)
		}
	}
	u, _ := url.Parse(d.base)
	for _, c := range d.web.Jar.Cookies(u) {
		if c.Name != "drawbridge-dev-"+u.Port() {
			t.Errorf("cookie %s: another run on this machine would overwrite it", c.Name)
		}
	}
}

func TestOnlyThisMachine(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:80", "localhost:0", "[::]:0", ""} {
		err := dev.Serve(t.Context(), dev.Bench{}, address, func(dev.Greeting) { t.Errorf("%q was listened on", address) })
		if err == nil || !strings.Contains(err.Error(), "no loopback address") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
