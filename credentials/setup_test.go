package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// serviceProvider is the sandbox's client with an account of its own.
func (b *bench) serviceProvider(c *Config) {
	p := b.provider()
	p.Kind, p.AuthorizationURL, p.ClientID, p.Method = KindClientCredentials, "", "drawbridge-service", AuthBasic
	p.Scopes = []string{"tickets:read", "profile:read"}
	for _, client := range b.org.Clients() {
		if client.ID == p.ClientID {
			p.ClientSecret = NewSecret(client.Secret)
		}
	}
	c.Providers = []Provider{p}
}

// Guarantee: CRE9: the application's own account goes through the same vault,
// renewal and disconnect as a person's.
func TestClientCredentials(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.serviceProvider)
		c, err := r.Setup(t.Context(), alice, SetupRequest{Provider: "tickets"}, r.identify)
		if err != nil {
			t.Fatal(err)
		}
		if c.Account.Login != "acme-automaton" {
			t.Errorf("account = %+v", c.Account)
		}
		if diff := cmp.Diff([]string{"tickets:read", "profile:read"}, c.Scopes); diff != "" {
			t.Errorf("scopes (-want +got):\n%s", diff)
		}
		minted := func() int { return b.org.OAuthStats().TokenRequests["client_credentials"] }
		other := b.replica(b.serviceProvider)
		for range 2 {
			b.expire(c)
			var all sync.WaitGroup
			for _, each := range []*replica{r, other, r, other} {
				all.Go(func() {
					if status, err := each.get(c); status != http.StatusOK {
						t.Errorf("read = %d, %v", status, err)
					}
				})
			}
			all.Wait()
		}
		if n := minted(); n != 3 {
			t.Errorf("%d tokens were asked for, want the first and one per expiry", n)
		}
		// A token that is refused before its time is replaced too.
		b.org.ExpireAccessTokens()
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read with a refused token = %d, %v", status, err)
		}
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "")
		if err != nil || steps.RefreshToken.State != StepNone || steps.AccessToken.State != StepDone || steps.RevokedAtProvider != "yes" {
			t.Errorf("disconnect = %+v, %v", steps, err)
		}
		if _, err := r.get(c); connector.CodeOf(err) != connector.CodeConnectionRequired {
			t.Errorf("read after the disconnect: %v", err)
		}
	})
}

// C40: a refused application degrades; there is no grant that could be dead.
func TestClientCredentialsRefused(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.serviceProvider)
		c, err := r.Setup(t.Context(), alice, SetupRequest{Provider: "tickets"}, r.identify)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{"invalid_client", "invalid_grant"} {
			b.exec(`UPDATE cred_tokens SET next_attempt_at = 0`)
			b.expire(c)
			b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token"},
				Effect: sandbox.Effect{Kind: "status", Status: 400, ContentType: "application/json", Body: `{"error":"` + code + `"}`}}}})
			_, err = r.Authorize(t.Context(), c, 0)
			wantCode(t, err, connector.CodeUnavailable)
			b.wantStatus(c, StatusDegraded, Reason(code))
			b.behave(sandbox.Behaviour{})
			b.due(c)
			if status, err := r.get(c); status != http.StatusOK {
				t.Errorf("after %s: read = %d, %v", code, status, err)
			}
			b.wantStatus(c, StatusActive, "")
		}
	})
}

