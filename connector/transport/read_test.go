package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: NET6
func TestReadIsTriedThreeTimes(t *testing.T) {
	for name, c := range map[string]struct {
		answer act
		want   int // requests
		code   connector.Code
		status int
	}{
		"500":     {always(500, `{}`), 3, 0, 500},
		"502":     {always(502, `<html>`, "Content-Type: text/html"), 3, 0, 502},
		"503":     {always(503, `{}`), 3, 0, 503},
		"504":     {always(504, `{}`), 3, 0, 504},
		"429":     {always(429, `{}`), 3, 0, 429},
		"408":     {always(408, `{}`), 3, 0, 408},
		"501":     {always(501, `{}`), 1, 0, 501},
		"404":     {always(404, `{}`), 1, 0, 404},
		"407 G05": {always(407, `{}`, `Proxy-Authenticate: Basic realm="x"`), 1, 0, 407},
		"reset":   {func(_ int, _ seen, c net.Conn) bool { return reset(c) }, 3, connector.CodeUnavailable, 0},
		"cut": {func(_ int, _ seen, c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"a")
			return false
		}, 2, connector.CodeProviderContract, 200},
		"html": {always(200, "<html>", "Content-Type: text/html"), 1, connector.CodeProviderContract, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if connector.CodeOf(err) != c.code || resp.Status != c.status {
				t.Errorf("status %d, error %v; want %d, %v", resp.Status, err, c.status, c.code)
			}
			if len(s.requests()) != c.want || len(resp.Attempts) != c.want {
				t.Errorf("%d requests, %d attempts, want %d", len(s.requests()), len(resp.Attempts), c.want)
			}
			for _, r := range s.requests() {
				for name := range r.header {
					if strings.HasPrefix(name, "Proxy-") {
						t.Errorf("sent %s", name)
					}
				}
			}
		})
	}
}

func TestReadRecovers(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		if n < 2 {
			return faults[12](n, r, c)
		}
		return say(c, 200, `{}`)
	})
	resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err != nil || len(resp.Attempts) != 3 || resp.Attempts[2].Waited <= 0 || resp.Attempts[0].Stop == "" {
		t.Errorf("error %v, attempts %+v", err, resp.Attempts)
	}
}

// Guarantee: NET6
func TestLongRetryAfterIsHandedOut_G22_T21(t *testing.T) {
	for _, status := range []int{429, 503} {
		s := serve(t, always(status, `{}`, "Retry-After: 86400"))
		tr := newTransport(t, quick(Loopback("org", s.url)))
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
		if err != nil || resp.Status != status || resp.RetryAfter != 24*time.Hour {
			t.Errorf("status %d, retry after %v, err %v", resp.Status, resp.RetryAfter, err)
		}
		if len(s.requests()) != 1 || !strings.Contains(resp.Attempts[0].Stop, stopTooLong) {
			t.Errorf("%d requests, attempts %+v", len(s.requests()), resp.Attempts)
		}
	}
}

// A wait that would pass the deadline is not begun.
func TestWaitThatPassesTheDeadlineIsNotBegun(t *testing.T) {
	s := serve(t, always(503, `{}`, "Retry-After: 4"))
	p := quick(Loopback("org", s.url))
	p.Limits.Read = 3 * time.Second
	resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err != nil || resp.Status != 503 || resp.RetryAfter != 4*time.Second {
		t.Fatalf("status %d, retry after %v, err %v", resp.Status, resp.RetryAfter, err)
	}
	if len(s.requests()) != 1 || !strings.Contains(resp.Attempts[0].Stop, stopDeadline) {
		t.Errorf("%d requests, attempts %+v", len(s.requests()), resp.Attempts)
	}
}

func TestOneFreshCredentialForARead(t *testing.T) {
	for name, c := range map[string]struct {
		accept string // the version that the provider takes; empty: none
		status int
		want   []string
	}{
		"second is good": {"-2", 200, []string{"-1", "-2"}},
		"none is good":   {"", 401, []string{"-1", "-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(_ int, r seen, conn net.Conn) bool {
				if c.accept != "" && strings.HasSuffix(r.header.Get("Authorization"), c.accept) {
					return say(conn, 200, `{}`)
				}
				return say(conn, 401, `{}`)
			})
			resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if err != nil || resp.Status != c.status || len(resp.Attempts) != 2 {
				t.Errorf("status %d, attempts %+v, err %v", resp.Status, resp.Attempts, err)
			}
			for i, r := range s.requests() {
				if got := r.header.Get("Authorization"); got != "Bearer "+canary+c.want[i] {
					t.Errorf("request %d carried %q", i, got)
				}
			}
		})
	}
}

