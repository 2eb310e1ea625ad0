package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

const (
	canary = "canary-8a21"
	host   = "api.example.test"
)

// A service is a real TLS server with a certificate of its own.
type service struct {
	*httptest.Server
	roots    []byte
	port     uint16
	requests atomic.Int32
	faults   atomic.Int32 // requests that held what none may hold
}

func serve(t *testing.T, name string, notAfter time.Time, change func(*service)) *service {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the \x1b[2J ca"}, DNSNames: []string{name},
		NotBefore: notAfter.Add(-90 * 24 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{roots: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		for name := range r.Header {
			if name != "User-Agent" && name != "Accept-Encoding" && name != "Connection" {
				s.faults.Add(1)
			}
		}
		if r.URL.RawQuery != "" || r.Method != http.MethodGet || r.ContentLength > 0 {
			s.faults.Add(1)
		}
		w.Header().Set("X-Secret", canary)
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, canary)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	if change != nil {
		change(s)
	}
	if s.TLS != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	s.port = uint16(n)
	return s
}

func (s *service) profile() transport.Profile {
	return transport.Profile{
		Name: "org", BaseURL: "https://" + host + ":" + strconv.Itoa(int(s.port)) + "/api", Roots: s.roots,
		Private: []transport.PrivateException{{Host: host, Prefix: netip.MustParsePrefix("127.0.0.0/8"), Port: s.port}},
	}
}

var later = time.Now().Add(60 * 24 * time.Hour)

// found is the report as step, status pairs.
func found(r Report) (all []string) {
	for _, i := range r.Items {
		all = append(all, i.Step+" "+string(i.Status))
	}
	return all
}

func item(t *testing.T, r Report, step string, s Status) Item {
	t.Helper()
	for _, i := range r.Items {
		if i.Step == step && i.Status == s {
			return i
		}
	}
	t.Fatalf("no item %s %s in %v", step, s, found(r))
	return Item{}
}

func want(t *testing.T, r Report, items ...string) {
	t.Helper()
	if diff := cmp.Diff(items, found(r)); diff != "" {
		var b strings.Builder
		r.WriteText(&b)
		t.Errorf("items (-want +got):\n%s\n%s", diff, b.String())
	}
	for _, i := range r.Items {
		if i.Text == "" || (i.Status == Refused || i.Status == Failed) && i.Next == "" {
			t.Errorf("%+v does not say what it is or what to do", i)
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), canary) || strings.Contains(string(raw), "\\u001b") {
		t.Errorf("the report shows what it must not: %s", raw)
	}
}

// Guarantees: OPS4, NET10
func TestAServiceThatIsWell(t *testing.T) {
	s := serve(t, host, later, nil)
	p := s.profile()
	r := Check(t.Context(), p, Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{"HOME=/"}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate ok", "http ok", "clock ok")
	if !r.Usable() || r.Status() != OK {
		t.Errorf("status %s", r.Status())
	}
	if s.requests.Load() != 1 || s.faults.Load() != 0 {
		t.Errorf("%d requests, %d things in them that must not be there", s.requests.Load(), s.faults.Load())
	}
	if i := item(t, r, "tls", OK); !strings.Contains(i.Text, "TLS 1.3 with TLS_") {
		t.Error(i.Text)
	}
	if i := item(t, r, "certificate", OK); !strings.Contains(i.Text, "it is for "+host+" and good for 59 more days") {
		t.Error(i.Text)
	}
	if i := item(t, r, "http", OK); !strings.Contains(i.Text, "4xx") || strings.Contains(i.Text, "401") {
		t.Error(i.Text)
	}
}

// Guarantees: OPS4, NET4
func TestCertificatesThatDoNotProveTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		for_  string
		until time.Time
		known bool
		says  string
	}{
		"expired":    {host, time.Now().Add(-48 * time.Hour), true, "has expired or is not valid yet; it is for " + host + " and expired on 20"},
		"wrong host": {"other.example.test", later, true, "the certificate is not for " + host + "; it is for other.example.test and good for 59 more days"},
		"unknown CA": {host, later, false, "by an authority that this profile does not trust; it is for " + host},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.for_, c.until, nil)
			p := s.profile()
			items := []string{"profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate failed", "http warning"}
			if !c.known {
				p.Roots = serve(t, host, later, nil).roots
			} else if name == "expired" { // its own root
				items = slices.Insert(items, 1, "certificate failed")
			}
			r := Check(t.Context(), p, Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}})
			want(t, r, items...)
			last := r.Items[len(r.Items)-2]
			if !strings.Contains(last.Text, c.says) {
				t.Errorf("%q does not say %q", last.Text, c.says)
			}
			if r.Usable() || s.requests.Load() != 0 {
				t.Errorf("usable %t, %d requests", r.Usable(), s.requests.Load())
			}
		})
	}
}

