package fault

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The upstream's certificate is checked, its name is what it is asked by, and a
// client that does not know the proxy's own certificate does not speak to it.
func TestTLSOnBothSides(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		io.WriteString(w, "hello")
	}))
	defer up.Close()
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})
	p, err := StartTLS(t.Context(), up.URL, roots)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.Roots())
	trusting := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}

	get := func(c *http.Client, url string) (string, error) {
		resp, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if body, err := get(trusting, p.URL()); err != nil || body != "hello" {
		t.Errorf("answered %q, %v", body, err)
	}
	if host := <-asked; "https://"+host != up.URL {
		t.Errorf("the upstream was asked as %s, want %s", host, up.URL)
	}
	p.Next(Rule{Action: LoseAnswer})
	if _, err := get(trusting, p.URL()); err == nil || len(asked) != 1 {
		t.Errorf("a lost answer ends with %v, and the upstream was asked %d times", err, len(asked))
	}
	if _, err := get(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, p.URL()); err == nil {
		t.Error("a client that trusts the system alone spoke to the proxy")
	}

	stranger, err := StartTLS(t.Context(), up.URL, p.Roots())
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	pool.AppendCertsFromPEM(stranger.Roots())
	if _, err := get(trusting, stranger.URL()); err == nil {
		t.Error("an upstream with an unknown certificate was spoken to")
	}
	for _, u := range []string{"http://127.0.0.1:1", "https://", "https://a/b", "https://a:1?q=1"} {
		if _, err := StartTLS(t.Context(), u, nil); err == nil || !strings.HasPrefix(err.Error(), "fault: ") {
			t.Errorf("%s: %v", u, err)
		}
	}
}
