package transport

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestBaseURLs_G11_S12(t *testing.T) {
	local := []PrivateException{
		{Host: "127.0.0.1", Prefix: loopback[0], Port: 8080}, {Host: "::1", Prefix: loopback[1], Port: 8080},
		{Host: "10.1.2.3", Prefix: netip.MustParsePrefix("10.1.2.3/32"), Port: 443}, {Host: "gitea", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 3000},
		{Host: "::ffff:7f00:1", Prefix: loopback[0], Port: 443}, {Host: "lan.example.com", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 80},
		{Host: "mixed.example.com", Prefix: loopback[0], Port: 80}, {Host: "mixed.example.com", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 80},
	}
	for raw, want := range map[string]string{
		"https://api.example.com":           "https://api.example.com",
		"https://api.example.com/":          "https://api.example.com",
		"https://api.example.com:443/v1":    "https://api.example.com/v1",
		"https://api.example.com:8443/v1/":  "https://api.example.com:8443/v1",
		"https://xn--bcher-kva.example":     "https://xn--bcher-kva.example",
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080",
		"http://[::1]:8080/a":               "http://[::1]:8080/a",
		"https://10.1.2.3":                  "https://10.1.2.3",
		"https://gitea:3000":                "https://gitea:3000",
		"":                                  "",
		"api.example.com":                   "",
		"ftp://api.example.com":             "",
		"https:":                            "",
		"https://":                          "",
		"https:api.example.com":             "",
		"https://api.example.com.":          "",
		"https://API.example.com":           "",
		"https://bücher.example":            "",
		"https://１２７.０.０.１":                 "",
		"https://127。0。0。1":                 "",
		"https://api_x.example.com":         "",
		"https://api..example.com":          "",
		"https://-api.example.com":          "",
		"https://gitea":                     "",
		"https://127.1":                     "",
		"https://0":                         "",
		"https://2130706433":                "",
		"https://0x7f000001":                "",
		"https://0x7f.1":                    "",
		"https://a.0x7f":                    "",
		"https://0177.0.0.1":                "",
		"https://127.0.0.1":                 "",
		"https://93.184.216.34":             "",
		"https://[::1]":                     "",
		"https://[::ffff:7f00:1]":           "",
		"https://[fe80::1%25eth0]":          "",
		"https://[::1%25.ok.example]":       "",
		"http://api.example.com":            "",
		"http://10.1.2.3":                   "",
		"http://lan.example.com":            "", // private, but in clear
		"http://mixed.example.com":          "",
		"http://127.0.0.1:9090":             "", // another port than the exception's
		"https://u:p@api.example.com":       "",
		"https://api.example.com@evil.test": "",
		"https://api.example.com?x=1":       "",
		"https://api.example.com?":          "",
		"https://api.example.com#":          "",
		"https://api.example.com:":          "",
		"https://api.example.com:0":         "",
		"https://api.example.com:0443":      "",
		"https://api.example.com:99999":     "",
		"https://api.example.com:80:80":     "",
		"https://api.example.com/a/../b":    "",
		"https://api.example.com/%2e%2e":    "",
		"https://api.example.com//a":        "",
		"https://api.example.com/a b":       "",
		"https://api.example.com\\a":        "",
		"https://api.example.com/\r\na":     "",
	} {
		p := Profile{BaseURL: raw, Private: local}
		at, err := p.parse()
		got := ""
		if err == nil {
			got = at.base.String() + at.prefix
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", raw, got, err, want)
		}
		if err != nil && len(raw) > 8 && strings.Contains(err.Error(), raw) {
			t.Errorf("%q is quoted in its error", raw)
		}
	}
}

func TestValidateReportsAllFaults(t *testing.T) {
	p := Profile{
		BaseURL:     "http://api.example.com",
		AuthOrigins: []string{"https://login.example.com/path", "ftp://x.example"},
		Private: []PrivateException{
			{Host: "a.example", Port: 443}, {Host: "a.example", Prefix: netip.MustParsePrefix("0.0.0.0/0"), Port: 443},
			{Host: "a.example", Prefix: netip.MustParsePrefix("169.254.169.254/32"), Port: 443},
			{Host: "a.example", Prefix: netip.MustParsePrefix("10.0.0.0/7"), Port: 443}, {Host: "a.example", Prefix: netip.MustParsePrefix("10.0.0.0/8")},
			{Host: "*", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 443},
		},
		Roots: []byte("not PEM"), RequestIDHeader: "a b", RefusesBeforeProcessing: []int{200, 404, 503},
		Limits: Limits{BodyBytes: -1},
	}
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if want := 1 + 2 + 6 + 1 + 1 + 2 + 1; len(lines) != want {
		t.Errorf("%d faults, want %d:\n%v", len(lines), want, err)
	}
	s := Static{"org": p}
	tr, _ := New(Config{Profiles: s, Credentials: &tokens{}})
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); connector.CodeOf(err) != connector.CodeEgressBlocked {
		t.Errorf("an invalid profile was used: %v", err)
	}
}

func TestZeroLimitsAreTheDefaults(t *testing.T) {
	want := Limits{
		HeaderBytes: 64 << 10, BodyBytes: 4 << 20, ErrorBodyBytes: 64 << 10, Dial: 5 * time.Second, TLS: 5 * time.Second,
		ResponseHeader: 15 * time.Second, Read: 30 * time.Second, Write: 20 * time.Second, Exchange: 15 * time.Second,
		Concurrency: 4, Queue: 16, Rate: 10, Burst: 20, RetryBudget: 50,
	}
	if diff := cmp.Diff(want, Limits{}.filled()); diff != "" {
		t.Error(diff)
	}
	for _, l := range []Limits{{HeaderBytes: 2 << 20}, {BodyBytes: 65 << 20}, {Read: 11 * time.Minute}, {Concurrency: 2000}, {Rate: -1}, {Queue: -1}} {
		if (Profile{BaseURL: "https://api.example.com", Limits: l}).Validate() == nil {
			t.Errorf("%+v passed", l)
		}
	}
}

func TestNewChecksItsConfiguration(t *testing.T) {
	for _, c := range []Config{{}, {Profiles: Static{}, NAT64: []netip.Prefix{netip.MustParsePrefix("64:ff9b::/32")}}, {Profiles: Static{}, NAT64: []netip.Prefix{{}}}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v passed", c)
		}
	}
}
