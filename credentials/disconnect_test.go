package credentials

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store"
)

var timeless = cmpopts.IgnoreFields(Step{}, "At")

func (b *bench) wantSteps(got, want Steps) {
	b.t.Helper()
	if diff := cmp.Diff(want, got, timeless); diff != "" {
		b.t.Errorf("steps (-want +got):\n%s", diff)
	}
}

var (
	stopped  = Step{State: StepDone}
	revoked1 = Step{State: StepDone, Code: "revoked", Tries: 1}
)

// pumpAll makes everything due and pumps.
func (r *replica) pumpAll() int {
	r.b.t.Helper()
	r.b.exec(`UPDATE cred_revocations SET next_at = 0 WHERE state = 'pending'`)
	n, err := r.PumpRevocations(r.b.t.Context())
	if err != nil {
		r.b.t.Errorf("pump: %v", err)
	}
	return n
}

// Guarantee: CRE8
func TestDisconnectStopsThenRevokes(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		var hooked atomic.Int64
		r, other := b.replica(func(c *Config) {
			c.OnChange = func(_ context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
				hooked.Add(1)
				return nil
			}
		}), b.replica()
		c := r.connect(alice, "alice")
		if status, _ := other.get(c); status != http.StatusOK { // unsealed in the other process, too
			t.Fatalf("read = %d", status)
		}
		hooked.Store(0)
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "left the team")
		if err != nil {
			t.Fatal(err)
		}
		b.wantSteps(steps, Steps{Stopped: stopped, RefreshToken: revoked1, AccessToken: revoked1, RevokedAtProvider: "yes"})
		if n := hooked.Load(); n != 1 {
			t.Errorf("OnChange ran %d times, want once", n)
		}
		for _, r := range []*replica{r, other} {
			before := len(b.org.Requests())
			_, err := r.get(c)
			wantCode(t, err, connector.CodeConnectionRequired)
			wantCode(t, r.Current(t.Context(), c), connector.CodeConnectionRequired)
			_, err = r.Resolve(t.Context(), alice, "tickets", nil)
			wantCode(t, err, connector.CodeConnectionRequired)
			if n := len(b.org.Requests()) - before; n != 0 {
				t.Errorf("%d requests after the disconnect", n)
			}
		}
		b.wantStatus(c, StatusDisconnected, "")
		if n := b.number(`SELECT count(*) FROM cred_tokens WHERE sealed IS NOT NULL`) + b.number(`SELECT count(*) FROM cred_revocations WHERE sealed IS NOT NULL`); n != 0 {
			t.Errorf("%d sealed tokens are left, want none", n)
		}
		again, err := r.Disconnect(t.Context(), alice, c.ID, "twice")
		if err != nil {
			t.Error(err)
		}
		b.wantSteps(again, steps)
		// A new sign-in is a new connection.
		if fresh := r.connect(alice, "alice"); fresh.ID == c.ID {
			t.Error("a disconnected connection came back")
		}
	})
}

// Guarantee: CRE8 (C43: the refresh token does not depend on the access token)
func TestRevocationsFailAndRetryByThemselves(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		// Refresh tokens go first, so the second request is the access token's.
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{
			Match: sandbox.Match{Path: "/oauth/revoke", Nth: []int{2}}, Effect: sandbox.Effect{Kind: "status", Status: 503},
		}}})
		steps, err := r.Disconnect(t.Context(), alice, c.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		pending := Step{State: StepPending, Code: "status_503", Tries: 1}
		b.wantSteps(steps, Steps{Stopped: stopped, RefreshToken: revoked1, AccessToken: pending, RevokedAtProvider: "unknown"})
		b.wantStatus(c, StatusDisconnecting, "")
		if n, err := r.PumpRevocations(t.Context()); n != 0 || err != nil {
			t.Errorf("pump before the wait is over tried %d (%v), want none", n, err)
		}
		if n := b.replica().pumpAll(); n != 1 {
			t.Errorf("pump tried %d, want 1", n)
		}
		v, err := r.Show(t.Context(), alice, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		b.wantSteps(v.Revocation, Steps{Stopped: stopped, RefreshToken: revoked1,
			AccessToken: Step{State: StepDone, Code: "revoked", Tries: 2}, RevokedAtProvider: "yes"})
		b.wantStatus(c, StatusDisconnected, "")
	})
}

