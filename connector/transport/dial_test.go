package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: NET2
func TestAddressFormsThroughTheRealDialer_G08_G10(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.1", "192.168.1.1", "100.64.0.1", "100.127.0.1",
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:7f00:1", "::ffff:a9fe:a9fe", "::ffff:a83f:8110", "::127.0.0.1", "::a9fe:a9fe",
		"64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1", "2002:a9fe:a9fe::", "2002:7f00:1::1", "2001::1", "2001:db8::1",
		"3fff::1", "100::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "5f00::1",
	} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			r, names := resolver(t, map[string][][]string{"api.example.test.": {{addr}}})
			tr := newTransport(t, quick(Profile{BaseURL: "https://api.example.test"}))
			tr.resolver = r
			for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
				req := read("/a")
				if class == connector.ClassWrite {
					req = write("/a", "{}")
				}
				resp, err := tr.Do(t.Context(), alice, class, req)
				e := connector.AsError(err)
				if e == nil || e.Code != connector.CodeEgressBlocked {
					t.Fatalf("error %v, want EGRESS_BLOCKED", err)
				}
				if len(resp.Attempts) != 1 || resp.Attempts[0].WroteRequest {
					t.Errorf("attempts %+v, want one that wrote nothing", resp.Attempts)
				}
				if class == connector.ClassWrite && e.Effect != connector.DispositionNotApplied {
					t.Errorf("effect %v, want not_applied", e.Effect)
				}
			}
			if n := names.lookups("api.example.test."); n != 2 {
				t.Errorf("%d look-ups, want one for each call", n)
			}
		})
	}
}

// Guarantee: NET2
func TestRebindingIsSeenOnTheSocket_G09(t *testing.T) {
	s := serve(t, func(_ int, _ seen, c net.Conn) bool { return say(c, 200, `{}`) && false })
	host, port := hostAndPort(s.url)
	n := port
	for name, second := range map[string]string{"metadata": "169.254.169.254", "private": "10.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			r, _ := resolver(t, map[string][][]string{"api.example.test.": {{host}, {second}}})
			tr := newTransport(t, quick(Profile{
				BaseURL: "http://api.example.test:" + strconv.Itoa(int(port)),
				Private: []PrivateException{{Host: "api.example.test", Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: n}},
			}))
			tr.resolver = r
			if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/a", "{}")); err != nil {
				t.Fatal(err)
			}
			resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/a", "{}"))
			if connector.CodeOf(err) != connector.CodeEgressBlocked || len(resp.Attempts) != 1 {
				t.Errorf("error %v after %d attempts, want EGRESS_BLOCKED after 1", err, len(resp.Attempts))
			}
		})
	}
}

func TestGuard(t *testing.T) {
	o, _, err := parseOrigin("https://api.example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	excepted := []PrivateException{
		{Host: "api.example.com", Prefix: netip.MustParsePrefix("10.1.0.0/16"), Port: 443},
		{Host: "api.example.com", Prefix: netip.MustParsePrefix("100.64.0.0/10"), Port: 443},
		{Host: "api.example.com", Prefix: netip.MustParsePrefix("fd00::/8"), Port: 443},
		{Host: "api.example.com", Prefix: netip.MustParsePrefix("10.2.0.0/16"), Port: 8443},
		{Host: "other.example.com", Prefix: netip.MustParsePrefix("10.3.0.0/16"), Port: 443},
	}
	g := newGuard(o, excepted, []netip.Prefix{netip.MustParsePrefix("2001:67c:2960:6464::/96")})
	g.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("93.184.216.35"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for address, ok := range map[string]bool{
		"93.184.216.34:443":                      true,
		"[::ffff:93.184.216.34]:443":             true, // is its IPv4
		"[2606:2800:220:1::1]:443":               true,
		"93.184.216.34:80":                       false,
		"93.184.216.35:443":                      false, // our own
		"10.1.2.3:443":                           true,
		"[::ffff:10.1.2.3]:443":                  true,
		"10.2.2.3:443":                           false, // for another port
		"10.3.2.3:443":                           false, // for another host
		"100.64.0.1:443":                         true,
		"100.100.100.200:443":                    false, // metadata, inside an exception
		"[fd00::1]:443":                          true,
		"[fd00:ec2::254]:443":                    false,
		"[fe80::1%eth0]:443":                     false,
		"[2001:67c:2960:6464::5db8:d822]:443":    true,
		"[2001:67c:2960:6464::a9fe:a9fe]:443":    false,
		"[2001:67c:2960:6464::a00:1]:443":        false,
		"api.example.com:443":                    false,
		"93.184.216.34":                          false,
		"[2001:67c:2960:6464:0:1:a83f:8110]:443": true, // outside the /96
		"[2001:67c:2960:6464::a83f:8110]:443":    false,
	} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		err := g.control(t.Context(), network, address, nil)
		if (err == nil) != ok {
			t.Errorf("%s: %v, want allowed %t", address, err, ok)
		}
	}
	if g.control(t.Context(), "udp4", "93.184.216.34:443", nil) == nil {
		t.Error("a datagram socket passed")
	}
	g.own = func() ([]net.Addr, error) { return nil, errors.New("no netlink") }
	if g.control(t.Context(), "tcp4", "93.184.216.34:443", nil) == nil {
		t.Error("passed although our own addresses are unknown")
	}
}

