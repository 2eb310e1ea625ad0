package sandbox

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Guarantee: TST2
func TestAuthorizationCodeWithPKCE(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	q := b.signIn("alice", nil)
	if q.Get("state") != "st4te" || q.Get("iss") != b.Issuer() || q.Get("code") == "" {
		t.Fatalf("redirect carries %v", q)
	}
	got := b.exchange(q.Get("code"))
	if got.Status != 200 || got.Type != "Bearer" || got.Refresh == "" || string(got.Expires) != "600" || got.Scope != scopes {
		t.Fatalf("token answer = %+v", got)
	}
	var me struct {
		Subject, Login string
		Organisation   Organisation
		Projects       []ProjectRef
	}
	b.call("GET", "/api/v1/me", got.Access, nil).into(t, &me)
	if diff := cmp.Diff([]ProjectRef{{"orders", "Order platform"}, {"web", "Web shop"}}, me.Projects); diff != "" {
		t.Errorf("projects of alice (-want +got):\n%s", diff)
	}
	if me.Login != "alice" || me.Organisation.ID != "acme" || me.Subject != "acct-alice" {
		t.Errorf("me = %+v", me)
	}
}

func TestMetadataDescribesTheServer(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	var m struct {
		Issuer  string   `json:"issuer"`
		Token   string   `json:"token_endpoint"`
		Methods []string `json:"code_challenge_methods_supported"`
		Iss     bool     `json:"authorization_response_iss_parameter_supported"`
	}
	read := func() {
		b.call("GET", "/.well-known/oauth-authorization-server", "", nil).into(t, &m)
	}
	read()
	if m.Issuer != b.URL() || m.Token != b.URL()+"/oauth/token" || !m.Iss || len(m.Methods) != 1 || m.Methods[0] != "S256" {
		t.Errorf("metadata = %+v", m)
	}
	b.behave(Behaviour{Switches: Switches{IssNotAdvertised: true, Iss: "omit"}})
	if read(); m.Iss {
		t.Error("iss still advertised")
	}
	if q := b.signIn("alice", nil); q.Has("iss") || q.Get("code") == "" {
		t.Errorf("redirect carries %v, want a code without iss", q)
	}
	b.behave(Behaviour{Switches: Switches{Iss: "https://evil.example"}})
	if q := b.signIn("alice", nil); q.Get("iss") != "https://evil.example" {
		t.Errorf("iss = %q", q.Get("iss"))
	}
}

// Guarantee: CRE1
func TestAuthorizationRequestRefused(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	sent := map[string]func(url.Values){
		"invalid_request without PKCE":     func(q url.Values) { q.Del("code_challenge"); q.Del("code_challenge_method") },
		"invalid_request plain PKCE":       func(q url.Values) { q.Set("code_challenge_method", "plain") },
		"invalid_request default is plain": func(q url.Values) { q.Del("code_challenge_method") },
		"invalid_request short challenge":  func(q url.Values) { q.Set("code_challenge", "abc") },
		"invalid_scope unknown":            func(q url.Values) { q.Set("scope", "tickets:read admin") },
		"invalid_scope empty":              func(q url.Values) { q.Del("scope") },
		"invalid_target relative":          func(q url.Values) { q.Set("resource", "tickets") },
		"unsupported_response_type":        func(q url.Values) { q.Set("response_type", "token") },
		"login_required":                   func(q url.Values) { q.Set("prompt", "none") },
	}
	for name, change := range sent {
		want, _, _ := strings.Cut(name, " ")
		res, err := b.client.Get(b.authorizeURL(change))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		to, err := res.Location()
		if err != nil {
			t.Errorf("%s: status %d without redirect", name, res.StatusCode)
			continue
		}
		q := to.Query()
		if q.Get("error") != want || q.Get("state") != "st4te" || q.Get("iss") != b.Issuer() || q.Has("code") {
			t.Errorf("%s: redirect carries %v", name, q)
		}
	}
	shown := map[string]func(url.Values){
		"unknown client":      func(q url.Values) { q.Set("client_id", "nobody") },
		"other host":          func(q url.Values) { q.Set("redirect_uri", "http://evil.example/callback") },
		"other path":          func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1:1/callback/x") },
		"query added":         func(q url.Values) { q.Set("redirect_uri", callback+"?x=1") },
		"localhost is a name": func(q url.Values) { q.Set("redirect_uri", "http://localhost:1/callback") },
		"user info":           func(q url.Values) { q.Set("redirect_uri", "http://127.0.0.1@evil.example/callback") },
		"empty":               func(q url.Values) { q.Set("redirect_uri", "") },
		"port of another's URI": func(q url.Values) {
			q.Set("client_id", "drawbridge-web")
			q.Set("redirect_uri", "http://127.0.0.1:8081/callback")
		},
		"port of a real host": func(q url.Values) {
			q.Set("client_id", "drawbridge-web")
			q.Set("redirect_uri", "https://drawbridge.example:444/callback")
		},
		"two redirect URIs": func(q url.Values) { q.Add("redirect_uri", "http://evil.example/") },
	}
	for name, change := range shown {
		res, err := b.client.Get(b.authorizeURL(change))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 400 || res.Header.Get("Location") != "" {
			t.Errorf("%s: status %d, Location %q; want a page and no redirect", name, res.StatusCode, res.Header.Get("Location"))
		}
	}
	if q := b.signIn("alice", func(q url.Values) { q.Set("redirect_uri", "http://[::1]:999/callback") }); q.Get("code") == "" {
		t.Errorf("loopback IPv6 with a port: %v", q)
	}
}