func TestFailedRefreshTokenDoesNotKeepTheAccessToken(t *testing.T) {
	each(t, func(b *bench) {
		r := b.replica()
		c := r.connect(alice, "alice")
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{
			Match: sandbox.Match{Path: "/oauth/revoke", Nth: []int{1}}, Effect: sandbox.Effect{Kind: "reset_before"},
		}}})
		steps, err := r.Disconnect(b.t.Context(), alice, c.ID, "")
		if err != nil {
			b.t.Fatal(err)
		}
		b.wantSteps(steps, Steps{Stopped: stopped, RefreshToken: Step{State: StepPending, Code: "outcome_unknown", Tries: 1},
			AccessToken: revoked1, RevokedAtProvider: "unknown"})
	})
}

// Never "yes" without the provider's word.
func TestRevokedAtProviderIsNotClaimed(t *testing.T) {
	tests := []struct {
		name   string
		effect sandbox.Effect
		change func(*Config)
		pump   func(r *replica)
		want   Steps
	}{
		{name: "no endpoint", change: func(c *Config) { c.Providers[0].RevocationURL = "" },
			want: Steps{Stopped: stopped, RefreshToken: Step{State: StepFailed, Code: codeNoEndpoint}, AccessToken: Step{State: StepFailed, Code: codeNoEndpoint}, RevokedAtProvider: "no"}},
		{name: "unsupported", effect: sandbox.Effect{Kind: "status", Status: 400, Body: `{"error":"unsupported_token_type"}`},
			want: Steps{Stopped: stopped, RefreshToken: Step{State: StepDone, Code: codeUnsupported, Tries: 1}, AccessToken: Step{State: StepDone, Code: codeUnsupported, Tries: 1}, RevokedAtProvider: "no"}},
		{name: "given up", effect: sandbox.Effect{Kind: "status", Status: 503},
			pump: func(r *replica) { r.b.exec(`UPDATE cred_revocations SET give_up_at = 1000`); r.pumpAll() },
			want: Steps{Stopped: stopped, RefreshToken: Step{State: StepFailed, Code: codeGaveUp, Tries: 2}, AccessToken: Step{State: StepFailed, Code: codeGaveUp, Tries: 2}, RevokedAtProvider: "no"}},
		{name: "another success", effect: sandbox.Effect{Kind: "status", Status: 204},
			want: Steps{Stopped: stopped, RefreshToken: Step{State: StepPending, Code: "status_204", Tries: 1}, AccessToken: Step{State: StepPending, Code: "status_204", Tries: 1}, RevokedAtProvider: "unknown"}},
	}
	each(t, func(b *bench) {
		for _, test := range tests {
			b.t.Run(test.name, func(t *testing.T) {
				b := *b
				b.t = t
				r := b.replica(func(c *Config) {
					if test.change != nil {
						test.change(c)
					}
				})
				c := r.connect(alice, "alice")
				if test.effect.Kind != "" {
					b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: test.effect}}})
				}
				if _, err := r.Disconnect(t.Context(), alice, c.ID, ""); err != nil {
					t.Fatal(err)
				}
				if test.pump != nil {
					test.pump(r)
				}
				v, err := r.Show(t.Context(), alice, c.ID)
				if err != nil {
					t.Fatal(err)
				}
				b.wantSteps(v.Revocation, test.want)
			})
		}
	})
}

// Guarantee: CRE8 (new calls and the next network step of calls under way)
func TestNoRequestStartsAfterDisconnectReturned(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		one, two := b.replica(), b.replica()
		c := one.connect(alice, "alice")
		// Reads are answered 503 and so are in a retry loop most of the time.
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{
			Match: sandbox.Match{Path: "/api/v1/me"}, Effect: sandbox.Effect{Kind: "status", Status: 503},
		}}})
		var over atomic.Bool
		var wg sync.WaitGroup
		var after atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 8 {
			r := []*replica{one, two}[i%2]
			wg.Go(func() {
				for ctx.Err() == nil {
					late := over.Load()
					_, err := r.Authorize(ctx, c, 0)
					if late {
						if err == nil {
							t.Error("a credential was given out after Disconnect had returned")
						}
						after.Add(1)
						return
					}
					r.transport.Do(ctx, c, connector.ClassRead, connector.Request{Path: "/api/v1/me"})
				}
			})
		}
		for b.org.Hits("GET /api/v1/me") < 5 {
			time.Sleep(time.Millisecond)
		}
		if _, err := one.Disconnect(t.Context(), alice, c.ID, ""); err != nil {
			t.Error(err)
		}
		over.Store(true)
		wg.Wait()
		if after.Load() != 8 {
			t.Errorf("%d of 8 callers saw the end", after.Load())
		}
		settled := b.org.Hits("GET /api/v1/me")
		for _, r := range []*replica{one, two} {
			_, err := r.get(c)
			wantCode(t, err, connector.CodeConnectionRequired)
		}
		if n := b.org.Hits("GET /api/v1/me"); n != settled {
			t.Errorf("%d more requests", n-settled)
		}
	})
}

