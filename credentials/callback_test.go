package credentials

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

func (b *bench) codeExchanges() int { return b.org.OAuthStats().TokenRequests["authorization_code"] }

func (b *bench) connections() int64 { return b.number(`SELECT count(*) FROM cred_connections`) }

// Guarantee: CRE1 (C30: S256 and nothing else)
func TestAuthorizationURL(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(func(c *Config) {
			c.Providers[0].Resource = "https://tickets.example/api"
			c.Providers[0].AuthParams = map[string]string{"prompt": "consent"}
			c.Providers[0].ScopeSeparator = ","
		})
		begun := r.begin(alice)
		u, err := url.Parse(begun.URL)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if len(q.Get("state")) != 43 || len(q.Get("code_challenge")) != 43 {
			t.Errorf("state and challenge have %d and %d characters, want 43 (256 bits)", len(q.Get("state")), len(q.Get("code_challenge")))
		}
		q.Del("state")
		q.Del("code_challenge")
		want := url.Values{
			"client_id": {"drawbridge-cli"}, "code_challenge_method": {"S256"}, "prompt": {"consent"}, "redirect_uri": {redirectURI},
			"resource": {"https://tickets.example/api"}, "response_type": {"code"}, "scope": {"tickets:read,profile:read,offline_access"},
		}
		if diff := cmp.Diff(want, q); diff != "" {
			t.Errorf("query (-want +got):\n%s", diff)
		}
		if left := time.Until(begun.ExpiresAt); left > 10*time.Minute || left < 9*time.Minute {
			t.Errorf("expires in %v, want 10 minutes", left)
		}
	})
}

// Guarantee: CRE1 (C21, C23)
func TestStateIsUsedOnce(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		one, two := b.replica(), b.replica()
		q := b.visit(one.begin(alice), "alice", true)
		type outcome struct {
			c   connector.Connection
			err error
		}
		results := make(chan outcome, 8)
		var wg sync.WaitGroup
		for i := range 8 { // both replicas, as after a double callback
			wg.Go(func() {
				r := []*replica{one, two}[i%2]
				c, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
				results <- outcome{c, err}
			})
		}
		wg.Wait()
		close(results)
		made := 0
		for o := range results {
			if o.err == nil {
				made++
				continue
			}
			wantCode(t, o.err, connector.CodeConflict)
		}
		if made != 1 || b.codeExchanges() != 1 || b.connections() != 1 {
			t.Errorf("%d calls succeeded, %d exchanges, %d connections; want one each", made, b.codeExchanges(), b.connections())
		}
		c, err := two.Finish(t.Context(), alice, browserKey, q, two.identify)
		wantCode(t, err, connector.CodeConflict)
		if c.Account.Subject != "acct-alice" {
			t.Errorf("a later use shows %+v, want the first one's connection", c)
		}
		if n := b.codeExchanges(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
		if status, err := two.get(c); status != http.StatusOK {
			t.Errorf("the connection died of the replay: %d, %v", status, err)
		}
	})
}

// Guarantee: CRE1 (C42, threat T1)
func TestForeignCallbackIsRefusedAndBurns(t *testing.T) {
	strangers := map[string]func() (connector.Caller, string){
		"another browser":         func() (connector.Caller, string) { return alice, "the browser of the victim" },
		"another principal":       func() (connector.Caller, string) { return bob, browserKey },
		"another tenant":          func() (connector.Caller, string) { return carol, browserKey },
		"no browser key":          func() (connector.Caller, string) { return alice, "" },
		"nobody":                  func() (connector.Caller, string) { return connector.Caller{}, browserKey },
		"another tenant, browser": func() (connector.Caller, string) { return carol, "the browser of the victim" },
	}
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		_, unknown := r.Finish(t.Context(), alice, browserKey, url.Values{"code": {"x"}, "state": {"never-issued"}}, r.identify)
		wantCode(t, unknown, connector.CodeNotFound)
		for name, stranger := range strangers {
			q := b.visit(r.begin(alice), "alice", true)
			caller, key := stranger()
			_, err := r.Finish(t.Context(), caller, key, q, r.identify)
			if got, want := err.Error(), unknown.Error(); got != want {
				t.Errorf("%s: error = %q, want that of an unknown state, %q", name, got, want)
			}
			// The state has been in the wrong hands; its owner must start again.
			_, err = r.Finish(t.Context(), alice, browserKey, q, r.identify)
			wantCode(t, err, connector.CodeConflict)
		}
		if n, m := b.codeExchanges(), b.connections(); n != 0 || m != 0 {
			t.Errorf("%d exchanges and %d connections, want none", n, m)
		}
	})
}

