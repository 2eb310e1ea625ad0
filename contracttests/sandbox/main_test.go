package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is one sandbox with a client that follows nothing and keeps no connection.
type bench struct {
	*Server
	t      testing.TB
	client *http.Client
}

func start(t testing.TB, cfg Config) *bench {
	t.Helper()
	s, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return &bench{s, t, &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (b *bench) password(login string) string {
	for _, u := range b.Users() {
		if u.Login == login {
			return u.Password
		}
	}
	b.t.Fatalf("no user %s", login)
	return ""
}

const (
	verifier = "a-verifier-of-more-than-forty-three-characters-0123"
	callback = "http://127.0.0.1:45678/callback"
	scopes   = "tickets:read tickets:write profile:read webhooks:manage offline_access"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (b *bench) authorizeURL(change func(url.Values)) string {
	q := url.Values{"response_type": {"code"}, "client_id": {"drawbridge-cli"}, "redirect_uri": {callback}, "state": {"st4te"},
		"scope": {scopes}, "code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"}}
	if change != nil {
		change(q)
	}
	return b.URL() + "/oauth/authorize?" + q.Encode()
}

// signIn walks the pages and returns the parameters of the redirect.
func (b *bench) signIn(login string, change func(url.Values)) url.Values {
	b.t.Helper()
	u, err := Login(context.Background(), b.client, b.authorizeURL(change), login, b.password(login), true)
	if err != nil {
		b.t.Fatal(err)
	}
	return u.Query()
}

type tokens struct {
	Status  int             `json:"-"`
	Access  string          `json:"access_token"`
	Refresh string          `json:"refresh_token"`
	Type    string          `json:"token_type"`
	Expires json.RawMessage `json:"expires_in"`
	Scope   string          `json:"scope"`
	Error   string          `json:"error"`
}

func (b *bench) tokenRequest(form url.Values) tokens {
	b.t.Helper()
	res, err := b.client.PostForm(b.URL()+"/oauth/token", form)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	var out tokens
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		b.t.Fatal(err)
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		b.t.Errorf("Cache-Control = %q, want no-store", got)
	}
	out.Status = res.StatusCode
	return out
}

func (b *bench) exchange(code string) tokens {
	b.t.Helper()
	return b.tokenRequest(url.Values{"grant_type": {"authorization_code"}, "client_id": {"drawbridge-cli"}, "code": {code},
		"redirect_uri": {callback}, "code_verifier": {verifier}})
}

func (b *bench) refresh(token string) tokens {
	b.t.Helper()
	return b.tokenRequest(url.Values{"grant_type": {"refresh_token"}, "client_id": {"drawbridge-cli"}, "refresh_token": {token}})
}

// as returns tokens for a person with every scope.
func (b *bench) as(login string) tokens {
	b.t.Helper()
	got := b.exchange(b.signIn(login, nil).Get("code"))
	if got.Access == "" {
		b.t.Fatalf("no token for %s: %+v", login, got)
	}
	return got
}

type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("status %d, body is no JSON: %v", r.Status, err)
	}
}

// call sends one request; body may be nil, a string or a value for JSON.
func (b *bench) call(method, path, token string, body any, header ...string) reply {
	b.t.Helper()
	r, err := b.try(method, path, token, body, header...)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) try(method, path, token string, body any, header ...string) (reply, error) {
	var in io.Reader
	switch v := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, b.URL()+path, in)
	if err != nil {
		return reply{}, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := b.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, text}, err
}

func (b *bench) behave(v Behaviour) {
	b.t.Helper()
	if err := b.SetBehaviour(v); err != nil {
		b.t.Fatal(err)
	}
}

// direct serves requests without a socket, for tests that move the clock.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = "", "192.0.2.1:1"
	d.h.ServeHTTP(rec, in)
	return rec.Result(), nil
}

func newRequest(u *url.URL) *http.Request {
	return &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
}

func copyTo(w io.Writer, res *http.Response) (int64, error) { return io.Copy(w, res.Body) }
