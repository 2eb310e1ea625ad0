package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A connectProxy tunnels every target to one address, or answers with answer.
type connectProxy struct {
	url string

	mu       sync.Mutex
	asked    []*http.Request
	open     int
	answer   string // raw; empty: tunnel
	upstream string
}

func serveProxy(t *testing.T, upstream, answer string) *connectProxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{url: "http://" + l.Addr().String(), upstream: upstream, answer: answer}
	conns := map[net.Conn]bool{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.open++
			conns[c] = true
			p.mu.Unlock()
			wg.Go(func() {
				defer func() {
					c.Close()
					p.mu.Lock()
					p.open--
					delete(conns, c)
					p.mu.Unlock()
				}()
				p.talk(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range conns {
			c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

func (p *connectProxy) talk(c net.Conn) {
	br := bufio.NewReader(c)
	r, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r)
	p.mu.Unlock()
	switch p.answer {
	case "":
	case "silence":
		io.Copy(io.Discard, br)
		return
	default:
		io.WriteString(c, p.answer)
		return
	}
	up, err := net.Dial("tcp4", p.upstream)
	if err != nil {
		return
	}
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(up, br); up.Close() })
	io.Copy(c, up)
	c.Close()
	wg.Wait()
}

func (p *connectProxy) requests() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request(nil), p.asked...)
}

func (p *connectProxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// behind is a profile for a public name that is reached through a proxy.
func behind(p *connectProxy, roots []byte) Profile {
	host, port := hostAndPort(p.url)
	return quick(Profile{
		BaseURL: "https://api.example.test", Roots: roots,
		Proxy:   strings.Replace(p.url, "http://", "http://robot:"+canary+"-proxy@", 1),
		Private: []PrivateException{{Host: host, Prefix: loopback[0], Port: port}},
	})
}

// Guarantee: NET4
func TestExplicitProxy_G05_G12(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		var got []http.Header
		var mu sync.Mutex
		s, roots := serveTLS(t, "api.example.test", time.Now().Add(time.Hour), nil)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			got = append(got, r.Header)
			mu.Unlock()
			if r.URL.Path == "/407" {
				w.Header().Set("Proxy-Authenticate", `Basic realm="egress"`)
				w.WriteHeader(http.StatusProxyAuthRequired)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"proto":%d}`, r.ProtoMajor)
		})
		proxy := serveProxy(t, s.Listener.Addr().String(), "")
		p := behind(proxy, roots)
		p.HTTP2 = h2
		tr := newTransport(t, p)
		read1, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
		if want := fmt.Sprintf(`{"proto":%d}`, map[bool]int{false: 1, true: 2}[h2]); err != nil || string(read1.Body) != want {
			t.Fatalf("read: %s, %v; want %s", read1.Body, err, want)
		}
		if resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`)); err != nil || string(resp.Body) != `{"proto":1}` {
			t.Fatalf("write: %s, %v", resp.Body, err)
		}
		if resp, err := tr.Exchange(t.Context(), "org", Exchange{URL: "https://api.example.test/token"}); err != nil || resp.Status != 200 {
			t.Fatalf("exchange: %d, %v", resp.Status, err)
		}
		// An origin that plays proxy is an odd provider, and learns nothing.
		for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
			r := read("/407")
			if class == connector.ClassWrite {
				r = write("/407", "{}")
			}
			resp, err := tr.Do(t.Context(), alice, class, r)
			if err != nil || resp.Status != 407 || len(resp.Attempts) != 1 {
				t.Errorf("407: status %d, %v, %d attempts; want the status after 1", resp.Status, err, len(resp.Attempts))
			}
		}
		mu.Lock()
		for i, h := range got {
			for name := range h {
				if strings.HasPrefix(name, "Proxy-") {
					t.Errorf("request %d carries %s to the origin", i, name)
				}
			}
		}
		if len(got) != 5 {
			t.Errorf("%d requests at the origin, want 5", len(got))
		}
		mu.Unlock()
		for _, r := range proxy.requests() {
			user, password, ok := parseBasic(r.Header.Get("Proxy-Authorization"))
			if r.Method != "CONNECT" || r.Host != "api.example.test:443" || !ok || user != "robot" || password != canary+"-proxy" {
				t.Errorf("the proxy was asked %s %s as %s", r.Method, r.Host, user)
			}
			if r.Header.Get("Authorization") != "" || len(r.Header) > 2 {
				t.Errorf("the proxy saw %v", r.Header)
			}
		}
	}
}