// Guarantee: CRE1
func TestExpiredStateIsRefused(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		q := b.visit(r.begin(alice), "alice", true)
		b.exec(`UPDATE cred_transactions SET expires_at = 1000`)
		_, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
		wantCode(t, err, connector.CodeGone)
		if n := b.codeExchanges(); n != 0 {
			t.Errorf("%d exchanges, want none", n)
		}
	})
}

func TestCallbackParametersOnce(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		q := b.visit(r.begin(alice), "alice", true)
		for _, name := range []string{"code", "state", "iss", "error"} {
			twice := url.Values{}
			for k, v := range q {
				twice[k] = slices.Clone(v)
			}
			twice[name] = append(twice[name], "second", "third")
			_, err := r.Finish(t.Context(), alice, browserKey, twice, r.identify)
			wantCode(t, err, connector.CodeInvalidInput)
		}
		_, err := r.Finish(t.Context(), alice, browserKey, url.Values{"code": q["code"]}, r.identify)
		wantCode(t, err, connector.CodeInvalidInput)
		_, err = r.Finish(t.Context(), alice, browserKey, url.Values{"state": q["state"], "code": {strings.Repeat("x", 5000)}}, r.identify)
		wantCode(t, err, connector.CodeInvalidInput)
		// None of it used the sign-in up.
		if _, err := r.Finish(t.Context(), alice, browserKey, q, r.identify); err != nil {
			t.Errorf("the right callback afterwards: %v", err)
		}
	})
}

// Guarantee: CRE2 (C25, threat T3)
func TestIssuer(t *testing.T) {
	tests := []struct {
		name       string
		advertised bool
		iss        string // "" leaves it as the sandbox sends it
		ok         bool
	}{
		{"advertised and right", true, "", true},
		{"advertised and absent", true, "omit", false},
		{"advertised and another", true, "https://evil.example", false},
		{"advertised, with a slash more", true, "SLASH", false},
		{"advertised, in capitals", true, "UPPER", false},
		{"advertised and empty", true, "EMPTY", false},
		{"not advertised and right (C25)", false, "", true},
		{"not advertised and absent", false, "omit", true},
		{"not advertised and another", false, "https://evil.example", false},
		{"not advertised and empty", false, "EMPTY", false},
	}
	each(t, func(b *bench) {
		silent := b.replica(func(c *Config) { c.Providers[0].IssAdvertised = false })
		loud := b.replica()
		for _, test := range tests {
			b.t.Run(test.name, func(t *testing.T) {
				r := silent
				if test.advertised {
					r = loud
				}
				begun := r.begin(alice)
				q := b.visit(begun, "alice", true)
				switch test.iss {
				case "":
				case "omit":
					q.Del("iss")
				case "SLASH":
					q.Set("iss", b.org.Issuer()+"/")
				case "UPPER":
					q.Set("iss", strings.ToUpper(b.org.Issuer()))
				case "EMPTY":
					q.Set("iss", "")
				default:
					q.Set("iss", test.iss)
				}
				before := b.codeExchanges()
				_, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
				if (err == nil) != test.ok {
					t.Errorf("error = %v, want ok = %v", err, test.ok)
				}
				if sent := b.codeExchanges() - before; (sent == 1) != test.ok {
					t.Errorf("%d exchanges, want the code sent = %v", sent, test.ok)
				}
				if !test.ok {
					wantCode(t, err, connector.CodePermissionDenied)
					q.Set("iss", b.org.Issuer())
					_, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
					wantCode(t, err, connector.CodeConflict) // burned
				}
			})
		}
	})
}

// An error that another server may have made is not believed either.
func TestErrorOfAnotherIssuerIsIgnored(t *testing.T) {
	each(t, func(b *bench) {
		r := b.replica()
		q := b.visit(r.begin(alice), "alice", false)
		q.Set("iss", "https://evil.example")
		_, err := r.Finish(b.t.Context(), alice, browserKey, q, r.identify)
		if e := wantCode(b.t, err, connector.CodePermissionDenied); strings.Contains(e.Error(), "declined") {
			b.t.Errorf("error = %v, want nothing of the forged answer", err)
		}
	})
}

