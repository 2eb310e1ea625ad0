package credentials

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// Guarantee: CRE3 (C34, threat T14)
func TestReconnectWithAnotherAccountKeepsTheOld(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		begun := r.begin(alice, func(q *BeginRequest) { q.Connection = c.ID })
		_, err := r.Finish(t.Context(), alice, browserKey, b.visit(begun, "bob", true), r.identify)
		wantCode(t, err, connector.CodeConflict)

		now, err := r.Resolve(t.Context(), alice, "tickets", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, now); diff != "" {
			t.Errorf("the old connection changed (-want +got):\n%s", diff)
		}
		if status, err := r.get(now); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		if stats := b.org.OAuthStats(); stats.Families != 2 || stats.FamiliesAlive != 1 || stats.FamiliesRevoked != 1 {
			t.Errorf("stats = %+v, want the new grant revoked and the old one alive", stats)
		}
		// The deliberate choice is a second connection, and then the host must choose.
		second := r.connect(alice, "bob")
		if second.ID == c.ID || second.Account.Subject != "acct-bob" {
			t.Errorf("second connection = %+v", second)
		}
		_, err = r.Resolve(t.Context(), alice, "tickets", nil)
		wantCode(t, err, connector.CodeInvalidInput)
		chosen := alice
		chosen.Connection = second.ID
		if got, err := r.Resolve(t.Context(), chosen, "tickets", nil); err != nil || got.ID != second.ID {
			t.Errorf("resolve = %+v, %v", got, err)
		}
	})
}

// Guarantee: CRE3 (what the provider does not confirm is not stored)
func TestIdentityIsRequired(t *testing.T) {
	account := connector.Account{Subject: "acct-alice"}
	tests := []struct {
		name     string
		wanted   []string
		identify func(c connector.Connection) (connector.Identity, error)
		want     connector.Code
	}{
		{"the provider does not answer", nil, func(connector.Connection) (connector.Identity, error) {
			return connector.Identity{}, connector.Fail(connector.CodeUnavailable, "down")
		}, connector.CodeUnavailable},
		{"anonymous (T30)", nil, func(connector.Connection) (connector.Identity, error) {
			return connector.Identity{Account: connector.Account{Login: "alice"}}, nil
		}, connector.CodeProviderContract},
		{"a project that is not visible", []string{"orders", "secret"}, func(connector.Connection) (connector.Identity, error) {
			return connector.Identity{Account: account, Resources: []connector.Resource{{ID: "orders"}}}, nil
		}, connector.CodePermissionDenied},
	}
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		for _, test := range tests {
			begun := r.begin(alice, func(q *BeginRequest) { q.Resources = test.wanted })
			var lent connector.Connection
			_, err := r.Finish(t.Context(), alice, browserKey, b.visit(begun, "alice", true), func(_ context.Context, c connector.Connection) (connector.Identity, error) {
				lent = c
				return test.identify(c)
			})
			if connector.CodeOf(err) != test.want {
				t.Errorf("%s: error = %v, want %v", test.name, err, test.want)
			}
			_, err = r.Authorize(t.Context(), lent, 0)
			wantCode(t, err, connector.CodeConnectionRequired)
		}
		stats := b.org.OAuthStats()
		if b.connections() != 0 || stats.FamiliesAlive != 0 {
			t.Errorf("%d connections, %d grants alive; want none", b.connections(), stats.FamiliesAlive)
		}
	})
}