// Guarantee: CRE8 (a refresh whose answer comes after the disconnect)
func TestDisconnectDuringARefreshRevokesTheNewPair(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.expire(c)
		err := b.fencedRefresh(c, func() {
			if _, err := r.Disconnect(t.Context(), alice, c.ID, ""); err != nil {
				t.Error(err)
			}
		})
		wantCode(t, err, connector.CodeConnectionRequired)
		r.pumpAll()
		v, err := r.Show(t.Context(), alice, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		b.wantSteps(v.Revocation, Steps{Stopped: stopped, RefreshToken: revoked1, AccessToken: revoked1, RevokedAtProvider: "yes"})
		b.wantStatus(c, StatusDisconnected, "")
		if stats := b.org.OAuthStats(); stats.FamiliesAlive != 0 || stats.AccessTokensRevoked != 2 {
			t.Errorf("stats = %+v, want no grant alive and both access tokens revoked", stats)
		}
	})
}

// Guarantee: CRE8 (OnChange and the change are one)
func TestFailedHookRollsTheDisconnectBack(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		c := b.replica().connect(alice, "alice")
		r := b.replica(func(cfg *Config) {
			cfg.OnChange = func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
				if tenant != c.Tenant || id != c.ID {
					t.Errorf("hook for %s %s", tenant, id)
				}
				return connector.Fail(connector.CodeUnavailable, "no")
			}
		})
		if _, err := r.Disconnect(t.Context(), alice, c.ID, ""); err == nil {
			t.Error("disconnected although the hook failed")
		}
		b.wantStatus(c, StatusActive, "")
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}

// Threat T19: a grant that could not be stored is given back, also after a crash.
func TestGrantThatWasNotStoredIsGivenBack(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		q := b.visit(r.begin(alice), "alice", true)
		crash := func(context.Context, connector.Connection) (connector.Identity, error) { panic("crash") }
		func() {
			defer func() { recover() }()
			r.Finish(t.Context(), alice, browserKey, q, crash)
		}()
		if n, err := r.PumpRevocations(t.Context()); n != 0 || err != nil {
			t.Errorf("pump tried %d (%v) while the sign-in may still complete", n, err)
		}
		if n := r.pumpAll(); n != 2 {
			t.Errorf("pump tried %d, want both tokens", n)
		}
		if stats := b.org.OAuthStats(); stats.FamiliesAlive != 0 {
			t.Errorf("%d grants alive, want none", stats.FamiliesAlive)
		}
		// And a completed sign-in leaves nothing to give back.
		r.connect(alice, "alice")
		if n := r.pumpAll(); n != 0 {
			t.Errorf("pump tried %d tokens of a live connection", n)
		}
	})
}

// Two pumps at once send each token once.
func TestPumpsShareTheOutbox(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		var sent atomic.Int64
		count := around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if x.Form.Has("token") {
				sent.Add(1)
			}
			return send()
		})
		one, two := b.replica(count), b.replica(count)
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "status", Status: 503}}}})
		c := one.connect(alice, "alice")
		if _, err := one.Disconnect(t.Context(), alice, c.ID, ""); err != nil {
			t.Fatal(err)
		}
		b.behave(sandbox.Behaviour{})
		b.exec(`UPDATE cred_revocations SET next_at = 0`)
		sent.Store(0)
		var wg sync.WaitGroup
		for _, r := range []*replica{one, two, one, two} {
			wg.Go(func() {
				if _, err := r.PumpRevocations(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := sent.Load(); n != 2 {
			t.Errorf("%d requests, want one for each token", n)
		}
	})
}

// Threat T19: the database is gone when the grant arrives.
func TestGrantThatNothingCanStoreIsGivenBack(t *testing.T) {
	each(t, func(b *bench) {
		var r *replica
		r = b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			resp, err := send()
			if x.Form.Get("grant_type") == "authorization_code" {
				r.db.Close()
			}
			return resp, err
		}))
		q := b.visit(r.begin(alice), "alice", true)
		_, err := r.Finish(b.t.Context(), alice, browserKey, q, r.identify)
		wantCode(b.t, err, connector.CodeUnavailable)
		if stats := b.org.OAuthStats(); stats.Families != 1 || stats.FamiliesAlive != 0 {
			b.t.Errorf("%d of %d grants alive, want none of one", stats.FamiliesAlive, stats.Families)
		}
	})
}
