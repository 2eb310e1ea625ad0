package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

func newRing(t testing.TB) *keys.Ring {
	t.Helper()
	text, err := keys.Generate()
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keys.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Guarantee: CRE4 (C28, threats T9, T11): nothing secret is in the database in
// clear or in the log, whatever happened.
func TestNothingSecretInDatabaseAndLog(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		var sent []string // verifier and code, as they left
		r := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			for _, name := range []string{"code", "code_verifier", "refresh_token", "token"} {
				if v := x.Form.Get(name); v != "" {
					sent = append(sent, v)
				}
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		open := r.begin(alice) // stays open: state and verifier are pending
		u := b.visit(open, "alice", true)
		sent = append(sent, u.Get("state"), u.Get("code"), browserKey)
		b.expire(c)
		r.get(c)
		b.expire(c)
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 503, Body: "canary-body"}))
		r.get(c)
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "status", Status: 503, Body: "canary-body"}}}})
		other := r.connect(bob, "bob")
		if _, err := r.Disconnect(t.Context(), bob, other.ID, ""); err != nil { // sealed in the outbox
			t.Error(err)
		}
		r.connect(carol, "carol")

		canaries := append(b.org.Canaries(), sent...)
		canaries = append(canaries, "canary-body")
		if len(sent) < 8 {
			t.Fatalf("only %d values were seen on the wire", len(sent))
		}
		places := b.dump()
		places["log"] = b.log.String()
		if len(places["log"]) == 0 {
			t.Error("the log is empty, so it proves nothing")
		}
		for where, text := range places {
			for _, canary := range canaries {
				if len(canary) > 6 && strings.Contains(text, canary) {
					t.Errorf("%q is in the %s", canary, where)
				}
			}
		}
		// The scan must be able to find something.
		if !strings.Contains(places["database"], string(c.ID)) {
			t.Error("the dump does not even hold the connection's id")
		}
	})
}

// dump is everything that is on disk: the files of SQLite, the rows of PostgreSQL.
func (b *bench) dump() map[string]string {
	b.t.Helper()
	var all strings.Builder
	for _, table := range []string{"cred_connections", "cred_tokens", "cred_transactions", "cred_attempts", "cred_revocations", "cred_audit"} {
		err := b.db.ViewFor(context.Background(), store.AllTenants(), func(tx *store.Tx) error {
			rows, err := tx.Query(context.Background(), `SELECT * FROM `+table)
			if err != nil {
				return err
			}
			defer rows.Close()
			columns, err := rows.Columns()
			if err != nil {
				return err
			}
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(any)
				}
				if err := rows.Scan(values...); err != nil {
					return err
				}
				for _, v := range values {
					if raw, ok := (*v.(*any)).([]byte); ok {
						all.Write(raw)
					} else {
						fmt.Fprint(&all, *v.(*any))
					}
					all.WriteByte('\n')
				}
			}
			return rows.Err()
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	out := map[string]string{"database": all.String()}
	if b.d.Engine == store.SQLite {
		file := strings.TrimPrefix(b.d.URL, "sqlite:")
		paths, err := filepath.Glob(file + "*")
		if err != nil || len(paths) == 0 {
			b.t.Fatalf("files of the database: %v, %v", paths, err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				b.t.Fatal(err)
			}
			out["file "+filepath.Base(path)] = string(raw)
		}
	}
	return out
}

// Guarantee: CRE5
func TestNoValuePrintsAToken(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		const planted = "canary-client-secret"
		if err := b.org.RegisterClient(sandbox.Client{ID: "confidential", Secret: planted, RedirectURIs: []string{redirectURI}}); err != nil {
			t.Fatal(err)
		}
		var cfg Config
		r := b.replica(func(c *Config) {
			c.Providers[0].ClientID, c.Providers[0].ClientSecret, c.Providers[0].Method = "confidential", NewSecret(planted), AuthPost
			cfg = *c
		})
		begun := r.begin(alice)
		state := b.visit(begun, "alice", true)
		var provisionalCredential transport.Credential
		c, err := r.Finish(t.Context(), alice, browserKey, state, func(ctx context.Context, c connector.Connection) (connector.Identity, error) {
			provisionalCredential, _ = r.Authorize(ctx, c, 0)
			return r.identify(ctx, c)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Authorize(t.Context(), c, 0)
		if err != nil {
			t.Fatal(err)
		}
		views, err := r.List(t.Context(), alice)
		if err != nil {
			t.Fatal(err)
		}
		record, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{
			"connection": c, "credential": got, "provisional": provisionalCredential, "begun": begun, "views": views, "record": record,
			"config": cfg, "provider": cfg.Providers[0], "provider pointer": &cfg.Providers[0], "secret": cfg.Providers[0].ClientSecret,
			"secret in a struct": struct{ hidden, Shown Secret }{cfg.Providers[0].ClientSecret, cfg.Providers[0].ClientSecret},
			"secret in a map":    map[string]any{"x": []Secret{cfg.Providers[0].ClientSecret}},
			"unsealed":           r.unsealed, "pair": pair{NewSecret(planted), NewSecret(planted)}, "grant": &grant{access: NewSecret(planted)},
			"answer": answer{grant: &grant{access: NewSecret(planted)}}, "claim": &claim{tokens: pair{NewSecret(planted), Secret{}}},
			"service": r.Service,
		}
		canaries := append(b.org.Canaries(), planted, state.Get("state"), state.Get("code"))
		for name, v := range values {
			texts := map[string]string{}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
				if name == "service" && verb != "%T" && verb != "%v" {
					continue // deep pools of the database; %v is what a careless line writes
				}
				texts[verb] = fmt.Sprintf(verb, v)
			}
			if name != "service" && name != "config" {
				if raw, err := json.Marshal(v); err == nil && name != "begun" { // its JSON is for the initiator
					texts["json"] = string(raw)
				}
			}
			var log bytes.Buffer
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
			texts["slog text"] = log.String()
			for how, text := range texts {
				for _, canary := range canaries {
					hex := fmt.Sprintf("%x", canary)
					if len(canary) > 6 && (strings.Contains(text, canary) || strings.Contains(text, hex)) {
						t.Errorf("%s of %s shows a secret: %.200s", how, name, text)
					}
				}
			}
		}
	})
}

