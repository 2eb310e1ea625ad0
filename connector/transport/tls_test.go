package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// secureServer counts its handshakes and requests.
type secureServer struct {
	*httptest.Server
	handshakes, requests atomic.Int32
}

func serveTLS(t *testing.T, host string, notAfter time.Time, change func(*tls.Config), before ...func(*http.Server)) (*secureServer, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "foreign " + canary}, NotBefore: notAfter.Add(-time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if ip := net.ParseIP(host); ip != nil {
		cert.IPAddresses = []net.IP{ip}
	} else {
		cert.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := &secureServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if r.ProtoMajor != 1 { // offered, and not to be taken
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { s.handshakes.Add(1); return nil, nil },
	}
	if change != nil {
		change(s.TLS)
	}
	for _, b := range before {
		b(s.Config)
	}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Guarantee: NET4
func TestCertificateErrorsAreFinal_G34(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		host  string
		until time.Time
		known bool
	}{
		"expired":    {"127.0.0.1", time.Now().Add(-time.Hour), true},
		"wrong host": {"other.example", soon, true},
		"unknown CA": {"127.0.0.1", soon, false},
	} {
		for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
			t.Run(name, func(t *testing.T) {
				s, roots := serveTLS(t, c.host, c.until, nil)
				p := quick(Loopback("org", s.URL))
				if c.known {
					p.Roots = roots
				}
				tr := newTransport(t, p)
				r := read("/")
				if class == connector.ClassWrite {
					r = write("/", "{}")
				}
				for range 12 { // enough to open a breaker that counted them
					s.handshakes.Store(0)
					resp, err := tr.Do(t.Context(), alice, class, r)
					if connector.CodeOf(err) != connector.CodeEgressBlocked || len(resp.Attempts) != 1 || wrote(resp.Attempts) {
						t.Fatalf("error %v, attempts %+v; want EGRESS_BLOCKED and one that wrote nothing", err, resp.Attempts)
					}
					if class == connector.ClassWrite && effect(err) != connector.DispositionNotApplied {
						t.Errorf("effect %v", effect(err))
					}
					if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "other.example") {
						t.Errorf("the error quotes the certificate: %v", err)
					}
					if n := s.handshakes.Load(); n != 1 {
						t.Errorf("%d handshakes, want 1", n)
					}
				}
				if n := s.requests.Load(); n != 0 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

func TestPrivateRootsAndProtocols(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	s, roots := serveTLS(t, "127.0.0.1", soon, nil)
	p := quick(Loopback("org", s.URL))
	p.Roots = roots
	tr := newTransport(t, p)
	for range 2 {
		if resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); err != nil || resp.Status != 200 {
			t.Fatalf("status %d, %v", resp.Status, err)
		}
	}
	if n := s.handshakes.Load(); n != 1 {
		t.Errorf("%d handshakes for two reads, want 1", n)
	}
	if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/", "{}")); err != nil {
		t.Error(err)
	}

	old, roots := serveTLS(t, "127.0.0.1", soon, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
	p = quick(Loopback("org", old.URL))
	p.Roots = roots
	_, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassWrite, write("/", "{}"))
	if connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionNotApplied || old.requests.Load() != 0 {
		t.Errorf("TLS 1.1: %v", err)
	}
}

// Left-over bytes hide in the buffers of TLS as well (G30).
func TestStrayBytesOverTLS_G30(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	s, roots := serveTLS(t, "127.0.0.1", time.Now().Add(time.Hour), nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/1" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"forged\":true}")
				t.Cleanup(func() { c.Close() })
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"real":true}`)
	})
	p := quick(Loopback("org", s.URL))
	p.Roots = roots
	tr := newTransport(t, p)
	for range 20 {
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/1")); err != nil {
			t.Fatal(err)
		}
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/2"))
		if err != nil || string(resp.Body) != `{"real":true}` {
			t.Fatalf("the next answer is %s, %v", resp.Body, err)
		}
	}
}