func parseBasic(v string) (user, password string, ok bool) {
	return (&http.Request{Header: http.Header{"Authorization": {v}}}).BasicAuth()
}

// Guarantee: NET2
func TestProxyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer   string
		code     connector.Code
		attempts int
	}{
		"407": {"HTTP/1.1 407 " + canary + "\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n", connector.CodeEgressBlocked, 1},
		"403": {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", connector.CodeEgressBlocked, 1},
		"302": {"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", connector.CodeEgressBlocked, 1},
		"201": {"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", connector.CodeEgressBlocked, 1},
		"502": {"HTTP/1.1 502 " + canary + "\r\nContent-Length: 0\r\n\r\n", connector.CodeUnavailable, 3},
		"bad": {canary + "\r\n\r\n", connector.CodeUnavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, behind(serveProxy(t, "", c.answer), nil))
			resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if connector.CodeOf(err) != c.code || len(resp.Attempts) != c.attempts || wrote(resp.Attempts) {
				t.Errorf("read: %v, attempts %+v; want %v after %d that wrote nothing", err, resp.Attempts, c.code, c.attempts)
			}
			resp, err = tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}"))
			if connector.CodeOf(err) != c.code || effect(err) != connector.DispositionNotApplied {
				t.Errorf("write: %v, effect %v; want %v, not_applied", err, effect(err), c.code)
			}
			if out := everything(err) + fmt.Sprintf("%+v", resp.Attempts); strings.Contains(out, canary) {
				t.Errorf("the proxy's words or our password come out: %s", out)
			}
		})
	}
}

func TestSilentProxyEndsInTime(t *testing.T) {
	proxy := serveProxy(t, "", "silence")
	p := behind(proxy, nil)
	p.Limits.Read, p.Limits.Write, p.Limits.ResponseHeader = 200*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond
	tr := newTransport(t, p)
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); connector.CodeOf(err) != connector.CodeDeadline {
		t.Errorf("read: %v, want DEADLINE", err)
	}
	_, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}"))
	if connector.CodeOf(err) != connector.CodeDeadline || effect(err) != connector.DispositionNotApplied {
		t.Errorf("write: %v, effect %v; want DEADLINE, not_applied", err, effect(err))
	}
	for proxy.connections() != 0 { // a hang here is the failure
		runtime.Gosched()
	}
}

// A denied address of the proxy is seen on the socket, and nothing is retried.
func TestProxyAddressIsGuarded(t *testing.T) {
	proxy := serveProxy(t, "", "silence")
	_, port := hostAndPort(proxy.url)
	r, names := resolver(t, map[string][][]string{"proxy.example.test.": {{"127.0.0.1"}}})
	tr := newTransport(t, quick(Profile{
		BaseURL: "https://api.example.test", Proxy: fmt.Sprintf("http://proxy.example.test:%d", port),
		Private: []PrivateException{{Host: "proxy.example.test", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: port}},
	}))
	tr.resolver = r
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if connector.CodeOf(err) != connector.CodeEgressBlocked || len(resp.Attempts) != 1 || len(proxy.requests()) != 0 {
		t.Errorf("%v after %d attempts, %d requests at the proxy", err, len(resp.Attempts), len(proxy.requests()))
	}
	if n := names.lookups("api.example.test."); n != 0 {
		t.Errorf("the target was looked up %d times here; the proxy does that", n)
	}
}

// With a proxy nothing goes around it, and it is asked for the profile's
// origins alone, whoever composed the request.
func TestProxyIsAskedForTheProfilesOriginsOnly_G12(t *testing.T) {
	proxy := serveProxy(t, "", "silence")
	tr := newTransport(t, behind(proxy, nil))
	ep, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"https://evil.example/", "https://api.example.test:444/", "http://api.example.test/", "https://169.254.169.254/"} {
		req, _ := http.NewRequest("GET", raw, nil)
		for _, rt := range []*http.Transport{ep.once, ep.pool.get()} {
			if _, err := rt.RoundTrip(req); connector.CodeOf(failure(t.Context(), err)) != connector.CodeEgressBlocked {
				t.Errorf("%s: %v", raw, err)
			}
		}
	}
	dial := ep.dialer(nil, nil)
	if _, err := dial(t.Context(), "tcp", "api.example.test:443"); connector.CodeOf(failure(t.Context(), err)) != connector.CodeEgressBlocked {
		t.Errorf("a connection around the proxy: %v", err)
	}
	if n := len(proxy.requests()); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