func TestCredentialErrors(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	shared := connector.Fail(connector.CodeConnectionRequired, "revoked")
	for _, c := range []struct {
		err  error
		want connector.Code
	}{
		{shared, connector.CodeConnectionRequired},
		{fmt.Errorf("wrapped: %w", shared), connector.CodeConnectionRequired},
		{io.ErrClosedPipe, connector.CodeInternal},
		{context.Canceled, connector.CodeCanceled},
	} {
		tr.credentials = authorizer(func() (Credential, error) { return nil, c.err })
		resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
		if connector.CodeOf(err) != c.want || effect(err) != connector.DispositionNotApplied || len(resp.Attempts) != 0 {
			t.Errorf("%v: error %v, effect %v, attempts %d", c.err, err, effect(err), len(resp.Attempts))
		}
	}
	if shared.Effect != connector.DispositionNone {
		t.Error("the caller's error was changed")
	}
	if n := s.connections(); n != 0 {
		t.Errorf("%d connections without a credential", n)
	}
	tr.credentials = nil
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); connector.CodeOf(err) != connector.CodeConnectionRequired {
		t.Errorf("without credentials: %v", err)
	}
}

// A credential may add headers and nothing else.
type mover struct{ token }

func (mover) Apply(r *http.Request) error {
	u := *r.URL
	u.Host = "evil.example"
	r.URL, r.Host = &u, "evil.example"
	return nil
}

func TestCredentialCanNotMoveTheRequest(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	tr.credentials = authorizer(func() (Credential, error) { return mover{1}, nil })
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil || len(s.requests()) != 1 {
		t.Errorf("error %v, %d requests", err, len(s.requests()))
	}
}

func TestReadRequestOnTheWire(t *testing.T) {
	s := serve(t, always(304, "", "X-Request-Id: a b\x80c"+strings.Repeat("d", 200), "Set-Cookie: s="+canary))
	tr := newTransport(t, quick(Loopback("org", s.url+"/api/v1")))
	r := read("/repos/a%20b/issues")
	r.Query = map[string][]string{"q": {"x y&z"}, "page": {"2"}}
	r.Unchanged = `W/"abc"`
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, r)
	if err != nil || resp.Status != 304 || resp.Body != nil {
		t.Fatalf("status %d, body %q, err %v", resp.Status, resp.Body, err)
	}
	got := s.requests()[0]
	if got.target != "/api/v1/repos/a%20b/issues?page=2&q=x+y%26z" || got.method != "GET" {
		t.Errorf("sent %s %s", got.method, got.target)
	}
	if got.header.Get("If-None-Match") != `W/"abc"` || got.header.Get("Accept") != "application/json" ||
		got.header.Get("Expect") != "" || got.header.Get("Referer") != "" {
		t.Errorf("header %v", got.header)
	}
	if want := "abc" + strings.Repeat("d", 125); resp.RequestID != want {
		t.Errorf("request id %q", resp.RequestID)
	}
	if resp.Header.Get("Set-Cookie") != "" {
		t.Error("a cookie came out")
	}
}

func TestRequestIDHeaderOfTheProfile(t *testing.T) {
	s := serve(t, always(200, `{}`, "X-Trace: t-1", "X-Request-Id: other"))
	p := quick(Loopback("org", s.url))
	p.RequestIDHeader = "x-trace"
	resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err != nil || resp.RequestID != "t-1" {
		t.Errorf("id %q, err %v", resp.RequestID, err)
	}
}

