package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: NET1
// Numeric and wildcard-DNS hosts in a redirect are another origin like any other.
func TestRedirectToHostsThatMeanThisMachine_G11(t *testing.T) {
	foreign := serve(t, always(200, `{"stolen":true}`))
	_, port := hostAndPort(foreign.url)
	for _, host := range []string{"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "7f000001.nip.io", "localhost", "[::1]", "[::ffff:127.0.0.1]", "１２７.０.０.１", "127。0。0。1", "127.0.0.1."} {
		s := serve(t, always(302, "", fmt.Sprintf("Location: http://%s:%d/", host, port)))
		_, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, read("/a"))
		if connector.CodeOf(err) != connector.CodeEgressBlocked {
			t.Errorf("%s: %v, want EGRESS_BLOCKED", host, err)
		}
	}
	if n := foreign.connections(); n != 0 {
		t.Errorf("%d connections came through", n)
	}
}

// Guarantee: NET3
// A credential in a header of its own does not follow a redirect either, and no
// Referer tells anyone the query (G01, G02).
func TestOwnCredentialHeaderStaysHome_G01_G02(t *testing.T) {
	foreign := serve(t, always(302, "", "Location: /2"))
	s := serve(t, func(_ int, r seen, c net.Conn) bool {
		if strings.HasPrefix(r.target, "/inside") {
			return say(c, 200, `{}`)
		}
		if r.target == "/a?q=secret" {
			return say(c, 302, "", "Location: /inside")
		}
		return say(c, 302, "", "Location: "+foreign.url+"/1")
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	tr.credentials = authorizer(func() (Credential, error) { return setter{"X-Api-Key"}, nil })
	r := read("/a")
	r.Query = map[string][]string{"q": {"secret"}}
	if resp, err := tr.Do(t.Context(), alice, connector.ClassRead, r); err != nil || resp.Status != 200 {
		t.Fatalf("inside: %d, %v", resp.Status, err)
	}
	for _, got := range s.requests() {
		if got.header.Get("X-Api-Key") != "x" || got.header.Get("Referer") != "" {
			t.Errorf("%s carried %v", got.target, got.header)
		}
	}
	if resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/b")); connector.CodeOf(err) != connector.CodeEgressBlocked || len(resp.Attempts) != 1 {
		t.Errorf("outside: %v", err)
	}
	if n := foreign.connections(); n != 0 {
		t.Errorf("%d connections to the foreign host", n)
	}
}

// A server that answers before it has read the body must not spoil the next
// call (G21).
func TestEarlyAnswerToAWrite_G21(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads := make(chan http.Header, 8)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				c.Close()
				continue
			}
			heads <- r.Header
			if n == 0 { // not a byte of the body is read
				say(c, 401, `{"early":true}`, "Connection: close")
			} else {
				io.Copy(io.Discard, r.Body)
				say(c, 200, `{"clean":true}`)
			}
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	defer func() { l.Close(); <-served }()
	tr := newTransport(t, quick(Loopback("org", "http://"+l.Addr().String())))
	resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", strings.Repeat("x", 1<<20)))
	if err == nil && resp.Status != 401 || err != nil && effect(err) != connector.DispositionUnknown {
		t.Errorf("early: status %d, %v", resp.Status, err)
	}
	resp, err = tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
	if err != nil || string(resp.Body) != `{"clean":true}` {
		t.Errorf("the next call got %d, %s, %v", resp.Status, resp.Body, err)
	}
	for range 2 {
		if h := <-heads; h.Get("Expect") != "" {
			t.Errorf("sent Expect: %s", h.Get("Expect"))
		}
	}
}

// S7: a misdirected request is an answer, and not asked again.
func TestMisdirected_S7(t *testing.T) {
	s := serve(t, always(421, `{}`))
	resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err != nil || resp.Status != 421 || len(s.requests()) != 1 {
		t.Errorf("status %d, %v, %d requests", resp.Status, err, len(s.requests()))
	}
}

// S9: a process that was frozen comes back with connections that are long gone.
func TestFrozenProcessDialsAnew_S9(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	ep, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		gap         time.Duration
		connections int
	}{{0, 1}, {10 * time.Second, 1}, {maxGap + time.Second, 2}, {-time.Hour, 3}, {0, 3}} {
		ep.pool.mu.Lock()
		ep.pool.used = ep.pool.used.Add(-c.gap)
		ep.pool.mu.Unlock()
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil {
			t.Fatal(err)
		}
		if n := s.connections(); n != c.connections {
			t.Errorf("step %d, after %v: %d connections, want %d", i, c.gap, n, c.connections)
		}
	}
}

// Alternative services (RFC 7838) would be another origin that nobody checked.
func TestAlternativeServiceIsIgnored(t *testing.T) {
	foreign := serve(t, always(200, `{"stolen":true}`))
	_, port := hostAndPort(foreign.url)
	s := serve(t, always(200, `{}`, fmt.Sprintf(`Alt-Svc: h2=":%d"; ma=3600, http/1.1="127.0.0.1:%d"`, port, port)))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	for range 3 {
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil {
			t.Fatal(err)
		}
	}
	if foreign.connections() != 0 || len(s.requests()) != 3 {
		t.Errorf("%d connections to the alternative, %d requests at home", foreign.connections(), len(s.requests()))
	}
}

// S4: whatever a provider does, no layer below multiplies what the loop sends.
func TestLayersDoNotMultiply_S4(t *testing.T) {
	for name, end := range map[string]act{
		"503": always(503, `{}`), "reset": func(_ int, _ seen, c net.Conn) bool { return reset(c) },
		"401": always(401, `{}`), "silence": func(_ int, _ seen, c net.Conn) bool { io.Copy(io.Discard, c); return false },
	} {
		s := serve(t, end)
		p := quick(Loopback("org", s.url))
		p.Limits.ResponseHeader = 50 * time.Millisecond
		tr := newTransport(t, p)
		tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
		tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}"))
		tr.Exchange(t.Context(), "org", Exchange{URL: s.url + "/token"})
		if n := len(s.requests()); n > maxReads+2 {
			t.Errorf("%s: %d requests for a read, a write and an exchange", name, n)
		}
	}
}

// Calls that look at the clock in one order and take the lock in another are no
// standstill: a pool that was replaced for it would be no pool.
func TestPoolIsOneUnderLoad(t *testing.T) {
	made := 0
	p := pool{fresh: func() *http.Transport { made++; return new(http.Transport) }} // under the pool's lock
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5000 {
				p.get()
			}
		})
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("%d pools were made, want 1", made)
	}
}
