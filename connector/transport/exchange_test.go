package transport

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestExchangeOnTheWire(t *testing.T) {
	s := serve(t, always(200, "access_token=x", "Content-Type: application/x-www-form-urlencoded"))
	p := quick(Loopback("org", s.url+"/api"))
	tr := newTransport(t, p)
	resp, err := tr.Exchange(t.Context(), "org", Exchange{
		URL: s.url + "/login/oauth/access_token?x=1", Form: url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"a b&c"}},
		Header: http.Header{"authorization": {"Basic abc"}},
	})
	if err != nil || resp.Status != 200 || string(resp.Body) != "access_token=x" || len(resp.Attempts) != 1 || !resp.Attempts[0].WroteRequest {
		t.Fatalf("%+v, %v", resp, err)
	}
	if _, err := tr.Exchange(t.Context(), "org", Exchange{URL: s.url}); err != nil {
		t.Fatal(err)
	}
	got := s.requests()
	if got[0].method != "POST" || got[0].target != "/login/oauth/access_token?x=1" || got[0].body != "grant_type=refresh_token&refresh_token=a+b%26c" ||
		got[0].header.Get("Authorization") != "Basic abc" || got[0].header.Get("Accept") != "application/json" {
		t.Errorf("sent %+v", got[0])
	}
	if got[1].method != "GET" || got[1].target != "/" || got[1].header.Get("Authorization") != "" || got[1].header.Get("Content-Type") != "" {
		t.Errorf("sent %+v", got[1])
	}
	if n := s.connections(); n != 2 {
		t.Errorf("%d connections, want one for each exchange", n)
	}
}

// Guarantee: NET6
func TestExchangeIsNeverRepeated(t *testing.T) {
	ends := map[string]act{
		"401": always(401, `{}`), "429": always(429, `{}`, "Retry-After: 1"), "503": always(503, `{}`),
		"302": always(302, ``, "Location: /again"), "307": always(307, ``, "Location: /again"),
		"reset": func(_ int, _ seen, c net.Conn) bool { return reset(c) }, "closed": func(int, seen, net.Conn) bool { return false },
	}
	for name, end := range ends {
		for _, form := range []url.Values{nil, {"a": {"b"}}} {
			s := serve(t, end)
			resp, err := newTransport(t, quick(Loopback("org", s.url))).Exchange(t.Context(), "org", Exchange{URL: s.url + "/token", Form: form})
			if len(s.requests()) != 1 || len(resp.Attempts) != 1 {
				t.Errorf("%s: %d requests, %d attempts", name, len(s.requests()), len(resp.Attempts))
			}
			if resp.Status == 0 && (connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionUnknown) {
				t.Errorf("%s: %v, effect %v; want UNAVAILABLE, unknown", name, err, effect(err))
			}
			if resp.Status != 0 && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestExchangeThatNeverLeft(t *testing.T) {
	s := serve(t, always(200, `{}`))
	s.close()
	resp, err := newTransport(t, quick(Loopback("org", s.url))).Exchange(t.Context(), "org", Exchange{URL: s.url + "/token", Form: url.Values{}})
	if connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionNotApplied || len(resp.Attempts) != 1 || wrote(resp.Attempts) {
		t.Errorf("%v, effect %v, attempts %+v", err, effect(err), resp.Attempts)
	}
}

func TestExchangeBodies(t *testing.T) {
	for name, c := range map[string]struct {
		answer act
		want   connector.Code
	}{
		"oversized": {always(200, strings.Repeat("x", maxExchange+1)), connector.CodeTooLarge},
		"cut": {func(_ int, _ seen, c net.Conn) bool {
			io.WriteString(c, head+"Content-Length: 50\r\n\r\n{\"access")
			return false
		}, connector.CodeProviderContract},
	} {
		s := serve(t, c.answer)
		resp, err := newTransport(t, quick(Loopback("org", s.url))).Exchange(t.Context(), "org", Exchange{URL: s.url + "/token", Form: url.Values{}})
		if connector.CodeOf(err) != c.want || effect(err) != connector.DispositionUnknown || resp.Status != 200 || resp.Body != nil {
			t.Errorf("%s: %v, effect %v, status %d", name, err, effect(err), resp.Status)
		}
	}
}

// Guarantee: NET1
func TestExchangeStaysOnTheProfilesOrigins(t *testing.T) {
	api, login, foreign := serve(t, always(200, `{}`)), serve(t, always(200, `{}`)), serve(t, always(200, `{}`))
	p := quick(Loopback("org", api.url))
	p.AuthOrigins = []string{login.url}
	p.Private = append(p.Private, Loopback("", login.url).Private...)
	tr := newTransport(t, p)
	for _, u := range []string{api.url + "/token", login.url, login.url + "/.well-known/oauth-authorization-server"} {
		if _, err := tr.Exchange(t.Context(), "org", Exchange{URL: u}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	host := strings.TrimPrefix(api.url, "http://")
	for _, u := range []string{
		"", "/token", "token", foreign.url + "/token", "https://" + host + "/", "http://u:p@" + host + "/", api.url + "/a#b", api.url + "/a/../b", api.url + "/%2e%2e/b",
		api.url + "//a", "http:" + host, api.url + ".evil.example/", api.url + "@evil.example/", api.url + "/a b", api.url + "/a\r\nb", `http://` + host + `\@evil.example/`,
	} {
		resp, err := tr.Exchange(t.Context(), "org", Exchange{URL: u, Form: url.Values{"secret": {"x"}}})
		if connector.CodeOf(err) != connector.CodeEgressBlocked || effect(err) != connector.DispositionNotApplied || len(resp.Attempts) != 0 {
			t.Errorf("%q: %v", u, err)
		}
	}
	if n := foreign.connections(); n != 0 {
		t.Errorf("%d connections to a foreign origin", n)
	}
	for _, e := range []Exchange{
		{URL: api.url, Method: "PUT"}, {URL: api.url, Method: "GET", Form: url.Values{}},
		{URL: api.url, Header: http.Header{"Host": {"x"}}}, {URL: api.url, Header: http.Header{"Expect": {"100-continue"}}},
		{URL: api.url, Header: http.Header{"Proxy-Authorization": {"x"}}}, {URL: api.url, Header: http.Header{"X": {"a\r\nb"}}}, {URL: api.url, Header: http.Header{"a b": {"x"}}},
	} {
		if _, err := tr.Exchange(t.Context(), "org", e); connector.CodeOf(err) != connector.CodeInternal {
			t.Errorf("%+v: %v", e, err)
		}
	}
	// Do stays on the base URL, whatever else is open for exchanges.
	if n := len(login.requests()); n != 2 {
		t.Errorf("%d requests at the login server", n)
	}
}