// Guarantee: NET4
func TestProxyProfiles(t *testing.T) {
	own := PrivateException{Host: "proxy.corp.example", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 3128}
	const good = "http://proxy.corp.example:3128"
	for name, c := range map[string]struct {
		p  Profile
		ok bool
	}{
		"good":                     {Profile{BaseURL: "https://api.example.com/v1", Proxy: good}, true},
		"password":                 {Profile{BaseURL: "https://api.example.com", Proxy: "http://u:p%40@proxy.corp.example:3128"}, true},
		"two origins":              {Profile{BaseURL: "https://api.example.com", AuthOrigins: []string{"https://login.example.com"}, Proxy: good}, true},
		"no exception":             {Profile{BaseURL: "https://api.example.com", Proxy: "http://proxy.other.example:3128"}, false},
		"another port":             {Profile{BaseURL: "https://api.example.com", Proxy: "http://proxy.corp.example:3129"}, false},
		"https":                    {Profile{BaseURL: "https://api.example.com", Proxy: "https://proxy.corp.example:3128"}, false},
		"socks":                    {Profile{BaseURL: "https://api.example.com", Proxy: "socks5://proxy.corp.example:3128"}, false},
		"no scheme":                {Profile{BaseURL: "https://api.example.com", Proxy: "proxy.corp.example:3128"}, false},
		"path":                     {Profile{BaseURL: "https://api.example.com", Proxy: good + "/x"}, false},
		"query":                    {Profile{BaseURL: "https://api.example.com", Proxy: good + "?x"}, false},
		"zone G12":                 {Profile{BaseURL: "https://api.example.com", Proxy: "http://[::1%25.proxy.corp.example]:3128"}, false},
		"literal target":           {Profile{BaseURL: "https://10.1.2.3", Proxy: good, Private: []PrivateException{{Host: "10.1.2.3", Prefix: netip.MustParsePrefix("10.1.2.3/32"), Port: 443}}}, false},
		"plain http target":        {Profile{BaseURL: "http://lo.example.com", Proxy: good, Private: []PrivateException{{Host: "lo.example.com", Prefix: loopback[0], Port: 80}}}, false},
		"private target":           {Profile{BaseURL: "https://tickets.internal", Proxy: good}, false},
		"home target":              {Profile{BaseURL: "https://tickets.home.arpa", Proxy: good}, false},
		"private target, excepted": {Profile{BaseURL: "https://tickets.internal", Proxy: good, Private: []PrivateException{{Host: "tickets.internal", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 443}}}, true},
		"metadata target":          {Profile{BaseURL: "https://metadata.google.internal", Proxy: good}, false},
		"private login":            {Profile{BaseURL: "https://api.example.com", AuthOrigins: []string{"https://sso.corp"}, Proxy: good}, false},
	} {
		c.p.Private = append(c.p.Private, own)
		err := c.p.Validate()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want valid %t", name, err, c.ok)
		}
		if err != nil && (strings.Contains(err.Error(), "3128") || strings.Contains(err.Error(), "corp.example")) {
			t.Errorf("%s: the error quotes the proxy: %v", name, err)
		}
	}
	a := Profile{BaseURL: "https://api.example.com", Proxy: good}
	b := a
	if b.Proxy = "http://u:p@proxy.corp.example:3128"; a.equal(b) {
		t.Error("a changed proxy does not take effect")
	}
	b = a
	if b.HTTP2 = true; a.equal(b) {
		t.Error("a changed protocol does not take effect")
	}
}

// A credential that reaches for the connection or a proxy is refused (G05, G21).
func TestCredentialIsModest_G05_G21(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	for _, name := range []string{"Proxy-Authorization", "proxy-connection", "Expect", "expect"} {
		tr.credentials = authorizer(func() (Credential, error) { return setter{name}, nil })
		resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}"))
		if connector.CodeOf(err) != connector.CodeInternal || effect(err) != connector.DispositionNotApplied || len(resp.Attempts) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	tr.credentials = authorizer(func() (Credential, error) { return setter{"Private-Token"}, nil })
	if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(1, len(s.requests())); diff != "" {
		t.Error(diff)
	}
}

type setter struct{ name string }

func (s setter) Apply(r *http.Request) error { r.Header[s.name] = []string{"x"}; return nil }
func (setter) Version() int64                { return 1 }