// Guarantee: CRE2
func TestCodeGoesOnlyToTheEndpointFixedAtTheStart(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		q := b.visit(b.replica().begin(alice), "alice", true)
		other := b.replica(func(c *Config) { c.Providers[0].TokenURL = b.org.URL() + "/oauth/other" })
		_, err := other.Finish(t.Context(), alice, browserKey, q, other.identify)
		wantCode(t, err, connector.CodeConflict)
		for _, seen := range b.org.Requests() {
			if seen.Method == http.MethodPost && strings.HasPrefix(seen.Path, "/oauth/") && seen.Form.Has("code") {
				t.Errorf("a code was sent to %s", seen.Path)
			}
		}
	})
}

func TestDeclinedAtTheProvider(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		q := b.visit(r.begin(alice), "alice", false)
		q.Set("error_description", "canary-description")
		_, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
		e := wantCode(t, err, connector.CodePermissionDenied)
		if e.Advice() != connector.NextAskPerson || strings.Contains(err.Error(), "canary") {
			t.Errorf("error = %v, advice %v", err, e.Advice())
		}
		q = b.visit(r.begin(alice), "alice", false)
		q.Set("error", "<script>canary-code")
		_, err = r.Finish(t.Context(), alice, browserKey, q, r.identify)
		if e := wantCode(t, err, connector.CodeProviderContract); strings.Contains(e.Error(), "canary") {
			t.Errorf("the provider's own words got out: %v", err)
		}
		if b.codeExchanges() != 0 {
			t.Error("something was exchanged")
		}
	})
}

// Guarantee: CRE1 (at most five open sign-ins, from any number of processes)
func TestOpenSignInsAreLimited(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		one, two := b.replica(), b.replica()
		var mu sync.Mutex
		opened, limited := 0, 0
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				_, err := []*replica{one, two}[i%2].Begin(t.Context(), alice, BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey})
				mu.Lock()
				defer mu.Unlock()
				switch connector.CodeOf(err) {
				case 0:
					opened++
				case connector.CodeRateLimited:
					limited++
				default:
					t.Errorf("error = %v", err)
				}
			})
		}
		wg.Wait()
		if opened != 5 || limited != 7 {
			t.Errorf("%d opened and %d refused, want 5 and 7", opened, limited)
		}
		one.begin(bob) // another principal has slots of its own
		b.exec(`UPDATE cred_transactions SET expires_at = 1000`)
		one.begin(alice) // and time frees them
	})
}

func TestBeginRefuses(t *testing.T) {
	each(t, func(b *bench) {
		r := b.replica()
		good := BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey}
		tests := []struct {
			name   string
			caller connector.Caller
			change func(*BeginRequest)
			want   connector.Code
		}{
			{"nobody", connector.Caller{}, nil, connector.CodePermissionDenied},
			{"unknown provider", alice, func(q *BeginRequest) { q.Provider = "x" }, connector.CodeNotFound},
			{"no browser key", alice, func(q *BeginRequest) { q.BrowserKey = "" }, connector.CodeInvalidInput},
			{"plain http elsewhere", alice, func(q *BeginRequest) { q.RedirectURI = "http://app.example/callback" }, connector.CodeInvalidInput},
			{"localhost is a name", alice, func(q *BeginRequest) { q.RedirectURI = "http://localhost:1/callback" }, connector.CodeInvalidInput},
			{"fragment", alice, func(q *BeginRequest) { q.RedirectURI = "https://app.example/callback#x" }, connector.CodeInvalidInput},
			{"a scope nobody allowed (CRE7)", alice, func(q *BeginRequest) { q.Scopes = []string{"webhooks:manage"} }, connector.CodePermissionDenied},
			{"a connection that is not there", alice, func(q *BeginRequest) { q.Connection = "x" }, connector.CodeConnectionRequired},
		}
		for _, test := range tests {
			q := good
			if test.change != nil {
				test.change(&q)
			}
			if _, err := r.Begin(b.t.Context(), test.caller, q); connector.CodeOf(err) != test.want {
				b.t.Errorf("%s: error = %v, want %v", test.name, err, test.want)
			}
		}
	})
}

