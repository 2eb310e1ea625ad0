package credentials

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func (b *bench) discovering(c *Config) {
	p := b.provider()
	p.Discover, p.AuthorizationURL, p.TokenURL, p.RevocationURL, p.IssAdvertised = true, "", "", "", false
	c.Providers = []Provider{p}
}

// Guarantee: CRE11 (C25, C26): everything works with nothing but the issuer.
func TestDiscoveredProvider(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		var reads int
		var mu sync.Mutex
		r := b.replica(b.discovering, around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if strings.Contains(x.URL, "well-known") {
				mu.Lock()
				reads++
				mu.Unlock()
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		begun := r.begin(bob)
		q := b.visit(begun, "bob", true)
		q.Del("iss") // advertised in the metadata, so it must be there
		_, err := r.Finish(t.Context(), bob, browserKey, q, r.identify)
		wantCode(t, err, connector.CodePermissionDenied)
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "")
		if err != nil || steps.RevokedAtProvider != "yes" {
			t.Errorf("disconnect = %+v, %v", steps, err)
		}
		if reads != 1 {
			t.Errorf("metadata was read %d times, want once", reads)
		}
	})
}

// The table of RFC 9207 is decided by the metadata (C24, C25).
func TestDiscoveredIssIsNotAdvertised(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{IssNotAdvertised: true}})
		r := b.replica(b.discovering)
		begun := r.begin(alice)
		q := b.visit(begun, "alice", true)
		q.Del("iss")
		if _, err := r.Finish(t.Context(), alice, browserKey, q, r.identify); err != nil {
			t.Errorf("without iss: %v", err)
		}
		begun = r.begin(bob)
		q = b.visit(begun, "bob", true)
		q.Set("iss", b.org.Issuer()+"/")
		_, err := r.Finish(t.Context(), bob, browserKey, q, r.identify)
		wantCode(t, err, connector.CodePermissionDenied)
	})
}

func goodMetadata(issuer string) map[string]any {
	return map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t",
		"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
	}
}