// The provisional connection is for the identify call, and for nobody else.
func TestProvisionalConnectionEndsWithTheCall(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r, other := b.replica(), b.replica()
		var lent connector.Connection
		_, err := r.Finish(t.Context(), alice, browserKey, b.visit(r.begin(alice), "alice", true), func(ctx context.Context, c connector.Connection) (connector.Identity, error) {
			lent = c
			for name, wrong := range map[string]connector.Connection{
				"another tenant":    {ID: c.ID, Tenant: "globex", Principal: c.Principal},
				"another principal": {ID: c.ID, Tenant: c.Tenant, Principal: "bob"},
			} {
				if _, err := r.Authorize(ctx, wrong, 0); connector.CodeOf(err) != connector.CodeConnectionRequired {
					t.Errorf("%s: error = %v", name, err)
				}
			}
			_, err := other.Authorize(ctx, c, 0)
			wantCode(t, err, connector.CodeConnectionRequired)
			_, err = r.Authorize(ctx, c, 1) // refused: there is nothing to renew yet
			wantCode(t, err, connector.CodeConnectionRequired)
			return r.identify(ctx, c)
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Authorize(t.Context(), lent, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
	})
}

// Guarantee: CRE3, CRE7 (C15: what was granted counts, not what was asked)
func TestGrantedScopes(t *testing.T) {
	tests := []struct {
		name      string
		behaviour sandbox.Behaviour
		effective []string // from the connector's identity
		want      []string
	}{
		{"as answered", sandbox.Behaviour{Switches: sandbox.Switches{DenyScopes: map[string][]string{"alice": {"tickets:read"}}}}, nil, []string{"profile:read", "offline_access"}},
		{"left out means as asked", sandbox.Behaviour{Switches: sandbox.Switches{OmitScope: true}}, nil, []string{"tickets:read", "profile:read", "offline_access"}},
		{"effective ones win", sandbox.Behaviour{}, []string{"profile:read"}, []string{"profile:read"}},
		{"effectively none", sandbox.Behaviour{}, []string{}, []string{}},
	}
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		for _, test := range tests {
			b.behave(test.behaviour)
			c, err := r.Finish(t.Context(), alice, browserKey, b.visit(r.begin(alice), "alice", true), func(ctx context.Context, c connector.Connection) (connector.Identity, error) {
				who, err := r.identify(ctx, c)
				who.Scopes = test.effective
				return who, err
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Scopes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
			_, err = r.Resolve(t.Context(), alice, "tickets", []string{"tickets:read", "profile:read"})
			if slices.Contains(test.want, "tickets:read") {
				if err != nil {
					t.Errorf("%s: %v", test.name, err)
				}
				continue
			}
			e := wantCode(t, err, connector.CodeScopeRequired)
			missing := []string{"tickets:read", "profile:read"}
			if slices.Contains(test.want, "profile:read") {
				missing = missing[:1]
			}
			if diff := cmp.Diff(missing, e.Scopes); diff != "" {
				t.Errorf("%s: missing (-want +got):\n%s", test.name, diff)
			}
		}
	})
}

// Guarantee: CRE7 (step-up asks for what is missing beside what was there)
func TestStepUp(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		_, err := r.Resolve(t.Context(), alice, "tickets", []string{"tickets:read", "tickets:write"})
		e := wantCode(t, err, connector.CodeScopeRequired)
		if diff := cmp.Diff([]string{"tickets:write"}, e.Scopes); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
		begun := r.begin(alice, func(q *BeginRequest) { q.Connection, q.Scopes = c.ID, e.Scopes })
		u, err := url.Parse(begun.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := u.Query().Get("scope"), "tickets:read profile:read offline_access tickets:write"; got != want {
			t.Errorf("scope = %q, want %q", got, want)
		}
		// Until it completes the old token stays in use.
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		if _, err := r.Finish(t.Context(), alice, browserKey, b.visit(begun, "alice", true), r.identify); err != nil {
			t.Fatal(err)
		}
		got, err := r.Resolve(t.Context(), alice, "tickets", []string{"tickets:write"})
		if err != nil || got.ID != c.ID || got.AuthzVersion <= c.AuthzVersion {
			t.Errorf("resolve = %+v, %v; want %s with a later authorization version", got, err, c.ID)
		}
		wantCode(t, r.Current(t.Context(), c), connector.CodeConnectionRequired)
	})
}

func TestResourcesAreWhatWasWantedAndIsVisible(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice", func(q *BeginRequest) { q.Resources = []string{"web"} })
		if diff := cmp.Diff([]string{"web"}, c.Resources); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
		// A renewal without a new wish does not widen the old one.
		c = r.connect(alice, "alice", func(q *BeginRequest) { q.Connection = c.ID })
		if diff := cmp.Diff([]string{"web"}, c.Resources); diff != "" {
			t.Errorf("resources after a renewal (-want +got):\n%s", diff)
		}
		c = r.connect(alice, "alice", func(q *BeginRequest) { q.Connection, q.Resources = c.ID, []string{"orders"} })
		if diff := cmp.Diff([]string{"orders"}, c.Resources); diff != "" {
			t.Errorf("resources after a new wish (-want +got):\n%s", diff)
		}
		none := r.connect(alice, "alice", func(q *BeginRequest) { q.Connection, q.Resources = c.ID, []string{} })
		if len(none.Resources) != 0 {
			t.Errorf("resources = %v, want none", none.Resources)
		}
	})
}

// RFC 8707: with every request, the refresh too.
func TestResourceIndicator(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		const resource = "https://tickets.example/api"
		r := b.replica(func(c *Config) { c.Providers[0].Resource = resource })
		c := r.connect(alice, "alice")
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Fatalf("read = %d, %v", status, err)
		}
		seen := 0
		for _, req := range b.org.Requests() {
			if req.Path == "/oauth/token" {
				seen++
				if got := req.Form.Get("resource"); got != resource {
					t.Errorf("%s: resource = %q", req.Form.Get("grant_type"), got)
				}
			}
		}
		if seen != 2 {
			t.Errorf("%d token requests, want 2", seen)
		}
	})
}