func TestCertificateThatEndsSoon(t *testing.T) {
	s := serve(t, host, time.Now().Add(5*24*time.Hour+time.Hour), nil)
	r := Check(t.Context(), s.profile(), Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}})
	want(t, r, "profile ok", "certificate warning", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate warning", "http ok", "clock ok")
	if !r.Usable() || r.Status() != Warning {
		t.Errorf("status %s, usable %t", r.Status(), r.Usable())
	}
	if i := r.Items[8]; !strings.Contains(i.Text, "5 more days") {
		t.Error(i.Text)
	}
}

// Guarantee: NET4
func TestOldTLS(t *testing.T) {
	s := serve(t, host, later, func(s *service) { s.TLS.MinVersion, s.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
	r := Check(t.Context(), s.profile(), Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls failed", "http warning")
	if i := item(t, r, "tls", Failed); !strings.Contains(i.Next, "1.2") {
		t.Errorf("%+v", i)
	}
}

func TestNotTLSAtAll(t *testing.T) {
	s := serve(t, host, later, func(s *service) { s.TLS = nil })
	r := Check(t.Context(), s.profile(), Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}})
	if i := item(t, r, "tls", Failed); i.Text != "what answers there does not speak TLS" {
		t.Error(i.Text)
	}
}

func TestPlainHTTPOnThisMachine(t *testing.T) {
	s := serve(t, host, later, func(s *service) { s.TLS = nil })
	r := Check(t.Context(), transport.Loopback("dev", s.URL), Options{Environ: []string{}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls warning", "http ok", "clock ok")
	if !r.Usable() {
		t.Error("not usable")
	}
}

func TestClosedPort(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	r := Check(t.Context(), transport.Loopback("dev", url), Options{Environ: []string{}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect failed", "http warning")
	if i := item(t, r, "connect", Failed); !strings.Contains(i.Text, "nothing listens there") {
		t.Error(i.Text)
	}
}

// Guarantees: OPS4, NET2
func TestAddressesThatAreRefused(t *testing.T) {
	for addr, next := range map[string]string{
		"10.1.2.3":        "add to private: host api.example.test, prefix 10.1.2.3/32, port 443",
		"127.0.0.1":       "add to private: host api.example.test, prefix 127.0.0.1/32, port 443",
		"169.254.169.254": "no setting opens this address",
		"fd00:ec2::254":   "prefix fd00:ec2::254/128", // refused all the same when it is added
		"::ffff:7f00:1":   "prefix 127.0.0.1/32",
		"64:ff9b::1":      "no setting opens this address",
	} {
		r := Check(t.Context(), transport.Profile{Name: "org", BaseURL: "https://" + host},
			Options{Resolver: names(t, map[string][]string{host: {addr}}), Environ: []string{}})
		want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address refused", "http warning")
		if i := item(t, r, "address", Refused); !strings.Contains(i.Next, next) {
			t.Errorf("%s: %s", addr, i.Next)
		}
		if r.Usable() {
			t.Errorf("%s: usable", addr)
		}
	}
}

// One address of several that may be dialled is enough, and the others are shown.
func TestSeveralAddresses(t *testing.T) {
	s := serve(t, host, later, nil)
	r := Check(t.Context(), s.profile(), Options{
		Resolver: names(t, map[string][]string{host: {"10.1.2.3", "127.0.0.1", "169.254.169.254", "fd00::1"}}), Environ: []string{}})
	got := found(r)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"address ok", "address warning", "address warning", "address warning", "certificate ok", "clock ok",
		"connect ok", "environment ok", "http ok", "limits ok", "profile ok", "resolve ok", "tls ok"}, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if !r.Usable() {
		t.Error("not usable")
	}
}

func TestNoSuchName(t *testing.T) {
	r := Check(t.Context(), transport.Profile{Name: "org", BaseURL: "https://" + host}, Options{Resolver: names(t, nil), Environ: []string{}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve failed", "http warning")
}

func TestLoginOriginsAreLookedAtAndNotAsked(t *testing.T) {
	s := serve(t, host, later, nil)
	p := s.profile()
	p.AuthOrigins = []string{"https://login.example.test"}
	r := Check(t.Context(), p, Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}, "login.example.test": {"10.0.0.1"}}), Environ: []string{}})
	want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate ok", "http ok", "clock ok",
		"resolve ok", "address refused")
	if r.Usable() || s.requests.Load() != 1 {
		t.Errorf("usable %t, %d requests", r.Usable(), s.requests.Load())
	}
}

func TestProfileThatIsNotValid(t *testing.T) {
	r := Check(t.Context(), transport.Profile{Name: "org", BaseURL: "http://" + host, RequestIDHeader: "a b"}, Options{})
	want(t, r, "profile refused", "profile refused")
}

// Guarantee: NET4
func TestEnvironmentIsNamedAndNotShown(t *testing.T) {
	s := serve(t, host, later, nil)
	resolver := names(t, map[string][]string{host: {"127.0.0.1"}})
	environ := []string{"https_proxy=http://u:" + canary + "@p", "NO_PROXY=*", "SSL_CERT_FILE=/" + canary, "GODEBUG=x=" + canary, "HTTP_PROXY="}
	r := Check(t.Context(), s.profile(), Options{Resolver: resolver, Environ: environ})
	want(t, r, "profile ok", "environment warning", "environment warning", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate ok", "http ok", "clock ok")
	if got := r.Items[1].Text; got != "set, and ignored: NO_PROXY, https_proxy" {
		t.Error(got)
	}
	if got := r.Items[2].Text; !strings.HasSuffix(got, ": GODEBUG") { // the profile has roots of its own
		t.Error(got)
	}
}

func TestClockThatIsOff(t *testing.T) {
	for name, c := range map[string]struct {
		date   string
		status Status
	}{
		"five minutes": {time.Now().Add(-5 * time.Minute).UTC().Format(http.TimeFormat), Warning},
		"no date":      {"", Warning},
		"nonsense":     {canary, Warning},
		"now":          {time.Now().UTC().Format(http.TimeFormat), OK},
	} {
		s := serve(t, host, later, func(s *service) {
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Date"] = []string{c.date}
				w.WriteHeader(http.StatusBadGateway)
			})
		})
		r := Check(t.Context(), s.profile(), Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}})
		want(t, r, "profile ok", "environment ok", "limits ok", "resolve ok", "address ok", "connect ok", "tls ok", "certificate ok", "http warning", "clock "+string(c.status))
		if name == "five minutes" && !strings.Contains(item(t, r, "clock", Warning).Text, "differ by 5m") &&
			!strings.Contains(item(t, r, "clock", Warning).Text, "differ by 4m59s") {
			t.Error(item(t, r, "clock", Warning).Text)
		}
	}
}