// Guarantee: CRE1
func TestCodeExchangeRefused(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	for name, change := range map[string]func(url.Values){
		"wrong verifier": func(f url.Values) { f.Set("code_verifier", verifier+"x") },
		"no verifier":    func(f url.Values) { f.Del("code_verifier") },
		"other redirect": func(f url.Values) { f.Set("redirect_uri", "http://127.0.0.1:1/callback") },
		"unknown code":   func(f url.Values) { f.Set("code", "cod_x") },
		"another client": func(f url.Values) {
			f.Set("client_id", "drawbridge-web")
			f.Set("client_secret", b.Clients()[1].Secret)
		},
		"foreign resource": func(f url.Values) { f.Set("resource", "https://elsewhere.example/") },
	} {
		code := b.signIn("alice", func(q url.Values) { q.Set("resource", "https://api.example/") }).Get("code")
		form := url.Values{"grant_type": {"authorization_code"}, "client_id": {"drawbridge-cli"}, "code": {code},
			"redirect_uri": {callback}, "code_verifier": {verifier}}
		change(form)
		want := "invalid_grant"
		if name == "foreign resource" {
			want = "invalid_target"
		}
		if got := b.tokenRequest(form); got.Status != 400 || got.Error != want || got.Access != "" {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	if n := b.OAuthStats().Families; n != 0 {
		t.Errorf("%d families from refused exchanges", n)
	}
	code := b.signIn("alice", nil).Get("code")
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {"drawbridge-cli"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {"guess"}}
	b.tokenRequest(form)
	if got := b.exchange(code); got.Error != "invalid_grant" {
		t.Errorf("a code survived a wrong verifier: %+v", got)
	}
}

func TestCodeReuseKillsTheFamily(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	code := b.signIn("alice", nil).Get("code")
	first := b.exchange(code)
	if got := b.exchange(code); got.Error != "invalid_grant" {
		t.Errorf("second exchange: %+v", got)
	}
	if r := b.call("GET", "/api/v1/me", first.Access, nil); r.Status != 401 {
		t.Errorf("access token of the first exchange: %d, want 401", r.Status)
	}
	if got := b.refresh(first.Refresh); got.Error != "invalid_grant" {
		t.Errorf("refresh token of the first exchange: %+v", got)
	}
	if st := b.OAuthStats(); st.KilledByCodeReuse != 1 || st.FamiliesAlive != 0 {
		t.Errorf("stats = %+v", st)
	}
}

// Guarantee: TST2
func TestRefreshRotatesAndReuseKillsTheFamily(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	first := b.as("alice")
	other := b.as("alice")
	second := b.refresh(first.Refresh)
	if second.Status != 200 || second.Refresh == first.Refresh || second.Access == first.Access {
		t.Fatalf("refresh: %+v", second)
	}
	if got := b.refresh(first.Refresh); got.Status != 400 || got.Error != "invalid_grant" {
		t.Errorf("reuse: %+v", got)
	}
	if got := b.refresh(second.Refresh); got.Error != "invalid_grant" {
		t.Errorf("successor after reuse: %+v", got)
	}
	if r := b.call("GET", "/api/v1/me", second.Access, nil); r.Status != 401 {
		t.Errorf("access after reuse: %d, want 401", r.Status)
	}
	if got := b.refresh(other.Refresh); got.Status != 200 {
		t.Errorf("another family of the same person died: %+v", got)
	}
	st := b.OAuthStats()
	if st.KilledByRefreshReuse != 1 || st.FamiliesAlive != 1 || st.TokenRequests["refresh_token"] != 4 || st.Rotations != 2 {
		t.Errorf("stats = %+v", st)
	}
}

func TestGraceAndLifetimesFollowTheClock(t *testing.T) {
	// In a bubble, with the handler called directly: time moves when told to.
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{BaseURL: "http://org.test", AccessTokenTTL: time.Minute, RefreshTokenTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{s, t, &http.Client{Transport: direct{s.Handler()}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		b.behave(Behaviour{Switches: Switches{GraceMS: 5000}})
		first := b.as("alice")
		second := b.refresh(first.Refresh)
		time.Sleep(5 * time.Second)
		third := b.refresh(first.Refresh)
		if third.Status != 200 || third.Refresh == second.Refresh {
			t.Fatalf("inside grace: %+v", third)
		}
		if b.refresh(second.Refresh).Status != 200 {
			t.Error("the pair before the grace refresh does not work")
		}
		time.Sleep(time.Millisecond)
		if got := b.refresh(first.Refresh); got.Error != "invalid_grant" {
			t.Errorf("after grace: %+v", got)
		}
		if st := b.OAuthStats(); st.GraceRefreshes != 1 || st.KilledByRefreshReuse != 1 {
			t.Errorf("stats = %+v", st)
		}

		token := b.as("bob")
		time.Sleep(time.Minute - time.Millisecond)
		if r := b.call("GET", "/api/v1/me", token.Access, nil); r.Status != 200 {
			t.Errorf("1 ms before the end: %d", r.Status)
		}
		time.Sleep(time.Millisecond)
		if r := b.call("GET", "/api/v1/me", token.Access, nil); r.Status != 401 || !strings.Contains(r.Header.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("at the end: %d %q", r.Status, r.Header.Get("WWW-Authenticate"))
		}
		time.Sleep(time.Hour)
		if got := b.refresh(token.Refresh); got.Error != "invalid_grant" {
			t.Errorf("refresh token after its end: %+v", got)
		}
		code := b.signIn("bob", nil).Get("code")
		time.Sleep(codeTTL + time.Millisecond)
		if got := b.exchange(code); got.Error != "invalid_grant" {
			t.Errorf("code after its end: %+v", got)
		}
	})
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	revoke := func(token, client string) int {
		res, err := b.client.PostForm(b.URL()+"/oauth/revoke", url.Values{"token": {token}, "client_id": {client}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	one, two := b.as("alice"), b.as("alice")
	if got := revoke("unknown", "drawbridge-cli"); got != 200 {
		t.Errorf("unknown token: %d, want 200", got)
	}
	if got := revoke(one.Refresh, "nobody"); got != 401 {
		t.Errorf("unknown client: %d, want 401", got)
	}
	if revoke(one.Access, "drawbridge-cli"); b.call("GET", "/api/v1/me", one.Access, nil).Status != 401 {
		t.Error("access token lives after its revocation")
	}
	renewed := b.refresh(one.Refresh)
	if renewed.Status != 200 {
		t.Errorf("refresh after revoking only the access token: %+v", renewed)
	}
	revoke(renewed.Refresh, "drawbridge-cli")
	if b.call("GET", "/api/v1/me", renewed.Access, nil).Status != 401 || b.refresh(renewed.Refresh).Status != 400 {
		t.Error("family lives after revoking its refresh token")
	}
	if b.call("GET", "/api/v1/me", two.Access, nil).Status != 200 {
		t.Error("another family died")
	}
	if n := b.RevokeUser("alice"); n != 1 || b.call("GET", "/api/v1/me", two.Access, nil).Status != 401 {
		t.Errorf("admin revocation: %d families", n)
	}
}

func TestScopesAreGrantedAndChecked(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	b.behave(Behaviour{Switches: Switches{DenyScopes: map[string][]string{"alice": {"tickets:write"}}}})
	got := b.as("alice")
	if got.Scope != "tickets:read profile:read webhooks:manage offline_access" {
		t.Errorf("scope = %q", got.Scope)
	}
	r := b.call("POST", "/api/v1/tickets", got.Access, map[string]any{"project": "orders", "title": "no"})
	if r.Status != 403 || !strings.Contains(r.Header.Get("WWW-Authenticate"), `error="insufficient_scope", scope="tickets:write"`) {
		t.Errorf("create without scope: %d %q", r.Status, r.Header.Get("WWW-Authenticate"))
	}
	if len(b.Ledger()) != 0 {
		t.Error("a refused create was written")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"drawbridge-cli"}, "refresh_token": {got.Refresh}, "scope": {"tickets:write"}}
	if wide := b.tokenRequest(form); wide.Error != "invalid_scope" {
		t.Errorf("refresh widened the scope: %+v", wide)
	}
	form.Set("scope", "tickets:read")
	if narrow := b.tokenRequest(form); narrow.Scope != "tickets:read" {
		t.Errorf("narrowed scope = %q", narrow.Scope)
	}
	once := b.exchange(b.signIn("alice", func(q url.Values) { q.Set("scope", "tickets:read") }).Get("code"))
	if once.Refresh != "" || once.Access == "" {
		t.Errorf("without offline_access: %+v", once)
	}
}

func TestClientCredentialsAndClientAuthentication(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	secret := ""
	for _, c := range b.Clients() {
		if c.ID == "drawbridge-service" {
			secret = c.Secret
		}
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"drawbridge-service"}, "client_secret": {secret}}
	got := b.tokenRequest(form)
	if got.Status != 200 || got.Refresh != "" {
		t.Fatalf("client credentials: %+v", got)
	}
	if r := b.call("GET", "/api/v1/projects", got.Access, nil); r.Status != 200 || !strings.Contains(string(r.Body), `"orders"`) {
		t.Errorf("projects of the service: %d %s", r.Status, r.Body)
	}
	form.Set("client_secret", "wrong")
	if got := b.tokenRequest(form); got.Status != 401 || got.Error != "invalid_client" {
		t.Errorf("wrong secret: %+v", got)
	}
	basic := func(id, secret string) int {
		req, _ := http.NewRequest("POST", b.URL()+"/oauth/token", strings.NewReader("grant_type=client_credentials"))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth(id, secret)
		res, err := b.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	if basic("drawbridge-service", secret) != 200 || basic("drawbridge-service", "x") != 401 || basic("drawbridge-cli", "") != 400 {
		t.Error("basic authentication decided wrongly")
	}
	if err := b.RegisterClient(Client{ID: "extra", RedirectURIs: []string{"https://x.example/cb?fixed=1"}}); err != nil {
		t.Fatal(err)
	}
	u, err := Login(t.Context(), b.client, b.authorizeURL(func(q url.Values) {
		q.Set("client_id", "extra")
		q.Set("redirect_uri", "https://x.example/cb?fixed=1")
	}), "alice", b.password("alice"), false)
	if err != nil || u.Host != "x.example" || u.Query().Get("error") != "access_denied" || u.Query().Get("fixed") != "1" {
		t.Errorf("deny: %v, %v", u, err)
	}
}

// The forms carry no address: nothing that is posted can send a browser away.
func TestNoOpenRedirectAndNoForeignDecision(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	page := func(c *http.Client, target string, form url.Values) (int, string, string) {
		var res *http.Response
		var err error
		if form == nil {
			res, err = c.Get(target)
		} else {
			res, err = c.PostForm(target, form)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body strings.Builder
		if _, err := copyTo(&body, res); err != nil {
			t.Fatal(err)
		}
		id := ""
		if m := fieldPart.FindStringSubmatch(body.String()); m != nil {
			id = m[1]
		}
		return res.StatusCode, res.Header.Get("Location"), id
	}
	browser := func() *http.Client {
		c := *b.client
		c.Jar, _ = cookiejar.New(nil)
		return &c
	}
	alice, mallory := browser(), browser()
	_, _, id := page(alice, b.authorizeURL(nil), nil)
	credentials := url.Values{"transaction": {id}, "login": {"alice"}, "password": {b.password("alice")}, "return_to": {"https://evil.example/"}, "redirect_uri": {"https://evil.example/"}}
	status, to, _ := page(alice, b.URL()+"/oauth/login?return_to=https://evil.example/", credentials)
	if status != 303 || !strings.HasPrefix(to, b.URL()+"/oauth/consent?") {
		t.Fatalf("login: %d %q", status, to)
	}
	if _, _, shown := page(alice, to, nil); shown != id {
		t.Fatalf("consent page shows %q, want %q", shown, id)
	}

	if _, err := Login(t.Context(), mallory, b.authorizeURL(nil), "bob", b.password("bob"), true); err != nil {
		t.Fatal(err)
	}
	decide := url.Values{"transaction": {id}, "decision": {"allow"}}
	if status, to, _ := page(mallory, b.URL()+"/oauth/consent", decide); status != 403 || to != "" {
		t.Errorf("another session decided: %d %q", status, to)
	}
	if status, to, _ := page(b.client, b.URL()+"/oauth/consent", decide); status != 403 || to != "" {
		t.Errorf("no session decided: %d %q", status, to)
	}
	if status, to, _ := page(alice, b.URL()+"/oauth/consent", decide); status != 303 || !strings.HasPrefix(to, callback+"?") {
		t.Errorf("alice's decision: %d %q", status, to)
	}
	if status, _, _ := page(alice, b.URL()+"/oauth/consent", decide); status != 403 {
		t.Errorf("decided twice: %d", status)
	}
	credentials.Set("password", "wrong")
	_, _, again := page(browser(), b.authorizeURL(nil), nil)
	credentials.Set("transaction", again)
	if status, to, _ := page(alice, b.URL()+"/oauth/login", credentials); status != 401 || to != "" {
		t.Errorf("wrong password: %d %q", status, to)
	}
}

func TestLoginSwitchesPersonInASharedBrowser(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	c := *b.client
	c.Jar, _ = cookiejar.New(nil)
	for _, login := range []string{"alice", "alice", "bob"} {
		u, err := Login(context.Background(), &c, b.authorizeURL(nil), login, b.password(login), true)
		if err != nil {
			t.Fatal(err)
		}
		var me struct{ Login string }
		b.call("GET", "/api/v1/me", b.exchange(u.Query().Get("code")).Access, nil).into(t, &me)
		if me.Login != login {
			t.Errorf("signed in as %q, want %q", me.Login, login)
		}
	}
	if _, err := Login(context.Background(), nil, b.authorizeURL(nil), "alice", "wrong", true); err == nil {
		t.Error("a wrong password was accepted")
	}
}

func TestOddTokenAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	first := b.as("alice")
	for _, value := range []string{`"3600"`, `3600.0`, `"abc"`, `null`, `-1`, `1e400`} {
		b.behave(Behaviour{Rules: []Rule{{Match: Match{Path: "/oauth/token", Grant: "refresh_token", Nth: []int{1}},
			Effect: Effect{Kind: "switch", Switches: Switches{ExpiresIn: json.RawMessage(value)}}}}})
		got := b.refresh(first.Refresh)
		if string(got.Expires) != value {
			t.Errorf("expires_in = %s, want %s", got.Expires, value)
		}
		if next := b.refresh(got.Refresh); string(next.Expires) != "600" {
			t.Errorf("after the rule: expires_in = %s", next.Expires)
		} else {
			first = next
		}
	}
	b.behave(Behaviour{Switches: Switches{OmitExpiresIn: true, OmitRefreshToken: true, OmitScope: true}})
	if got := b.refresh(first.Refresh); got.Status != 200 || got.Expires != nil || got.Refresh != "" || got.Scope != "" {
		t.Errorf("omissions: %+v", got)
	}
	if err := b.SetBehaviour(Behaviour{Switches: Switches{ExpiresIn: json.RawMessage(`{`)}}); err == nil {
		t.Error("broken JSON accepted")
	}
}

func TestOnlyLoopbackLiteralsTakeAnyPort(t *testing.T) {
	t.Parallel()
	c := Client{RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost/cb", "http://192.0.2.1/cb"}}
	for uri, want := range map[string]bool{
		"http://127.0.0.1:5000/cb": true, "http://[::1]:5000/cb": true, "http://127.0.0.1/cb": true, "http://192.0.2.1/cb": true,
		"http://localhost:5000/cb": false, "http://192.0.2.1:5000/cb": false, "https://127.0.0.1:5000/cb": false,
		"http://127.0.0.2:5000/cb": false, "http://127.0.0.1:5000/cb#x": false, "http://127.0.0.1:/cb": false,
	} {
		if got := c.redirectAllowed(uri); got != want {
			t.Errorf("%s: %v, want %v", uri, got, want)
		}
	}
}