// C41 and C31: the method is explicit, one request, JSON asked for.
func TestCodeExchangeIsOneRequest(t *testing.T) {
	each(t, func(b *bench) {
		for name, method := range map[string]AuthMethod{"basic": AuthBasic, "post": AuthPost, "none": AuthNone} {
			b.t.Run(name, func(t *testing.T) {
				b := *b
				b.t = t
				var seen []string
				r := b.replica(func(c *Config) {
					p := &c.Providers[0]
					p.Method = method
					if method != AuthNone {
						p.ClientID = "confidential " + name // Basic must encode it
						p.ClientSecret = NewSecret("s3cret: +" + name)
						if err := b.org.RegisterClient(sandbox.Client{ID: p.ClientID, Secret: "s3cret: +" + name, RedirectURIs: []string{redirectURI}}); err != nil {
							t.Fatal(err)
						}
					}
				}, around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
					seen = append(seen, x.Form.Get("grant_type"))
					if x.Header.Get("Idempotency-Key") != "" {
						t.Error("a header that makes net/http send again")
					}
					return send()
				}))
				before := b.codeExchanges()
				c := r.connect(alice, "bob")
				if n := b.codeExchanges() - before; n != 1 || len(seen) != 1 {
					t.Errorf("%d requests, %v sent, want one", n, seen)
				}
				b.expire(c)
				if status, err := r.get(c); status != http.StatusOK {
					t.Errorf("after a renewal: %d, %v", status, err)
				}
				for _, req := range b.org.Requests() {
					if req.Path == "/oauth/token" && !slices.Contains(req.HeaderNames, "Accept") {
						t.Error("token request without Accept (C31)")
					}
				}
			})
		}
	})
}

// C27, C41: a code that may have been received is never sent again.
func TestFailedExchangeIsNotRepeated(t *testing.T) {
	faults := map[string]sandbox.Effect{
		"lost answer":  {Kind: "lose_answer_after_commit"},
		"503":          {Kind: "status", Status: 503},
		"400":          {Kind: "status", Status: 400, Body: `{"error":"invalid_client"}`},
		"429":          {Kind: "status", Status: 429, RetryAfter: "7"},
		"307 (C27)":    {Kind: "redirect", Status: 307, Location: "/oauth/elsewhere"},
		"302 (C27)":    {Kind: "redirect", Status: 302, Location: "/oauth/elsewhere"},
		"html":         {Kind: "html"},
		"oversized":    {Kind: "oversized"},
		"empty object": {Kind: "status", Status: 200, Body: `{}`},
	}
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		for name, effect := range faults {
			q := b.visit(r.begin(alice), "alice", true)
			b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token"}, Effect: effect}}})
			before := len(b.org.Requests())
			_, err := r.Finish(t.Context(), alice, browserKey, q, r.identify)
			if err == nil {
				t.Errorf("%s: connected", name)
			}
			sent := 0
			for _, seen := range b.org.Requests()[before:] {
				if seen.Path == "/oauth/elsewhere" {
					t.Errorf("%s: a redirect was followed", name)
				}
				if seen.Path == "/oauth/token" {
					sent++
				}
			}
			if sent != 1 {
				t.Errorf("%s: %d token requests, want 1", name, sent)
			}
			b.behave(sandbox.Behaviour{})
			_, err = r.Finish(t.Context(), alice, browserKey, q, r.identify)
			wantCode(t, err, connector.CodeConflict)
		}
		if n := b.connections(); n != 0 {
			t.Errorf("%d connections, want none", n)
		}
	})
}

// C21: two callbacks that have both read the sign-in as open; the second loses.
func TestOpenSignInIsTakenByCompareAndSwap(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		u, err := url.Parse(r.begin(alice).URL)
		if err != nil {
			t.Fatal(err)
		}
		both, err := r.readTransaction(t.Context(), alice.Tenant, hash(u.Query().Get("state")))
		if err != nil || both.status != "open" {
			t.Fatalf("transaction = %+v, %v", both, err)
		}
		if err := r.closeTransaction(t.Context(), both, "open", "consumed", ""); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := r.closeTransaction(t.Context(), both, "open", "consumed", ""); !errors.Is(err, errNotOpen) {
			t.Errorf("the second: %v, want that it is no longer open", err)
		}
	})
}

// Ids that no database can hold name nothing, on every engine alike.
func TestIdsThatAreNotText(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		for _, id := range []connector.ConnectionID{"a\x00b", "\xff"} {
			chosen := alice
			chosen.Connection = id
			_, err := r.Resolve(t.Context(), chosen, "tickets", nil)
			wantCode(t, err, connector.CodeConnectionRequired)
			_, err = r.Show(t.Context(), alice, id)
			wantCode(t, err, connector.CodeConnectionRequired)
			_, err = r.Disconnect(t.Context(), alice, id, "")
			wantCode(t, err, connector.CodeConnectionRequired)
			_, err = r.Begin(t.Context(), alice, BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey, Connection: id})
			wantCode(t, err, connector.CodeConnectionRequired)
		}
		c := r.connect(alice, "alice")
		if _, err := r.Disconnect(t.Context(), alice, c.ID, "ä\x00\xff"+strings.Repeat("ö", 300)); err != nil {
			t.Errorf("disconnect with an odd reason: %v", err)
		}
	})
}
