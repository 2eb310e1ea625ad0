package transport

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var dirtyPaths = []string{
	"", "a", "issues", "//evil.example/a", "/a//b", "/..", "/../b", "/a/../b", "/a/./b", "/a/..", "/.", "/a/..;/b", "/a/.;x=1/b",
	"/%2e%2e/b", "/%2E./b", "/a%2fb", "/a%2Fb", "/a%5cb", `/a\b`, "/a%00b", "/a%0d%0ab", "/a%7fb", "/a%", "/a%2", "/a%zz",
	"/%252e%252e/b", "/a%252fb", "/%c0%ae%c0%ae/b", "/%c0%af", "/%ff", "/a?b=c", "/a#b", "/a b", "/a\tb", "/a\r\nHost: evil",
	"/a\x00", "/ä", "/\u3002\u3002/", "https://evil.example/a", "//", "/a/ /b", `/a"b`, "/a<b>", "/a^b", "/a|b", "/a{b}", "/a`b", "/a\x7f",
}

// Guarantee: NET1
func TestUncleanPathsSendNothing(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url+"/api")))
	for _, p := range dirtyPaths {
		for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
			r := read(p)
			if class == connector.ClassWrite {
				r = write(p, "{}")
			}
			resp, err := tr.Do(t.Context(), alice, class, r)
			e := connector.AsError(err)
			if e == nil || e.Code != connector.CodeEgressBlocked || len(resp.Attempts) != 0 {
				t.Errorf("%q: error %v, attempts %d; want EGRESS_BLOCKED, 0", p, err, len(resp.Attempts))
			} else if class == connector.ClassWrite && e.Effect != connector.DispositionNotApplied {
				t.Errorf("%q: effect %v", p, e.Effect)
			}
		}
	}
	if n := s.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestCleanPathsArriveAsTheyAre(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url+"/api")))
	paths := []string{"/", "/a", "/a/", "/a/b.c", "/a/...", "/.well-known/x", "/a%20b", "/%C3%A4/x", "/50%25", "/a;v=1/b", "/a:b@c,d=e+f~g!$&'()*", "/a%3Fb%23c", "/%e2%82%ac"}
	for _, p := range paths {
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read(p)); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for i, r := range s.requests() {
		if r.target != "/api"+paths[i] {
			t.Errorf("%q arrived as %q", paths[i], r.target)
		}
	}
}

func fuzzEndpoint(t testing.TB) *endpoint {
	at, err := Profile{BaseURL: "https://api.example.com/v1/x"}.parse()
	if err != nil {
		t.Fatal(err)
	}
	return &endpoint{places: at}
}

// inside is an independent reading of what may be sent.
func inside(t *testing.T, raw string) {
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("%q does not parse again", raw)
	}
	if u.Scheme != "https" || u.Host != "api.example.com" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		t.Fatalf("%q is another origin", raw)
	}
	for p := u.EscapedPath(); ; {
		if c := path.Clean(p); c != strings.TrimSuffix(p, "/") || !strings.HasPrefix(c+"/", "/v1/x/") || strings.Contains(p, `\`) {
			t.Fatalf("%q is outside", raw)
		}
		next, err := url.PathUnescape(p)
		if err != nil || next == p {
			return
		}
		p = next
	}
}

func FuzzGate(f *testing.F) {
	for _, p := range dirtyPaths {
		f.Add(p, p)
	}
	f.Add("/a/50%25", "q=1")
	e := fuzzEndpoint(f)
	f.Fuzz(func(t *testing.T, p, q string) {
		u, err := e.target(p, url.Values{q: {q}})
		if err != nil {
			return
		}
		if err := e.admit(u); err != nil {
			t.Fatalf("%q was composed and then refused: %v", p, err)
		}
		inside(t, u.String())
	})
}

func FuzzRedirect(f *testing.F) {
	for _, p := range append(dirtyPaths, "?page=2", "b", "/v1/x/b", "https://api.example.com/v1/x/b?c=d", "https://api.example.com:443/v1/x/b",
		"https://api.example.com./v1/x", "https://API.example.com/v1/x/", "https://u@api.example.com/v1/x/", "https:api.example.com") {
		f.Add(p)
	}
	e := fuzzEndpoint(f)
	from, err := e.target("/a/b", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, location string) {
		if u, err := e.follow(from, location); err == nil && u != nil {
			inside(t, u.String())
		}
	})
}