// Guarantee: CRE9: a key is entered by an operator, replaced by the next one, and
// ends with the provider's no. It is in no clear column and no log.
func TestStaticKey(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		source := b.replica() // gives tokens of the sandbox that play static keys
		take := func(caller connector.Caller, login string) Secret {
			c := source.connect(caller, login)
			got, err := source.Authorize(t.Context(), c, 0)
			if err != nil {
				t.Fatal(err)
			}
			return got.(*credential).access
		}
		r := b.replica(func(c *Config) {
			c.Providers = []Provider{{ID: "tickets", Profile: "org", Kind: KindStatic, Issuer: b.org.Issuer(), Scopes: []string{"tickets:read"}}}
		})
		key := take(carol, "alice")
		c, err := r.Setup(t.Context(), alice, SetupRequest{Provider: "tickets", Key: key}, r.identify)
		if err != nil {
			t.Fatal(err)
		}
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		b.org.ExpireAccessTokens() // revoked at the provider
		_, err = r.get(c)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(c, StatusReconnectRequired, ReasonKeyRefused)
		if n := b.refreshes(); n != 0 {
			t.Errorf("%d renewals of a static key", n)
		}
		// Another account's key does not replace it (C34).
		_, err = r.Setup(t.Context(), alice, SetupRequest{Provider: "tickets", Key: take(bob, "bob"), Connection: c.ID}, r.identify)
		wantCode(t, err, connector.CodeConflict)
		b.wantStatus(c, StatusReconnectRequired, ReasonKeyRefused)
		next := take(connector.Caller{Tenant: "x", Principal: "y"}, "alice")
		again, err := r.Setup(t.Context(), alice, SetupRequest{Provider: "tickets", Key: next, Connection: c.ID, ExpiresAt: time.Now().Add(time.Hour)}, r.identify)
		if err != nil || again.ID != c.ID {
			t.Fatalf("replace = %v, %v", again.ID, err)
		}
		if status, err := r.get(again); status != http.StatusOK {
			t.Errorf("read with the new key = %d, %v", status, err)
		}
		b.exec(`UPDATE cred_tokens SET access_exp = 1000 WHERE connection_id = ?`, string(c.ID))
		_, err = r.get(again)
		wantCode(t, err, connector.CodeConnectionRequired)
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "")
		if err != nil || steps.RevokedAtProvider != "no" {
			t.Errorf("disconnect = %+v, %v; nobody revoked the key at the provider", steps, err)
		}
		for where, text := range b.dump() {
			if strings.Contains(text, key.reveal()) || strings.Contains(text, next.reveal()) {
				t.Errorf("a key is in the %s", where)
			}
		}
		if log := b.log.String(); strings.Contains(log, key.reveal()) || strings.Contains(log, next.reveal()) {
			t.Error("a key is in the log")
		}
	})
}

// installations is an honest server of app tokens: a short token for a proper
// assertion, nothing for anything else.
type installations struct {
	*httptest.Server
	mu     sync.Mutex
	tokens map[string]string // to installation
	gone   bool
	asked  int
}

func newInstallations(t *testing.T) *installations {
	in := &installations{tokens: make(map[string]string)}
	in.Server = httptest.NewServer(in)
	t.Cleanup(in.Close)
	return in
}