func TestSecret(t *testing.T) {
	if s := NewSecret("x"); s.IsZero() || s.reveal() != "x" {
		t.Error("a secret does not keep its text")
	}
	if s := NewSecret(""); !s.IsZero() || s.reveal() != "" {
		t.Error("an empty secret is not the zero one")
	}
}

// The credential goes on the request that it is applied to, over what was there.
func TestCredentialOverwrites(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Authorization"] = []string{"Bearer inbound", "Bearer second"}
	c := &credential{access: NewSecret("ours"), version: 3}
	if err := c.Apply(req); err != nil {
		t.Fatal(err)
	}
	if got := req.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer ours" {
		t.Errorf("authorization = %q", got)
	}
}

// C02 and configuration: the first wrong field is named, limits can't be zeroed away.
func TestNewRefuses(t *testing.T) {
	good := Config{DB: &store.DB{}, Keys: newRing(t), Exchanger: ExchangerFunc(nil)}
	provider := Provider{ID: "p", Profile: "x", Issuer: "https://as.example", AuthorizationURL: "https://as.example/a",
		TokenURL: "https://as.example/t", ClientID: "c", Method: AuthNone}
	if s, err := New(good); err != nil || s.cfg.Lease != 30*time.Second || s.cfg.HTTPTimeout != 10*time.Second || s.cfg.Guard != 5*time.Second {
		t.Errorf("defaults = %+v, %v", s, err)
	}
	config := map[string]func(*Config){
		"no database":           func(c *Config) { c.DB = nil },
		"no key ring":           func(c *Config) { c.Keys = nil },
		"no exchanger":          func(c *Config) { c.Exchanger = nil },
		"lease must be longer":  func(c *Config) { c.Lease = 15 * time.Second },
		"lease must be longer ": func(c *Config) { c.HTTPTimeout = 26 * time.Second },
		"negative duration":     func(c *Config) { c.Guard = -1 },
		"two providers":         func(c *Config) { c.Providers = []Provider{provider, provider} },
	}
	for want, change := range config {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("error = %v, want one about %q", err, want)
		}
	}
	providers := map[string]func(*Provider){
		"without id":             func(p *Provider) { p.ID = "" },
		"no endpoint profile":    func(p *Provider) { p.Profile = "" },
		"no issuer":              func(p *Provider) { p.Issuer = "" },
		"no client id":           func(p *Provider) { p.ClientID = "" },
		"token endpoint":         func(p *Provider) { p.TokenURL = "http://as.example/t" },
		"authorization endpoint": func(p *Provider) { p.AuthorizationURL = "/a" },
		"revocation endpoint":    func(p *Provider) { p.RevocationURL = "https://u:p@as.example/" },
		"needs a client secret":  func(p *Provider) { p.Method = AuthBasic },
		"but method none":        func(p *Provider) { p.ClientSecret = NewSecret("x") },
		"must be none, basic, post or private_key_jwt": func(p *Provider) { p.Method = "" },
		"a scope has a character":                      func(p *Provider) { p.Scopes = []string{"a b"} },
		"set by the flow":                              func(p *Provider) { p.AuthParams = map[string]string{"code_challenge_method": "plain"} },
		"resource must be":                             func(p *Provider) { p.Resource = "tickets" },
		"an alias must":                                func(p *Provider) { p.RefreshAliases = []Alias{{}} },
		"negative lifetime":                            func(p *Provider) { p.DefaultLifetime = -1 },
	}
	for want, change := range providers {
		p := provider
		change(&p)
		c := good
		c.Providers = []Provider{p}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one about %q", err, want)
		}
	}
}
