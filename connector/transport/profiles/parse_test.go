package profiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

const canary = "canary-51c9"

// full names every key there is.
const full = `{
  "profiles": [
    {
      "name": "acme",
      "base_url": "https://tickets.acme.example:8443/api",
      "auth_origins": ["https://login.acme.example"],
      "private": [
        {"host": "tickets.acme.example", "prefix": "10.20.0.0/16", "port": 8443},
        {"host": "proxy.acme.example", "prefix": "fd00:12::/32", "port": 3128}
      ],
      "roots_file": "ca.pem",
      "proxy": "http://proxy.acme.example:3128",
      "proxy_credentials_file": "proxy.txt",
      "http2": true,
      "request_id_header": "x-trace-id",
      "refuses_before_processing": [429, 503],
      "limits": {
        "header_bytes": 32768, "body_bytes": 1048576, "error_body_bytes": 4096,
        "dial": "2s", "tls": "3s", "response_header": "10s", "read": "20s", "write": "15s", "exchange": "12s",
        "concurrency": 2, "queue": 8, "rate": 0.5, "burst": 3, "retry_budget": 20
      }
    },
    {"name": "public", "base_url": "https://api.example.com"}
  ]
}`

func pemOf(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acme ca"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// beside answers for the files that a profile names.
func beside(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		text, ok := files[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("open /secret/%s: %w", name, fs.ErrNotExist)
		case text == "forbidden":
			return nil, fs.ErrPermission
		}
		return []byte(text), nil
	}
}

