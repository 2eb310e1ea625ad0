package webhooks

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// The left end of X-Forwarded-For is whatever its sender wrote there.
// Guarantee: HOO6
func TestW31SenderIsReadFromTheRight(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		peer    string
		header  []string
		want    string // empty: not known
	}{
		{"no proxy is trusted", nil, "203.0.113.9:4711", []string{"192.0.2.1"}, "203.0.113.9"},
		{"the peer is no proxy of ours", proxies, "203.0.113.9:4711", []string{"192.0.2.1"}, "203.0.113.9"},
		{"one proxy", proxies, "10.0.0.1:1", []string{"192.0.2.1"}, "192.0.2.1"},
		{"the allowed one on the left is the sender's own word", proxies, "10.0.0.1:1", []string{"192.0.2.1, 203.0.113.9"}, "203.0.113.9"},
		{"two proxies", proxies, "10.0.0.1:1", []string{"192.0.2.1, 203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		{"two headers are one list", proxies, "10.0.0.1:1", []string{"192.0.2.1", "203.0.113.9,10.9.9.9"}, "203.0.113.9"},
		{"mapped, as a peer and as a hop", proxies, "[::ffff:10.0.0.1]:1", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"written out", proxies, "[2001:db8:ffff::1]:1", []string{"2001:0DB8:0:0:0:0:0:0001"}, "2001:db8::1"},
		{"a zone", proxies, "10.0.0.1:1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"a proxy that says nothing is the sender", proxies, "10.0.0.1:1", nil, ""},
		{"a name", proxies, "10.0.0.1:1", []string{"192.0.2.1, unknown"}, ""},
		{"an empty hop", proxies, "10.0.0.1:1", []string{"192.0.2.1,"}, ""},
		{"no peer", proxies, "@", []string{"192.0.2.1"}, ""},
	} {
		s := Service{proxies: c.proxies}
		at, ok := s.sender(&http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.header}})
		got := ""
		if ok {
			got = at.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestW31ListOfSenders(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		senders map[string][]netip.Prefix
		want    int
	}{
		{"off by default", nil, 202},
		{"another provider's", map[string][]netip.Prefix{"gitea": {netip.MustParsePrefix("192.0.2.0/24")}}, 202},
		{"from there", map[string][]netip.Prefix{"sandbox": {netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("127.0.0.0/8")}}, 202},
		{"from elsewhere", map[string][]netip.Prefix{"sandbox": {netip.MustParsePrefix("192.0.2.0/24")}}, 404},
		{"from nowhere", map[string][]netip.Prefix{"sandbox": nil}, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, storetest.SQLite(t), Config{Senders: c.senders})
			header := github("1", `"orders/1"`)
			header.Set("X-Forwarded-For", "192.0.2.7") // of nobody whom we trust
			h.post(c.want, h.github.Path, header, `"orders/1"`)
			if n := h.stats().Received["other_sender"]; (n == 1) != (c.want == 404) {
				t.Errorf("%d counted", n)
			}
		})
	}
}