// answering is a Service whose authorization server is a function.
func answering(t *testing.T, p Provider, answer func(x transport.Exchange) (connector.Response, error)) *Service {
	t.Helper()
	s, err := New(Config{
		DB: storetest.SQLite(t).Open(Migrations()), Keys: newRing(t), Providers: []Provider{p},
		Exchanger: ExchangerFunc(func(_ context.Context, _ string, x transport.Exchange) (connector.Response, error) { return answer(x) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func discoveredProvider(issuer string) Provider {
	return Provider{ID: "p", Profile: "p", Issuer: issuer, Discover: true, ClientID: "c", Method: AuthNone}
}

// Guarantee: CRE11 (C26, C30; threats T4, T6)
func TestMetadataThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	const issuer = "https://as.example/tenant"
	cases := map[string]func(m map[string]any){
		"issuer with a slash more": func(m map[string]any) { m["issuer"] = issuer + "/" },
		"issuer in another case":   func(m map[string]any) { m["issuer"] = "https://AS.example/tenant" },
		"issuer is a template":     func(m map[string]any) { m["issuer"] = "https://as.example/{tenantid}" },
		"no issuer":                func(m map[string]any) { delete(m, "issuer") },
		"no PKCE":                  func(m map[string]any) { delete(m, "code_challenge_methods_supported") },
		"PKCE plain only":          func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} },
		"no code flow":             func(m map[string]any) { m["response_types_supported"] = []string{"token"} },
		"other authentication":     func(m map[string]any) { m["token_endpoint_auth_methods_supported"] = []string{"client_secret_basic"} },
		"token endpoint in clear":  func(m map[string]any) { m["token_endpoint"] = "http://as.example/t" },
		"no token endpoint":        func(m map[string]any) { delete(m, "token_endpoint") },
		"no authorization":         func(m map[string]any) { delete(m, "authorization_endpoint") },
		"odd type":                 func(m map[string]any) { m["token_endpoint"] = []string{"x"} },
		"revocation with userinfo": func(m map[string]any) { m["revocation_endpoint"] = "https://u:p@as.example/r" },
	}
	check := func(name string, m map[string]any, want connector.Code) {
		t.Helper()
		body, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		s := answering(t, discoveredProvider(issuer), func(transport.Exchange) (connector.Response, error) {
			return connector.Response{Status: 200, Body: body}, nil
		})
		_, err = s.Begin(t.Context(), alice, BeginRequest{Provider: "p", RedirectURI: redirectURI, BrowserKey: browserKey})
		if got := connector.CodeOf(err); err == nil && want != 0 || err != nil && got != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	check("good", goodMetadata(issuer), 0)
	for name, change := range cases {
		m := goodMetadata(issuer)
		change(m)
		check(name, m, connector.CodeProviderContract)
	}
}

func TestWellKnownPlacesInOrder(t *testing.T) {
	t.Parallel()
	const issuer = "https://as.example/tenant/1"
	var asked []string
	s := answering(t, discoveredProvider(issuer), func(x transport.Exchange) (connector.Response, error) {
		if x.Form != nil || x.Header != nil {
			t.Errorf("metadata was asked for with %v, %v", x.Form, x.Header)
		}
		asked = append(asked, x.URL)
		return connector.Response{Status: 404}, nil
	})
	_, err := s.provider(t.Context(), "p")
	wantCode(t, err, connector.CodeProviderContract)
	want := []string{
		"https://as.example/.well-known/oauth-authorization-server/tenant/1",
		"https://as.example/.well-known/openid-configuration/tenant/1",
		"https://as.example/tenant/1/.well-known/openid-configuration",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if got := wellKnown("https://as.example/"); !slices.Equal(got, []string{"https://as.example/.well-known/oauth-authorization-server", "https://as.example/.well-known/openid-configuration"}) {
		t.Errorf("issuer with a slash only: %v", got)
	}
}

// C20, C26: an outage of the metadata does not stop what works; another issuer does.
func TestKnownMetadataOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	const issuer = "https://as.example"
	good, err := json.Marshal(goodMetadata(issuer))
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(goodMetadata(issuer + "/"))
	if err != nil {
		t.Fatal(err)
	}
	next := connector.Response{Status: 503, RetryAfter: time.Minute}
	s := answering(t, discoveredProvider(issuer), func(transport.Exchange) (connector.Response, error) { return next, nil })
	age := func(d time.Duration) {
		s.meta.mu.Lock()
		defer s.meta.mu.Unlock()
		for id, f := range maps.Clone(s.meta.found) {
			f.at, f.checked = f.at.Add(-d), f.checked.Add(-d)
			s.meta.found[id] = f
		}
	}
	_, err = s.provider(t.Context(), "p")
	if e := wantCode(t, err, connector.CodeUnavailable); e.RetryAfter != time.Minute {
		t.Errorf("retry after %v, want the server's minute", e.RetryAfter)
	}
	next = connector.Response{Status: 200, Body: good}
	if p, err := s.provider(t.Context(), "p"); err != nil || p.TokenURL != issuer+"/t" {
		t.Fatalf("provider = %+v, %v", p, err)
	}
	next = connector.Response{Status: 503}
	age(2 * time.Hour)
	if _, err := s.provider(t.Context(), "p"); err != nil {
		t.Errorf("during an outage: %v", err)
	}
	age(25 * time.Hour)
	_, err = s.provider(t.Context(), "p")
	wantCode(t, err, connector.CodeUnavailable)

	next = connector.Response{Status: 200, Body: good}
	if _, err := s.provider(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	next = connector.Response{Status: 200, Body: other}
	age(2 * time.Hour)
	_, err = s.provider(t.Context(), "p")
	wantCode(t, err, connector.CodeProviderContract)
}