func TestMalformedRequestsSendNothing(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	header := read("/t")
	header.Unchanged = "a\r\nX: y"
	withBody := read("/t")
	withBody.Body = []byte("x")
	for name, c := range map[string]struct {
		class connector.Class
		r     connector.Request
	}{
		"post as read": {connector.ClassRead, write("/t", "")},
		"get as write": {connector.ClassWrite, connector.Request{Method: "GET", Path: "/t"}},
		"no class":     {0, read("/t")},
		"header":       {connector.ClassRead, header},
		"body":         {connector.ClassRead, withBody},
	} {
		if resp, err := tr.Do(t.Context(), alice, c.class, c.r); connector.CodeOf(err) != connector.CodeInternal || len(resp.Attempts) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := read("/t")
	long.Query = map[string][]string{"q": {strings.Repeat("x", maxTarget)}}
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, long); connector.CodeOf(err) != connector.CodeInvalidInput {
		t.Errorf("long query: %v", err)
	}
	if n := s.connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestHeaderOverTheLimit(t *testing.T) {
	s := serve(t, always(200, `{}`, "X-Big: "+strings.Repeat("x", 70<<10)))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if connector.CodeOf(err) != connector.CodeTooLarge || len(resp.Attempts) != 1 {
		t.Errorf("error %v after %d attempts, want TOO_LARGE after 1", err, len(resp.Attempts))
	}
}

func TestCanceledWhileTheBodyComes_G26(t *testing.T) {
	for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
		half := make(chan struct{})
		s := serve(t, func(_ int, _ seen, c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"a\":")
			close(half)
			io.Copy(io.Discard, c)
			return false
		})
		tr := newTransport(t, quick(Loopback("org", s.url)))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-half; cancel() }()
		r, want := read("/t"), connector.CodeCanceled
		if class == connector.ClassWrite {
			r, want = write("/t", "{}"), connector.CodeOutcomeUnknown
		}
		resp, err := tr.Do(ctx, alice, class, r)
		if connector.CodeOf(err) != want || resp.Body != nil || len(resp.Attempts) != 1 {
			t.Errorf("class %d: error %v, body %q, attempts %d", class, err, resp.Body, len(resp.Attempts))
		}
	}
}

func TestSilentServerEndsInTime(t *testing.T) {
	s := serve(t, func(_ int, _ seen, c net.Conn) bool { io.Copy(io.Discard, c); return false })
	p := quick(Loopback("org", s.url))
	p.Limits.Read, p.Limits.Write = 300*time.Millisecond, 300*time.Millisecond
	tr := newTransport(t, p)
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); connector.CodeOf(err) != connector.CodeDeadline {
		t.Errorf("read: %v, want DEADLINE", err)
	}
	_, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}"))
	if connector.CodeOf(err) != connector.CodeOutcomeUnknown || effect(err) != connector.DispositionUnknown {
		t.Errorf("write: %v, want OUTCOME_UNKNOWN", err)
	}
	p.Limits.Read, p.Limits.ResponseHeader = 5*time.Second, 50*time.Millisecond
	resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if connector.CodeOf(err) != connector.CodeUnavailable || len(resp.Attempts) != 3 {
		t.Errorf("header timeout: %v after %d attempts, want UNAVAILABLE after 3", err, len(resp.Attempts))
	}
}

// Guarantee: NET1
func TestChangedProfileTakesEffectAtOnce_G14(t *testing.T) {
	one, two := serve(t, always(200, `{"s":1}`)), serve(t, always(200, `{"s":2}`))
	profiles := Static{"org": quick(Loopback("org", one.url))}
	tr, err := New(Config{Profiles: profiles, Credentials: &tokens{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	for i, s := range []*rawServer{one, two} {
		profiles["org"] = quick(Loopback("org", s.url))
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/"))
		if err != nil || string(resp.Body) != fmt.Sprintf(`{"s":%d}`, i+1) {
			t.Errorf("got %s, %v", resp.Body, err)
		}
	}
	for one.open() != 0 { // the old pool lets go; a hang here is the failure
		runtime.Gosched()
	}
	delete(profiles, "org")
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); connector.CodeOf(err) != connector.CodeEgressBlocked {
		t.Errorf("without a profile: %v", err)
	}
}

// S10: a failed call must not empty the pool of all others.
func TestConnectionsAreReusedAndGrowOld_G14_S10(t *testing.T) {
	s := serve(t, func(n int, _ seen, c net.Conn) bool {
		if n == 1 {
			return say(c, 503, `{}`)
		}
		return say(c, 200, `{}`)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	get := func() {
		t.Helper()
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		get()
	}
	if n := s.connections(); n != 1 {
		t.Errorf("%d connections for six requests, want 1: a failed call must not empty the pool", n)
	}
	ep, _ := tr.endpoint("org")
	ep.pool.mu.Lock()
	ep.pool.born = ep.pool.born.Add(-maxAge - time.Second)
	ep.pool.mu.Unlock()
	get()
	if n := s.connections(); n != 2 {
		t.Errorf("%d connections after the pool grew old, want 2", n)
	}
}

func TestClosedTransportRefuses(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	tr.Close()
	_, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/", "{}"))
	if connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionNotApplied {
		t.Errorf("%v", err)
	}
}