// Guarantee: NET1
func TestEveryKeyIsRead(t *testing.T) {
	ca := pemOf(t)
	file, err := Parse([]byte(full), beside(map[string]string{"ca.pem": ca, "proxy.txt": "bridge:" + canary + "\n"}))
	if err != nil {
		t.Fatal(err)
	}
	got := file.Profiles
	want := []transport.Profile{{
		Name: "acme", BaseURL: "https://tickets.acme.example:8443/api", AuthOrigins: []string{"https://login.acme.example"},
		Private: []transport.PrivateException{
			{Host: "tickets.acme.example", Prefix: netip.MustParsePrefix("10.20.0.0/16"), Port: 8443},
			{Host: "proxy.acme.example", Prefix: netip.MustParsePrefix("fd00:12::/32"), Port: 3128},
		},
		Roots: []byte(ca), Proxy: "http://bridge:" + canary + "@proxy.acme.example:3128", HTTP2: true,
		RequestIDHeader: "X-Trace-Id", RefusesBeforeProcessing: []int{429, 503},
		Limits: transport.Limits{
			HeaderBytes: 32768, BodyBytes: 1048576, ErrorBodyBytes: 4096, Dial: 2 * time.Second, TLS: 3 * time.Second,
			ResponseHeader: 10 * time.Second, Read: 20 * time.Second, Write: 15 * time.Second, Exchange: 12 * time.Second,
			Concurrency: 2, Queue: 8, Rate: 0.5, Burst: 3, RetryBudget: 20,
		},
	}, {Name: "public", BaseURL: "https://api.example.com"}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	for _, p := range got {
		if err := p.Validate(); err != nil {
			t.Errorf("%s does not pass the transport: %v", p.Name, err)
		}
		if found, err := Static(got).Profile(p.Name); err != nil || found.BaseURL != p.BaseURL {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// Each case changes one place of the full file. Line and column are where an
// administrator has to look.
//
// Guarantees: NET1, NET4
func TestFaults(t *testing.T) {
	ca := pemOf(t)
	key := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte(canary)}))
	files := map[string]string{
		"ca.pem": ca, "proxy.txt": "bridge:secret", "empty.pem": "", "key.pem": ca + key, "cut.pem": ca + ca[:60],
		"broken.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "closed.pem": "forbidden",
		"two.txt": "a:b\nc:d", "none.txt": "nothing",
	}
	for name, c := range map[string]struct {
		from, to string
		want     []string
	}{
		"unknown key":              {`"http2": true`, `"insecure": true`, []string{`14:7 /profiles/0/insecure is not a key of this format`}},
		"another case":             {`"http2"`, `"HTTP2"`, []string{`14:7 /profiles/0/HTTP2 is not a key of this format`}},
		"unknown limit":            {`"queue"`, `"queues"`, []string{`20:27 /profiles/0/limits/queues is not a key of this format`}},
		"unknown key of exception": {`"port": 8443}`, `"port": 8443, "ports": 1}`, []string{`8:82 /profiles/0/private/0/ports is not a key of this format`}},
		"key twice":                {`"http2": true`, `"http2": true, "http2": false`, []string{`14:22 /profiles/0/http2 is there twice`}},
		"no name":                  {`{"name": "public", `, `{`, []string{`23:5 /profiles/1 lacks the key name`}},
		"no address":               {`, "base_url": "https://api.example.com"`, ``, []string{`23:5 /profiles/1 lacks the key base_url`}},
		"name twice":               {`"public"`, `"acme"`, []string{`23:14 /profiles/1/name names a profile that is there already`}},
		"odd name":                 {`"public"`, `"Public/1"`, []string{`23:14 /profiles/1/name must be a lower-case name of at most 64 characters`}},
		"name of a wrong type":     {`"public"`, `7`, []string{`23:14 /profiles/1/name must be a lower-case name of at most 64 characters`}},
		"profile of a wrong type":  {`{"name": "public", "base_url": "https://api.example.com"}`, `"public"`, []string{`23:5 /profiles/1 must be an object`}},
		"trailing data":            {"\n  ]\n}", "\n  ]\n}\n{}", []string{`26:1  there is something behind the document`}},
		"cut off":                  {"\n  ]\n}", "", []string{`23:62  the document ends too early`}},
		"comment":                  {`"http2": true,`, `// no`, []string{`14:7  this is not JSON`}},

		"plain http":            {`https://api`, `http://api`, []string{`23:36 /profiles/1/base_url is refused: plain http is for loopback exceptions only`}},
		"other scheme":          {`https://api`, `ftp://api`, []string{`23:36 /profiles/1/base_url is refused: the scheme is not https`}},
		"wildcard":              {`https://api`, `https://*`, []string{`23:36 /profiles/1/base_url must name one host; there are no wildcards`}},
		"user in the URL":       {`https://api`, `https://u:` + canary + `@api`, []string{`23:36 /profiles/1/base_url is refused: only scheme, host, port and path may be given`}},
		"query in the URL":      {`api.example.com`, `api.example.com/?t=` + canary, []string{`23:36 /profiles/1/base_url is refused: only scheme, host, port and path may be given`}},
		"dots in the path":      {`api.example.com`, `api.example.com/a/../b`, []string{`23:36 /profiles/1/base_url is refused: it has a dot segment or an empty one`}},
		"address for a name":    {`https://api.example.com`, `https://10.1.2.3`, []string{`23:36 /profiles/1/base_url is refused: an address instead of a name needs a private exception`}},
		"number for a name":     {`api.example.com`, `0x7f.1`, []string{`23:36 /profiles/1/base_url is refused: the host is written like a number`}},
		"URL of a wrong type":   {`"https://api.example.com"`, `true`, []string{`23:36 /profiles/1/base_url must be a string that says something`}},
		"login with a path":     {`https://login.acme.example`, `https://login.acme.example/realm`, []string{`6:24 /profiles/0/auth_origins/0 is refused: an origin has no path`}},
		"login is the base":     {`https://login.acme.example`, `https://tickets.acme.example:8443`, []string{`6:24 /profiles/0/auth_origins/0 is a host and port that the profile names already`}},
		"logins of wrong type":  {`["https://login.acme.example"]`, `"https://login.acme.example"`, []string{`6:23 /profiles/0/auth_origins must be a list`}},
		"login in plain http":   {`https://login`, `http://login`, []string{`6:24 /profiles/0/auth_origins/0 is refused: plain http is for loopback exceptions only`}},
		"wide range":            {`10.20.0.0/16`, `8.0.0.0/5`, []string{`8:52 /profiles/0/private/0/prefix is wider than an IPv4 /8 or an IPv6 /16`}},
		"wide IPv6 range":       {`fd00:12::/32`, `fc00::/7`, []string{`9:50 /profiles/0/private/1/prefix is wider than an IPv4 /8 or an IPv6 /16`}},
		"everything":            {`10.20.0.0/16`, `0.0.0.0/0`, []string{`8:52 /profiles/0/private/0/prefix is wider than an IPv4 /8 or an IPv6 /16`}},
		"public range":          {`10.20.0.0/16`, `93.184.0.0/16`, []string{`8:52 /profiles/0/private/0/prefix is refused: outside the private and loopback ranges`}},
		"metadata":              {`10.20.0.0/16`, `169.254.169.254/32`, []string{`8:52 /profiles/0/private/0/prefix is refused: outside the private and loopback ranges`}},
		"mapped range":          {`10.20.0.0/16`, `::ffff:10.0.0.0/104`, []string{`8:52 /profiles/0/private/0/prefix is refused: not an address prefix`}},
		"address bits":          {`10.20.0.0/16`, `10.20.1.0/16`, []string{`8:52 /profiles/0/private/0/prefix has address bits behind its length`}},
		"no range":              {`10.20.0.0/16`, `10.20.0.1`, []string{`8:52 /profiles/0/private/0/prefix must be an address range such as 10.20.0.0/16`}},
		"another port":          {`"port": 8443}`, `"port": 443}`, []string{`8:9 /profiles/0/private/0 is for a host and port that the profile does not name`}},
		"port zero":             {`"port": 8443}`, `"port": 0}`, []string{`8:76 /profiles/0/private/0/port must be a whole number from 1 to 65535`}},
		"port as text":          {`"port": 8443}`, `"port": "8443"}`, []string{`8:76 /profiles/0/private/0/port must be a whole number from 1 to 65535`}},
		"no port":               {`, "port": 8443}`, `}`, []string{`8:9 /profiles/0/private/0 lacks the key port`}},
		"another host":          {`"host": "tickets.acme.example"`, `"host": "other.acme.example"`, []string{`8:9 /profiles/0/private/0 is for a host and port that the profile does not name`}},
		"wildcard exception":    {`"host": "tickets.acme.example"`, `"host": "*.acme.example"`, []string{`8:18 /profiles/0/private/0/host must be one host; there are no wildcards`}},
		"upper-case host":       {`"host": "tickets.acme.example"`, `"host": "Tickets.acme.example"`, []string{`8:18 /profiles/0/private/0/host is refused: the host is not a lower-case ASCII name`}},
		"exception twice":       {`{"host": "proxy`, `{"host": "tickets.acme.example", "prefix": "10.20.0.0/16", "port": 8443}, {"host": "proxy`, []string{`9:9 /profiles/0/private/1 is there twice`}},
		"proxy with a password": {`http://proxy.`, `http://u:` + canary + `@proxy.`, []string{`12:16 /profiles/0/proxy must not hold credentials; name a file in proxy_credentials_file`}},
		"proxy over https":      {`"http://proxy`, `"https://proxy`, []string{`12:16 /profiles/0/proxy is refused: not an http URL`}},
		"proxy at no exception": {`acme.example:3128",`, `acme.example:3129",`, []string{`12:16 /profiles/0/proxy is refused: a proxy needs a private exception for its host and port`}},
		"password for nobody":   {`"proxy": "http://proxy.acme.example:3128",`, ``, []string{`9:9 /profiles/0/private/1 is for a host and port that the profile does not name`, `13:33 /profiles/0/proxy_credentials_file is for a proxy, and there is none`}},
		"two passwords":         {`proxy.txt`, `two.txt`, []string{`13:33 /profiles/0/proxy_credentials_file names a file that is not one line of the form user:password`}},
		"no password":           {`proxy.txt`, `none.txt`, []string{`13:33 /profiles/0/proxy_credentials_file names a file that is not one line of the form user:password`}},

		"roots twice":       {`"roots_file": "ca.pem"`, `"roots_file": "ca.pem", "roots": "x"`, []string{`11:40 /profiles/0/roots gives the roots a second time; use roots or roots_file`}},
		"no roots file":     {`ca.pem`, `gone.pem`, []string{`11:21 /profiles/0/roots_file names a file that does not exist`}},
		"closed roots file": {`ca.pem`, `closed.pem`, []string{`11:21 /profiles/0/roots_file names a file that may not be read`}},
		"empty roots":       {`ca.pem`, `empty.pem`, []string{`11:21 /profiles/0/roots_file has no certificate in PEM form`}},
		"key beside roots":  {`ca.pem`, `key.pem`, []string{`11:21 /profiles/0/roots_file has a private key in it, which must not be here`}},
		"cut roots":         {`ca.pem`, `cut.pem`, []string{`11:21 /profiles/0/roots_file has a PEM block that can't be read`}},
		"broken roots":      {`ca.pem`, `broken.pem`, []string{`11:21 /profiles/0/roots_file has a certificate that can't be read`}},
		"roots of no use":   {`"roots_file": "ca.pem"`, `"roots": "` + canary + `"`, []string{`11:16 /profiles/0/roots has no certificate in PEM form`}},

		"no boolean":          {`"http2": true`, `"http2": "true"`, []string{`14:16 /profiles/0/http2 must be true or false`}},
		"null":                {`"http2": true`, `"http2": null`, []string{`14:16 /profiles/0/http2 must be true or false`}},
		"cookie as an id":     {`x-trace-id`, `set-cookie`, []string{`15:28 /profiles/0/request_id_header is a header whose value must not get into logs`}},
		"token as an id":      {`x-trace-id`, `X-Auth-Token`, []string{`15:28 /profiles/0/request_id_header is a header whose value must not get into logs`}},
		"no header name":      {`x-trace-id`, `x trace`, []string{`15:28 /profiles/0/request_id_header is refused: not a header name`}},
		"status of no use":    {`[429, 503]`, `[429, 404]`, []string{`16:42 /profiles/0/refuses_before_processing/1 is refused: 404 is not 408, 429 or a 5xx`}},
		"status twice":        {`[429, 503]`, `[503, 503]`, []string{`16:42 /profiles/0/refuses_before_processing/1 is there twice`}},
		"status as text":      {`[429, 503]`, `["429"]`, []string{`16:37 /profiles/0/refuses_before_processing/0 must be a whole number from 100 to 599`}},
		"zero time":           {`"dial": "2s"`, `"dial": "0s"`, []string{`19:17 /profiles/0/limits/dial must be a time such as "5s", from 100ms to 10m`}},
		"negative time":       {`"dial": "2s"`, `"dial": "-2s"`, []string{`19:17 /profiles/0/limits/dial must be a time such as "5s", from 100ms to 10m`}},
		"time as a number":    {`"dial": "2s"`, `"dial": 2`, []string{`19:17 /profiles/0/limits/dial must be a time such as "5s", from 100ms to 10m`}},
		"time without a unit": {`"dial": "2s"`, `"dial": "2"`, []string{`19:17 /profiles/0/limits/dial must be a time such as "5s", from 100ms to 10m`}},
		"a day":               {`"read": "20s"`, `"read": "24h"`, []string{`19:70 /profiles/0/limits/read must be a time such as "5s", from 100ms to 10m`}},
		"zero size":           {`"body_bytes": 1048576`, `"body_bytes": 0`, []string{`18:46 /profiles/0/limits/body_bytes must be a whole number from 1024 to 67108864`}},
		"size with exponent":  {`"body_bytes": 1048576`, `"body_bytes": 1e6`, []string{`18:46 /profiles/0/limits/body_bytes must be a whole number from 1024 to 67108864`}},
		"size past int64":     {`"body_bytes": 1048576`, `"body_bytes": 9223372036854775808`, []string{`18:46 /profiles/0/limits/body_bytes must be a whole number from 1024 to 67108864`}},
		"zero concurrency":    {`"concurrency": 2`, `"concurrency": 0`, []string{`20:24 /profiles/0/limits/concurrency must be a whole number from 1 to 1024`}},
		"zero rate":           {`"rate": 0.5`, `"rate": 0`, []string{`20:47 /profiles/0/limits/rate must be calls a second, from 0.01 to 10000`}},
		"endless rate":        {`"rate": 0.5`, `"rate": 1e999`, []string{`20:47 /profiles/0/limits/rate must be calls a second, from 0.01 to 10000`}},
		"no object of limits": {`"limits": {`, `"limits": [], "x": {`, []string{`17:17 /profiles/0/limits must be an object`, `17:21 /profiles/0/x is not a key of this format`}},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(full, c.from) != 1 {
				t.Fatalf("the file has %q %d times", c.from, strings.Count(full, c.from))
			}
			text := strings.Replace(full, c.from, c.to, 1)
			got, err := Parse([]byte(text), beside(files))
			if got.Profiles != nil {
				t.Errorf("there are profiles beside the error")
			}
			if diff := cmp.Diff(c.want, places(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

// places is the faults of an error, each as line:column, pointer and problem.
func places(t *testing.T, err error) (all []string) {
	t.Helper()
	if f := new(Fault); errors.As(err, &f) && err == error(f) {
		return []string{fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Pointer, f.Problem)}
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	for _, err := range joined.Unwrap() {
		var f *Fault
		if !errors.As(err, &f) {
			t.Fatalf("%v is no fault", err)
		}
		all = append(all, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Pointer, f.Problem))
	}
	return all
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := Parse([]byte(`{"profiles": [
 {"name": "a b", "base_url": "http://x.example", "http3": 1,
  "private": [{"host": "y.example", "prefix": "10.0.0.0/4", "port": -1}],
  "limits": {"read": 5}}], "version": 1}`), nil)
	want := []string{
		`2:11 /profiles/0/name must be a lower-case name of at most 64 characters`,
		`2:50 /profiles/0/http3 is not a key of this format`,
		`3:47 /profiles/0/private/0/prefix has address bits behind its length`,
		`3:69 /profiles/0/private/0/port must be a whole number from 1 to 65535`,
		`4:22 /profiles/0/limits/read must be a time such as "5s", from 100ms to 10m`,
		`4:28 /version is not a key of this format`,
	}
	// With a broken exception it is open whether plain http would have been fine.
	if diff := cmp.Diff(want, places(t, err)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// Guarantee: NET2
func TestTranslationPrefixes(t *testing.T) {
	text := func(list string) []byte {
		return []byte(`{"profiles": [{"name": "a", "base_url": "https://a.example"}], "nat64": ` + list + `}`)
	}
	f, err := Parse(text(`["2001:db8:64::/96"]`), nil)
	if err != nil || len(f.NAT64) != 1 || f.NAT64[0] != netip.MustParsePrefix("2001:db8:64::/96") {
		t.Errorf("%v, %v", f.NAT64, err)
	}
	for _, list := range []string{`["2001:db8:64::/64"]`, `["10.0.0.0/8"]`, `["2001:db8:64::1/96"]`, `["nat64"]`, `[96]`, `"2001:db8:64::/96"`} {
		if f, err := Parse(text(list), nil); err == nil || f.NAT64 != nil {
			t.Errorf("%s passed", list)
		}
	}
}

func TestNothingToRead(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "line 1, column 1: the document ends too early",
		"[]":                                "line 1, column 1: must be an object",
		`{}`:                                "line 1, column 1: lacks the key profiles",
		`{"profiles": []}`:                  `line 1, column 14: "/profiles" is empty: without a profile nothing can be reached`,
		`{"profiles": {}}`:                  `line 1, column 14: "/profiles" must be a list`,
		strings.Repeat(" ", maxBytes) + `{`: "the profile file has 1048577 bytes, over the limit of 1048576",
	} {
		_, err := Parse([]byte(text), nil)
		if err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	_, err := Parse([]byte(`{"profiles": [{"name": "a", "base_url": "https://a.example", "roots_file": "ca.pem"}]}`), nil)
	if err == nil || !strings.Contains(err.Error(), "names a file, and none can be read here") {
		t.Errorf("a file was named for nobody to read: %v", err)
	}
}

func TestPlainHTTPForThisMachine(t *testing.T) {
	text := `{"profiles": [{"name": "dev", "base_url": "http://localhost:8080/api",
	  "private": [{"host": "localhost", "prefix": "127.0.0.0/8", "port": 8080}]}]}`
	if _, err := Parse([]byte(text), nil); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ from, to string }{{`127.0.0.0/8`, `10.0.0.0/8`}, {`8080}`, `8081}`}, {`"localhost", "pre`, `"other", "pre`}} {
		if _, err := Parse([]byte(strings.Replace(text, c.from, c.to, 1)), nil); err == nil {
			t.Errorf("plain http passed with %s", c.to)
		}
	}
}

// FuzzParse holds two promises on any text: no panic, and nothing passes that
// the transport refuses.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"profiles":[{"name":"a","base_url":"https://a.example"}]}`))
	f.Add([]byte(`{"profiles":[{"name":"a","base_url":"http://[::1]:80","private":[{"host":"::1","prefix":"::1/128","port":80}]}]}`))
	files := beside(map[string]string{"ca.pem": pemOf(f), "proxy.txt": "u:p"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := Parse(raw, files)
		all := file.Profiles
		if err != nil {
			if len(all) > 0 || strings.Contains(err.Error(), "\x00") {
				t.Fatalf("%d profiles beside %q", len(all), err)
			}
			return
		}
		names := map[string]bool{}
		for _, p := range all {
			if err := p.Validate(); err != nil {
				t.Fatalf("%+v passed: %v", p, err)
			}
			if names[p.Name] || p.Name == "" {
				t.Fatalf("name %q twice or empty", p.Name)
			}
			names[p.Name] = true
			for _, e := range p.Private {
				if e.Prefix.Addr().Is4() && e.Prefix.Bits() < 8 || e.Prefix.Addr().Is6() && e.Prefix.Bits() < 16 {
					t.Fatalf("range %s passed", e.Prefix)
				}
			}
			if strings.HasPrefix(p.BaseURL, "http:") && len(p.Private) == 0 {
				t.Fatal("plain http passed without an exception")
			}
			Describe(p)
		}
	})
}