func (in *installations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in.mu.Lock()
	defer in.mu.Unlock()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.URL.Path == "/me" {
		if in.tokens[bearer] == "" {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q}`, in.tokens[bearer])
		return
	}
	in.asked++
	_, claims, err := jwtClaims(bearer, rsaKey().Public())
	now := time.Now().Unix()
	iat, _ := claims["iat"].(float64)
	exp, _ := claims["exp"].(float64)
	switch {
	case err != nil || claims["iss"] != "app-1" || int64(iat) > now || int64(exp) <= now || exp-iat > 600:
		http.Error(w, `{"message":"bad credentials"}`, http.StatusUnauthorized)
	case r.Method != http.MethodPost || r.URL.Path != "/app/installations/42/access_tokens" || in.gone:
		http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
	default:
		token := fmt.Sprintf("ghs_installation_token_%d", in.asked)
		in.tokens[token] = "42"
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			"permissions": map[string]string{"issues": "write", "metadata": "read"}})
	}
}

// Guarantee: CRE9: an installation's token is made from a signed assertion, lives
// shortly, and is made again once per expiry.
func TestAppInstallation(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		in := newInstallations(t)
		key, err := NewClientKey(rsaKey(), "")
		if err != nil {
			t.Fatal(err)
		}
		r := b.replica(func(c *Config) {
			c.Providers = []Provider{{ID: "hub", Profile: "hub", Kind: KindApp, Issuer: in.URL, ClientID: "app-1", ClientKey: key,
				InstallationURL: in.URL + "/app/installations/{installation}/access_tokens"}}
		})
		r.transport.Close()
		if r.transport, err = transport.New(transport.Config{Profiles: transport.Static{"hub": transport.Loopback("hub", in.URL)}, Credentials: r.Service}); err != nil {
			t.Fatal(err)
		}
		who := func(ctx context.Context, c connector.Connection) (connector.Identity, error) {
			resp, err := r.transport.Do(ctx, c, connector.ClassRead, connector.Request{Path: "/me"})
			if err != nil || resp.Status != http.StatusOK {
				return connector.Identity{}, connector.Fail(connector.CodeConnectionRequired, "status %d", resp.Status)
			}
			me, err := connector.DecodeJSON[struct {
				ID string `json:"id"`
			}](resp)
			return connector.Identity{Account: connector.Account{Subject: me.ID, Login: "app"}}, err
		}
		c, err := r.Setup(t.Context(), alice, SetupRequest{Provider: "hub", Installation: "42"}, who)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"issues:write", "metadata:read"}, c.Scopes); diff != "" {
			t.Errorf("scopes (-want +got):\n%s", diff)
		}
		v, err := r.Show(t.Context(), alice, c.ID)
		if left := time.Until(v.AccessExpiresAt); err != nil || !v.Renewable || left < 50*time.Minute || left > time.Hour {
			t.Errorf("view = %+v, %v", v, err)
		}
		read := func() error { _, err := who(t.Context(), c); return err }
		b.exec(`UPDATE cred_tokens SET access_exp = 1000`)
		if err := read(); err != nil || in.asked != 2 {
			t.Errorf("after its time: %v, asked %d times, want 2", err, in.asked)
		}
		for where, text := range b.dump() {
			if strings.Contains(text, "ghs_installation_token") {
				t.Errorf("a token is in the %s", where)
			}
		}
		in.mu.Lock()
		in.gone = true // uninstalled
		in.mu.Unlock()
		b.exec(`UPDATE cred_tokens SET access_exp = 1000`)
		_, err = r.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(c, StatusReconnectRequired, ReasonInvalidGrant)
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "")
		if err != nil || steps.RefreshToken.State != StepNone || steps.RevokedAtProvider != "no" {
			t.Errorf("disconnect = %+v, %v", steps, err)
		}
	})
}

func TestSetupRefuses(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		static := Provider{ID: "static", Profile: "org", Kind: KindStatic, Issuer: "x"}
		r := b.replica(func(c *Config) { c.Providers = append(c.Providers, static) })
		for name, test := range map[string]struct {
			caller connector.Caller
			r      SetupRequest
			want   connector.Code
		}{
			"nobody":                 {connector.Caller{}, SetupRequest{Provider: "static", Key: NewSecret("k")}, connector.CodePermissionDenied},
			"unknown provider":       {alice, SetupRequest{Provider: "none"}, connector.CodeNotFound},
			"a person's":             {alice, SetupRequest{Provider: "tickets", Key: NewSecret("k")}, connector.CodeInvalidInput},
			"no key":                 {alice, SetupRequest{Provider: "static"}, connector.CodeInvalidInput},
			"key with a newline":     {alice, SetupRequest{Provider: "static", Key: NewSecret("k\r\nX: y")}, connector.CodeInvalidInput},
			"key and an app":         {alice, SetupRequest{Provider: "static", Key: NewSecret("k"), Installation: "1"}, connector.CodeInvalidInput},
			"scope not allowed":      {alice, SetupRequest{Provider: "static", Key: NewSecret("k"), Scopes: []string{"x"}}, connector.CodePermissionDenied},
			"expired key":            {alice, SetupRequest{Provider: "static", Key: NewSecret("k"), ExpiresAt: time.Now().Add(-time.Hour)}, connector.CodeInvalidInput},
			"another's connection":   {alice, SetupRequest{Provider: "static", Key: NewSecret("k"), Connection: "not-mine"}, connector.CodeConnectionRequired},
			"refused by the account": {alice, SetupRequest{Provider: "static", Key: NewSecret("k")}, connector.CodeConnectionRequired},
		} {
			_, err := r.Setup(t.Context(), test.caller, test.r, r.identify)
			if got := connector.CodeOf(err); got != test.want {
				t.Errorf("%s: %v (%v), want %v", name, got, err, test.want)
			}
		}
		if n := b.connections(); n != 0 {
			t.Errorf("%d connections were made", n)
		}
		begun, err := r.Begin(t.Context(), alice, BeginRequest{Provider: "static", RedirectURI: redirectURI, BrowserKey: browserKey})
		wantCode(t, err, connector.CodeInvalidInput)
		if begun.URL != "" {
			t.Error("a sign-in was begun for a static key")
		}
		if validInstallation("1/../2") || validInstallation(strings.Repeat("1", 65)) || !validInstallation("12_a-B") {
			t.Error("ids of installations")
		}
	})
}
