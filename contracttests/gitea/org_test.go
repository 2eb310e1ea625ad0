package gitea_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
)

const (
	ana, anaPassword = "ana", "ana's password 1"
	ben, benPassword = "ben", "ben's password 1"
	callback         = "http://127.0.0.1:9999/callback"
)

// org is one real server with two people, a private repository and a public client.
type org struct {
	*gitea.Server
	base   string // where the client thinks the server is
	repo   string
	app    gitea.OAuthApp
	client *http.Client
}

func newOrg(t *testing.T) *org {
	t.Helper()
	return seed(t, gitea.ForTest(t, gitea.Config{}))
}

func seed(t *testing.T, s *gitea.Server) *org {
	t.Helper()
	o := &org{Server: s, base: s.URL}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.client = &http.Client{Transport: transport}
	ctx := t.Context()
	check(t, o.CreateUser(ctx, ana, anaPassword))
	check(t, o.CreateUser(ctx, ben, benPassword))
	var err error
	o.repo, err = o.CreateRepo(ctx, ana, "desk", true)
	check(t, err)
	o.app, err = o.CreateOAuthApp(ctx, ana, "app", []string{callback}, false)
	check(t, err)
	return o
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authorize goes to the authorization page with PKCE and returns where it ended and the
// verifier.
func (o *org) authorize(t *testing.T, scope, login, password string, allow bool) (*url.URL, string, error) {
	t.Helper()
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id": {o.app.ClientID}, "redirect_uri": {callback}, "response_type": {"code"}, "state": {"s t/a&te"}, "scope": {scope},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	u, err := gitea.Login(t.Context(), o.client, o.base+"/login/oauth/authorize?"+query.Encode(), login, password, allow)
	return u, verifier, err
}

type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Refresh string `json:"refresh_token"`
	Error   string `json:"error"`
}

func (o *org) token(t *testing.T, form url.Values) (int, tokens) {
	t.Helper()
	form.Set("client_id", o.app.ClientID)
	form.Set("client_secret", o.app.ClientSecret) // read for confidential clients only
	resp, err := o.client.PostForm(o.base+"/login/oauth/access_token", form)
	check(t, err)
	defer resp.Body.Close()
	var got tokens
	check(t, json.NewDecoder(resp.Body).Decode(&got))
	return resp.StatusCode, got
}

func (o *org) connect(t *testing.T, scope string) tokens {
	t.Helper()
	u, verifier, err := o.authorize(t, scope, ana, anaPassword, true)
	check(t, err)
	if u.Query().Get("state") != "s t/a&te" || u.Query().Get("code") == "" {
		t.Fatalf("redirect carries state %q and error %q", u.Query().Get("state"), u.Query().Get("error"))
	}
	status, got := o.token(t, url.Values{
		"grant_type": {"authorization_code"}, "code": {u.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {callback},
	})
	if status != 200 || got.Access == "" || got.Refresh == "" || got.Type != "bearer" || got.Expires <= 0 {
		t.Fatalf("token endpoint answered %d %s", status, got.Error)
	}
	return got
}

func (o *org) bearer(t *testing.T, token, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, o.base+"/api/v1"+path, strings.NewReader(body))
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.client.Do(req)
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(b)
}

// withApp is the same organisation seen by another client.
func (o *org) withApp(t *testing.T, name string, confidential bool) *org {
	t.Helper()
	app, err := o.CreateOAuthApp(t.Context(), ana, name, []string{callback}, confidential)
	check(t, err)
	other := *o
	other.app = app
	return &other
}

func (o *org) introspect(t *testing.T, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", o.URL+"/login/oauth/introspect", strings.NewReader(url.Values{"token": {token}}.Encode()))
	check(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(o.app.ClientID+":"+o.app.ClientSecret)))
	resp, err := o.client.Do(req)
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, strings.TrimSpace(string(b))
}