// Guarantee: NET2
func TestExceptionOpensOneProfileOnly(t *testing.T) {
	s := serve(t, always(200, `{}`))
	open := quick(Loopback("open", s.url))
	_, port := hostAndPort(s.url)
	shut := quick(Profile{BaseURL: "https://api.example.test:" + strconv.Itoa(int(port))})
	r, _ := resolver(t, map[string][][]string{"api.example.test.": {{"127.0.0.1"}}})
	tr, err := New(Config{Profiles: Static{"open": open, "shut": shut}, Credentials: &tokens{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	tr.resolver = r
	conn := alice
	conn.Profile = "open"
	if _, err := tr.Do(t.Context(), conn, connector.ClassRead, read("/")); err != nil {
		t.Fatal(err)
	}
	before := s.connections()
	conn.Profile = "shut"
	if _, err := tr.Do(t.Context(), conn, connector.ClassRead, read("/")); connector.CodeOf(err) != connector.CodeEgressBlocked {
		t.Errorf("error %v, want EGRESS_BLOCKED", err)
	}
	if n := s.connections(); n != before {
		t.Errorf("%d connections came through, want 0", n-before)
	}
}

func TestPlainHTTPReachesLoopbackOnly(t *testing.T) {
	r, _ := resolver(t, map[string][][]string{"api.example.test.": {{"93.184.216.34"}}})
	tr := newTransport(t, quick(Profile{
		BaseURL: "http://api.example.test:8080",
		Private: []PrivateException{{Host: "api.example.test", Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: 8080}},
	}))
	tr.resolver = r
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); connector.CodeOf(err) != connector.CodeEgressBlocked {
		t.Errorf("error %v, want EGRESS_BLOCKED", err)
	}
}

func TestDialerKnowsTheProfilesOriginsOnly(t *testing.T) {
	e, err := newEndpoint(Profile{Name: "org", BaseURL: "https://api.example.com", AuthOrigins: []string{"https://login.example.com"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stop *errBlocked
	for _, address := range []string{"api.example.com:80", "example.com:443", "93.184.216.34:443"} {
		if _, err := e.dialer(nil, nil)(context.Background(), "tcp", address); !errors.As(err, &stop) {
			t.Errorf("%s: %v, want a refusal", address, err)
		}
	}
}

// C38: exchanges with authorization servers take the same way.
// Guarantee: NET4
func TestEnvironmentProxyIsIgnored_G12(t *testing.T) {
	proxy := serve(t, always(200, `{"from":"proxy"}`))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.url)
	}
	r, _ := resolver(t, map[string][][]string{"api.example.test.": {{"10.0.0.1"}}})
	tr := newTransport(t, quick(Profile{BaseURL: "https://api.example.test"}))
	tr.resolver = r
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); connector.CodeOf(err) != connector.CodeEgressBlocked {
		t.Errorf("error %v, want EGRESS_BLOCKED", err)
	}
	e, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	// net/http reads the environment once a process, so the setting counts too.
	if e.once.Proxy != nil || e.pool.get().Proxy != nil {
		t.Error("a proxy is set")
	}
	if n := proxy.connections(); n != 0 {
		t.Errorf("the proxy got %d connections, want 0", n)
	}
}
