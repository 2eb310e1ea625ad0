package credentials

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(harnessChild())
	}
	goleak.VerifyTestMain(m)
}

const (
	browserKey  = "browser-key-of-the-initiator"
	redirectURI = "http://127.0.0.1:45678/callback"
)

var (
	alice = connector.Caller{Tenant: "acme", Principal: "alice"}
	bob   = connector.Caller{Tenant: "acme", Principal: "bob"}
	carol = connector.Caller{Tenant: "globex", Principal: "alice"} // the same name elsewhere
)

// bench is one sandbox organisation, one database, and any number of replicas.
type bench struct {
	t    *testing.T
	org  *sandbox.Server
	d    storetest.Database
	ring *keys.Ring
	db   *store.DB // the test's own eyes
	log  *lockedBuffer
}

// replica is a Service as a process of its own would have it.
type replica struct {
	*Service
	b         *bench
	db        *store.DB
	transport *transport.Transport
}

func each(t *testing.T, fn func(b *bench)) {
	t.Helper()
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(newBench(t, d, sandbox.Config{})) })
}

func newBench(t *testing.T, d storetest.Database, c sandbox.Config) *bench {
	t.Helper()
	org, err := sandbox.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	return &bench{t: t, org: org, d: d, ring: newRing(t), db: d.Open(Migrations()), log: &lockedBuffer{}}
}

func (b *bench) provider() Provider {
	return Provider{
		ID: "tickets", Profile: "org", Issuer: b.org.Issuer(), IssAdvertised: true,
		AuthorizationURL: b.org.URL() + "/oauth/authorize", TokenURL: b.org.URL() + "/oauth/token", RevocationURL: b.org.URL() + "/oauth/revoke",
		ClientID: "drawbridge-cli", Method: AuthNone,
		Scopes:     []string{"tickets:read", "profile:read", "offline_access"},
		MoreScopes: []string{"tickets:write"},
	}
}

func (b *bench) replica(change ...func(*Config)) *replica {
	b.t.Helper()
	r := &replica{b: b, db: b.d.Open()}
	c := Config{
		DB: r.db, Keys: b.ring, Providers: []Provider{b.provider()},
		Logger:      slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		HTTPTimeout: 5 * time.Second, Lease: 12 * time.Second, Guard: time.Second,
		Exchanger: ExchangerFunc(func(ctx context.Context, profile string, x transport.Exchange) (connector.Response, error) {
			return r.transport.Exchange(ctx, profile, x)
		}),
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	if r.Service, err = New(c); err != nil {
		b.t.Fatal(err)
	}
	profile := transport.Loopback("org", b.org.URL())
	profile.Limits.Rate, profile.Limits.Burst, profile.Limits.Concurrency, profile.Limits.Queue = 1e6, 1e6, 64, 512
	if r.transport, err = transport.New(transport.Config{Profiles: transport.Static{"org": profile}, Credentials: r.Service}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { r.Close(); r.transport.Close() })
	return r
}

// around lets a test stand between a Service and the wire.
func around(f func(ctx context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error)) func(*Config) {
	return func(c *Config) {
		inner := c.Exchanger
		c.Exchanger = ExchangerFunc(func(ctx context.Context, profile string, x transport.Exchange) (connector.Response, error) {
			return f(ctx, x, func() (connector.Response, error) { return inner.Exchange(ctx, profile, x) })
		})
	}
}

func (b *bench) password(login string) string {
	for _, u := range b.org.Users() {
		if u.Login == login {
			return u.Password
		}
	}
	b.t.Fatalf("no user %s", login)
	return ""
}

// visit plays the person at the provider and returns the callback's query.
func (b *bench) visit(begun Begun, login string, allow bool) url.Values {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	at, err := sandbox.Login(b.t.Context(), &http.Client{Jar: jar, Transport: tr}, begun.URL, login, b.password(login), allow)
	if err != nil {
		b.t.Fatal(err)
	}
	return at.Query()
}

// identify is what a connector does: read the account with the fresh token.
func (r *replica) identify(ctx context.Context, c connector.Connection) (connector.Identity, error) {
	resp, err := r.transport.Do(ctx, c, connector.ClassRead, connector.Request{Path: "/api/v1/me"})
	if err != nil {
		return connector.Identity{}, err
	}
	if resp.Status != http.StatusOK {
		return connector.Identity{}, connector.Fail(connector.CodeConnectionRequired, "status %d", resp.Status)
	}
	me, err := connector.DecodeJSON[struct {
		Subject      string               `json:"subject"`
		Login        string               `json:"login"`
		Organisation connector.Resource   `json:"organisation"`
		Projects     []connector.Resource `json:"projects"`
	}](resp)
	return connector.Identity{
		Account:   connector.Account{Subject: me.Subject, Login: me.Login, Organisation: me.Organisation.ID},
		Resources: me.Projects,
	}, err
}

func (r *replica) begin(caller connector.Caller, change ...func(*BeginRequest)) Begun {
	r.b.t.Helper()
	req := BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey}
	for _, f := range change {
		f(&req)
	}
	begun, err := r.Begin(r.b.t.Context(), caller, req)
	if err != nil {
		r.b.t.Fatalf("begin: %v", err)
	}
	return begun
}

func (r *replica) connect(caller connector.Caller, login string, change ...func(*BeginRequest)) connector.Connection {
	r.b.t.Helper()
	begun := r.begin(caller, change...)
	c, err := r.Finish(r.b.t.Context(), caller, browserKey, r.b.visit(begun, login, true), r.identify)
	if err != nil {
		r.b.t.Fatalf("finish: %v", err)
	}
	return c
}

// get is one business read, and its status.
func (r *replica) get(c connector.Connection) (int, error) {
	resp, err := r.transport.Do(r.b.t.Context(), c, connector.ClassRead, connector.Request{Path: "/api/v1/me"})
	return resp.Status, err
}

// expire lets the access token's time pass, here and at the provider.
func (b *bench) expire(c connector.Connection) {
	b.t.Helper()
	b.exec(`UPDATE cred_tokens SET access_exp = 1000 WHERE tenant_id = ? AND connection_id = ?`, string(c.Tenant), string(c.ID))
	b.org.ExpireAccessTokens()
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	err := b.db.UpdateFor(context.Background(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(context.Background(), query, args...)
		return err
	})
	if err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

func (b *bench) number(query string, args ...any) int64 {
	b.t.Helper()
	var n int64
	if err := b.db.QueryRowFor(context.Background(), store.AllTenants(), query, args...).Scan(&n); err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (b *bench) behave(x sandbox.Behaviour) {
	b.t.Helper()
	if err := b.org.SetBehaviour(x); err != nil {
		b.t.Fatal(err)
	}
}

// onRefresh makes one fault for token requests of the refresh grant.
func onRefresh(e sandbox.Effect) sandbox.Behaviour {
	return sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token", Grant: "refresh_token"}, Effect: e}}}
}

func (b *bench) refreshes() int { return b.org.OAuthStats().TokenRequests["refresh_token"] }

func (b *bench) version(c connector.Connection) int64 {
	return b.number(`SELECT version FROM cred_tokens WHERE tenant_id = ? AND connection_id = ?`, string(c.Tenant), string(c.ID))
}

func wantCode(t *testing.T, err error, want connector.Code) *connector.Error {
	t.Helper()
	if got := connector.CodeOf(err); got != want {
		t.Errorf("code = %v, want %v (error: %v)", got, want, err)
	}
	if err == nil {
		return &connector.Error{}
	}
	return connector.AsError(err)
}

// lockedBuffer collects log lines of several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
