package bench

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

// bench is a connected host and, for the floor, a token of its own.
type bench struct {
	host    *host.Host
	runtime *connector.Runtime
	caller  connector.Caller
	url     string
	token   string
	client  *http.Client
}

const callback = "http://127.0.0.1:1/callback"

func setup(b *testing.B) *bench {
	b.Helper()
	ready := startSandbox(b)
	h, err := host.Open(b.Context(), host.Config{
		Data: b.TempDir(), Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: ready.URL, Private: host.Loopback(ready.URL),
			Rate: 1e6, Concurrency: 64}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close() })
	r, _ := h.Runtime("sandbox")
	s := &bench{host: h, runtime: r, caller: connector.Caller{Tenant: "acme", Principal: "bob"}, url: ready.URL, client: &http.Client{}}
	var password string
	for _, u := range ready.Users {
		if u.Login == "bob" {
			password = u.Password
		}
	}
	const browser = "the browser of the benchmarks"
	begun, err := h.Credentials.Begin(b.Context(), s.caller, credentials.BeginRequest{Provider: "sandbox", RedirectURI: callback, BrowserKey: browser})
	if err != nil {
		b.Fatal(err)
	}
	back, err := sandbox.Login(b.Context(), &http.Client{}, begun.URL, "bob", password, true)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.Credentials.Finish(b.Context(), s.caller, browser, back.Query(), r.Identify); err != nil {
		b.Fatal(err)
	}
	s.token = plainToken(b, ready.URL, password)
	return s
}

// plainToken signs in by hand with a fixed verifier (RFC 7636, appendix B).
func plainToken(b *testing.B, base, password string) string {
	b.Helper()
	q := url.Values{"response_type": {"code"}, "client_id": {"drawbridge-cli"}, "redirect_uri": {callback}, "state": {"s"},
		"scope":          {"tickets:read tickets:write profile:read"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
	back, err := sandbox.Login(b.Context(), &http.Client{}, base+"/oauth/authorize?"+q.Encode(), "bob", password, true)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.PostForm(base+"/oauth/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {"drawbridge-cli"},
		"code": {back.Query().Get("code")}, "redirect_uri": {callback}, "code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}})
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.AccessToken == "" {
		b.Fatal(errors.Join(err, errors.New("no token")))
	}
	return answer.AccessToken
}

func drain(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func mustBe(b *testing.B, r connector.Result, status connector.Status) {
	b.Helper()
	if r.Status != status {
		raw, _ := json.Marshal(r)
		b.Fatalf("status %s, want %s: %s", r.Status, status, strings.TrimSpace(string(raw)))
	}
}