// A proxy is looked at in place of the hosts behind it.
func TestProxy(t *testing.T) {
	s := serve(t, host, later, nil)
	asked := make(chan string, 4)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		up, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer up.Close()
		down, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer down.Close()
		io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(up, down)
		io.Copy(down, up)
	}))
	defer proxy.Close()
	p := s.profile()
	p.Proxy = strings.Replace(proxy.URL, "http://", "http://u:"+canary+"@", 1)
	p.Private = append(p.Private, transport.Loopback("", proxy.URL).Private...)
	r := Check(t.Context(), p, Options{Resolver: names(t, nil), Environ: []string{"HTTPS_PROXY=x"}})
	want(t, r, "profile ok", "environment warning", "limits ok", "resolve ok", "address ok", "connect ok", "resolve ok", "certificate ok", "http ok", "clock ok")
	if got := <-asked; !strings.HasPrefix(got, "CONNECT "+host) {
		t.Error(got)
	}
}

func TestTextOfAReport(t *testing.T) {
	s := serve(t, host, time.Now().Add(-time.Hour), nil)
	p := s.profile()
	var b strings.Builder
	if err := Check(t.Context(), p, Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1"}}), Environ: []string{}}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"org: failed\n", "  https://" + host + ":", "failed   certificate  the certificate has expired", "next: have it renewed"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, b.String())
		}
	}
}

func TestOneOfSeveralServersIsDown(t *testing.T) {
	s := serve(t, host, later, nil) // on 127.0.0.1 alone
	r := Check(t.Context(), s.profile(), Options{Resolver: names(t, map[string][]string{host: {"127.0.0.1", "127.0.0.2"}}), Environ: []string{}})
	if i := item(t, r, "connect", Warning); !strings.Contains(i.Text, "127.0.0.2 port") {
		t.Error(i.Text)
	}
	if item(t, r, "connect", OK); !r.Usable() {
		t.Errorf("not usable: %v", found(r))
	}
}
