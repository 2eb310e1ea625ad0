package transport

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var redirectStatuses = []int{301, 302, 303, 307, 308}

// Guarantee: NET3
func TestRedirectElsewhereIsBlocked_G01_G02_G03_G04_G08_S13_T18(t *testing.T) {
	foreign := serve(t, always(200, `{"stolen":true}`))
	host := strings.TrimPrefix(foreign.url, "http://")
	_, port, _ := net.SplitHostPort(host)
	for name, location := range map[string]string{
		"another port":       foreign.url + "/1",
		"without a scheme":   "//" + host + "/1",
		"a name":             "http://localhost:" + port + "/1",
		"https":              "https://" + host + "/1",
		"sub-domain":         "http://x.127.0.0.1:" + port + "/",
		"zone":               "http://[::1%25.127.0.0.1]:" + port + "/",
		"metadata":           "http://169.254.169.254/latest/meta-data",
		"user info":          "http://127.0.0.1:1@" + host + "/",
		"backslash":          `/\` + host + "/1",
		"file":               "file:///etc/passwd",
		"opaque":             "http:" + host,
		"dot segments":       "/a/%2e%2e/b",
		"control characters": "/a%0d%0ab",
	} {
		for _, status := range redirectStatuses {
			t.Run(fmt.Sprintf("%s/%d", name, status), func(t *testing.T) {
				s := serve(t, always(status, "", "Location: "+location))
				tr := newTransport(t, quick(Loopback("org", s.url)))
				resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a"))
				if got := connector.CodeOf(err); got != connector.CodeEgressBlocked {
					t.Errorf("code = %v, want EGRESS_BLOCKED", got)
				}
				if len(resp.Attempts) != 1 || len(s.requests()) != 1 || resp.Status != status {
					t.Errorf("attempts %d, requests %d, status %d; want 1, 1, %d", len(resp.Attempts), len(s.requests()), resp.Status, status)
				}
			})
		}
	}
	if n := foreign.connections(); n != 0 {
		t.Errorf("the foreign server got %d connections, want 0", n)
	}
}

func TestRedirectToAnotherSchemeIsBlocked_G04(t *testing.T) {
	s := serve(t, func(_ int, _ seen, c net.Conn) bool {
		return say(c, 302, "", "Location: https://"+c.LocalAddr().String()+"/1")
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	_, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a"))
	if connector.CodeOf(err) != connector.CodeEgressBlocked || s.connections() != 1 {
		t.Errorf("error %v, %d connections; want EGRESS_BLOCKED, 1", err, s.connections())
	}
}

// The pin looks at what is about to be sent, whoever composed it.
func TestOriginPinStandsBeforeTheCredential(t *testing.T) {
	foreign := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", "http://127.0.0.1:1/api")))
	tr.credentials = authorizer(func() (Credential, error) { t.Error("a credential was asked for"); return token(1), nil })
	for _, raw := range []string{foreign.url + "/api/t", "https://127.0.0.1:1/api/t", "http://u@127.0.0.1:1/api/t", "http://127.0.0.1:1/apix", "http://127.0.0.1:1/"} {
		c, err := tr.prepare(alice, connector.ClassRead, read("/t"))
		if err != nil {
			t.Fatal(err)
		}
		if c.url, err = url.Parse(raw); err != nil {
			t.Fatal(err)
		}
		if resp, err := c.run(t.Context()); connector.CodeOf(err) != connector.CodeEgressBlocked || len(resp.Attempts) != 0 {
			t.Errorf("%s: %v after %d attempts", raw, err, len(resp.Attempts))
		}
	}
	if n := foreign.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestRedirectInsideTheProfileIsFollowedByReads(t *testing.T) {
	for _, status := range redirectStatuses {
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			if n < 3 {
				return say(c, status, "", fmt.Sprintf("Location: /api/hop%d?page=2", n))
			}
			return say(c, 200, `{"at":"end"}`)
		})
		tr := newTransport(t, quick(Loopback("org", s.url+"/api")))
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/start"))
		if err != nil || resp.Status != 200 || len(resp.Attempts) != 4 {
			t.Fatalf("%d: status %d, attempts %d, err %v; want 200, 4, nil", status, resp.Status, len(resp.Attempts), err)
		}
		for i, r := range s.requests() {
			if !strings.HasPrefix(r.header.Get("Authorization"), "Bearer "+canary) || r.method != http.MethodGet {
				t.Errorf("%d: hop %d was %s with authorization %t", status, i, r.method, r.header.Get("Authorization") != "")
			}
		}
		if got := s.requests()[3].target; got != "/api/hop2?page=2" {
			t.Errorf("%d: last target %q", status, got)
		}
	}
}

func TestRedirectsEnd(t *testing.T) {
	s := serve(t, always(302, "", "Location: /again"))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a"))
	if connector.CodeOf(err) != connector.CodeProviderContract || len(resp.Attempts) != 4 || len(s.requests()) != 4 {
		t.Errorf("err %v, attempts %d, requests %d; want PROVIDER_CONTRACT, 4, 4", err, len(resp.Attempts), len(s.requests()))
	}
}

func TestRedirectOutOfTheBasePathIsAnAnswer_T17(t *testing.T) {
	for _, location := range []string{"/users/sign_in", "/apiary/x", "/"} {
		s := serve(t, always(302, "", "Location: "+location))
		tr := newTransport(t, quick(Loopback("org", s.url+"/api")))
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a"))
		if err != nil || resp.Status != 302 || len(s.requests()) != 1 {
			t.Errorf("%s: status %d, requests %d, err %v; want 302, 1, nil", location, resp.Status, len(s.requests()), err)
		}
	}
}

// Guarantee: NET3
func TestWriteFollowsNoRedirect_G06(t *testing.T) {
	for _, status := range redirectStatuses {
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			if n == 0 {
				return say(c, status, "", "Location: /t")
			}
			return say(c, 200, `[]`)
		})
		tr := newTransport(t, quick(Loopback("org", s.url)))
		resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
		if err != nil || resp.Status != status || len(resp.Attempts) != 1 || len(s.requests()) != 1 {
			t.Errorf("%d: status %d, attempts %d, requests %d, err %v", status, resp.Status, len(resp.Attempts), len(s.requests()), err)
		}
	}
}
