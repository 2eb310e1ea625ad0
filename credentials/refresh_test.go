package credentials

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store"
)

func (b *bench) status(c connector.Connection) (Status, Reason) {
	b.t.Helper()
	var s Status
	var r Reason
	if err := b.db.QueryRowFor(context.Background(), store.AllTenants(), `SELECT status, reason FROM cred_connections WHERE tenant_id = ? AND id = ?`,
		string(c.Tenant), string(c.ID)).Scan(&s, &r); err != nil {
		b.t.Fatal(err)
	}
	return s, r
}

func (b *bench) wantStatus(c connector.Connection, want Status, why Reason) {
	b.t.Helper()
	if s, r := b.status(c); s != want || r != why {
		b.t.Errorf("status = %s (%s), want %s (%s)", s, r, want, why)
	}
}

// due lets every wait that a failure caused be over.
func (b *bench) due(c connector.Connection) {
	b.t.Helper()
	b.exec(`UPDATE cred_tokens SET next_attempt_at = 0 WHERE tenant_id = ? AND connection_id = ?`, string(c.Tenant), string(c.ID))
}

// Guarantee: CRE6 (C01, T38)
func TestOneRefreshForManyCallersOfTwoProcesses(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		one, two := b.replica(), b.replica()
		c := one.connect(alice, "alice")
		b.expire(c)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				r := []*replica{one, two}[i%2]
				got, err := r.Authorize(t.Context(), c, 0)
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
				} else if got.Version() != 2 {
					t.Errorf("caller %d got version %d, want 2", i, got.Version())
				}
			})
		}
		wg.Wait()
		if n := b.refreshes(); n != 1 {
			t.Errorf("the provider saw %d refreshes, want 1", n)
		}
		for _, r := range []*replica{one, two} {
			if status, err := r.get(c); status != http.StatusOK {
				t.Errorf("read = %d, %v", status, err)
			}
		}
	})
}

// Guarantee: CRE6 (C01, repeatedly)
func TestManyRotationsKeepTheGrant(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		one, two := b.replica(), b.replica()
		c := one.connect(alice, "alice")
		const rounds = 5
		for range rounds {
			b.expire(c)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if status, err := []*replica{one, two}[i%2].get(c); status != http.StatusOK {
						t.Errorf("read = %d, %v", status, err)
					}
				})
			}
			wg.Wait()
		}
		stats := b.org.OAuthStats()
		if stats.Rotations != rounds || stats.KilledByRefreshReuse != 0 {
			t.Errorf("%d rotations, %d grants killed; want %d and none", stats.Rotations, stats.KilledByRefreshReuse, rounds)
		}
	})
}

// Guarantee: CRE6 (C10)
func TestCallerWhoGivesUpDoesNotCancelTheRefresh(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		entered, proceed := make(chan struct{}), make(chan struct{})
		r := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if x.Form.Get("grant_type") == "refresh_token" {
				close(entered)
				<-proceed
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		b.expire(c)
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := r.Authorize(ctx, c, 0)
			first <- err
		}()
		<-entered
		second := make(chan error, 1)
		go func() {
			_, err := r.Authorize(t.Context(), c, 0)
			second <- err
		}()
		cancel()
		wantCode(t, <-first, connector.CodeCanceled)
		close(proceed)
		if err := <-second; err != nil {
			t.Errorf("the one who stayed: %v", err)
		}
		if n := b.refreshes(); n != 1 {
			t.Errorf("%d refreshes, want 1", n)
		}
	})
}

// C04: a flight ends by itself, and the next one starts afresh.
func TestStuckEndpointBlocksNobodyForGood(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		stuck := true
		r := b.replica(func(c *Config) {
			c.HTTPTimeout, c.Guard, c.Lease = 50*time.Millisecond, time.Second, 4*time.Second
			inner := c.Exchanger
			c.Exchanger = ExchangerFunc(func(ctx context.Context, profile string, x transport.Exchange) (connector.Response, error) {
				if x.Form.Get("grant_type") == "refresh_token" && stuck {
					<-ctx.Done()
					e := connector.AsError(ctx.Err())
					e.Effect = connector.DispositionUnknown
					return connector.Response{}, e
				}
				// What is not stuck must not suffer from a short deadline on a busy machine.
				return inner.Exchange(context.WithoutCancel(ctx), profile, x)
			})
		})
		c := r.connect(alice, "alice")
		b.expire(c)
		_, err := r.Authorize(t.Context(), c, 0)
		if e := wantCode(t, err, connector.CodeUnavailable); e.RetryAfter <= 0 {
			t.Errorf("retry after %v, want a wait", e.RetryAfter)
		}
		b.wantStatus(c, StatusActive, "")
		stuck = false
		b.due(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}

// Guarantee: CRE6 (C05, C07, T38: the provider rotated, nobody stored it)
func TestCrashBetweenAnswerAndCommitIsReconnectNotALoop(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		crashing := b.replica()
		c := crashing.connect(alice, "alice")
		b.expire(c)
		// The process loses its database the moment the answer arrives, and ends.
		crashing = b.replica(around(func(_ context.Context, _ transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			resp, err := send()
			crashing.db.Close()
			crashing.stop()
			return resp, err
		}))
		_, err := crashing.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeUnavailable)
		crashing.Close()

		next := b.replica()
		if n := b.number(`SELECT count(*) FROM cred_tokens WHERE phase = 'claimed' AND version = 1`); n != 1 {
			t.Fatalf("%d dead claims, want 1", n)
		}
		// Not before its lease, and as long again, is over.
		waiting, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = next.Authorize(waiting, c, 0)
		wantCode(t, err, connector.CodeDeadline)
		if n := b.refreshes(); n != 1 {
			t.Fatalf("%d refreshes while the claim may live, want 1", n)
		}
		b.exec(`UPDATE cred_tokens SET lease_exp = 1000`)
		// The waiting flight or this call takes it over; the answer is the same.
		_, err = next.Authorize(t.Context(), c, 0)
		e := wantCode(t, err, connector.CodeConnectionRequired)
		if e.Advice() != connector.NextReconnect {
			t.Errorf("advice = %v, want reconnect", e.Advice())
		}
		b.wantStatus(c, StatusReconnectRequired, ReasonLostRotation)
		for range 3 {
			_, err = next.Authorize(t.Context(), c, 0)
			wantCode(t, err, connector.CodeConnectionRequired)
		}
		if n := b.refreshes(); n != 2 {
			t.Errorf("%d refreshes, want the first and one replay", n)
		}
	})
}

// Guarantee: CRE6 (C07 at a provider with a grace window)
func TestDeadClaimIsReplayedOnce(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{GraceMS: 60_000}})
		b.expire(c)
		b.exec(`UPDATE cred_tokens SET phase = 'claimed', lease_tok = lease_tok + 1, lease_owner = 'dead', lease_exp = 1000`)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		b.wantStatus(c, StatusActive, "")
		if n := b.number(`SELECT unknown_count FROM cred_tokens`); n != 0 {
			t.Errorf("unknown count = %d after a definite answer, want 0", n)
		}
	})
}

// Guarantee: CRE6 (C05: the database is away when the answer comes)
func TestCommitIsRetriedWhileTheDatabaseIsAway(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		var fail int // the first commits fail inside their transaction
		r := b.replica()
		c := r.connect(alice, "alice")
		b.exec(`UPDATE cred_tokens SET answered_scopes = '["tickets:read","profile:read","offline_access","tickets:write"]'`)
		b.exec(`UPDATE cred_connections SET granted_scopes = '["tickets:read","profile:read","offline_access","tickets:write"]'`)
		b.expire(c)
		r = b.replica(func(cfg *Config) {
			cfg.OnChange = func(context.Context, *store.Tx, connector.TenantID, connector.ConnectionID) error {
				if fail++; fail <= 3 {
					return context.DeadlineExceeded // as a connection that broke
				}
				return nil
			}
		})
		// The scope that went away makes the commit call OnChange; and what was
		// resolved before is not what it was.
		_, err := r.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
		if v := b.version(c); v != 2 || fail != 4 {
			t.Errorf("version %d after %d tries, want 2 after 4", v, fail)
		}
		if n := b.refreshes(); n != 1 {
			t.Errorf("%d refreshes, want 1: the old token must not be sent again", n)
		}
		now, err := r.Resolve(t.Context(), alice, "tickets", []string{"tickets:read"})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := r.get(now); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		_, err = r.Resolve(t.Context(), alice, "tickets", []string{"tickets:write"})
		wantCode(t, err, connector.CodeScopeRequired)
	})
}

// fencedRefresh runs a refresh of which the answer arrives after meanwhile.
func (b *bench) fencedRefresh(c connector.Connection, meanwhile func()) error {
	var once sync.Once
	late := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
		if x.Form.Get("grant_type") != "refresh_token" {
			return send()
		}
		resp, err := send()
		once.Do(meanwhile)
		return resp, err
	}))
	_, err := late.Authorize(b.t.Context(), c, 0)
	return err
}

// takeover makes another replica believe that the holder is dead.
func (b *bench) takeover(c connector.Connection) {
	b.exec(`UPDATE cred_tokens SET lease_exp = 1000`)
	if _, err := b.replica().Authorize(b.t.Context(), c, 0); err != nil {
		b.t.Errorf("the one who took over: %v", err)
	}
}

// Guarantee: CRE6 (C09: both succeed; the older pair must not be saved last)
func TestLatePairDoesNotReplaceTheWinner(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{GraceMS: 60_000}})
		b.expire(c)
		if err := b.fencedRefresh(c, func() { b.takeover(c) }); err != nil {
			t.Errorf("the loser: %v", err)
		}
		if v := b.version(c); v != 2 {
			t.Errorf("version = %d, want 2", v)
		}
		if n := b.number(`SELECT count(*) FROM cred_attempts WHERE outcome = 'fenced'`); n != 1 {
			t.Errorf("%d fenced attempts, want 1", n)
		}
		if stats := b.org.OAuthStats(); stats.RevocationRequests != 0 || stats.FamiliesAlive != 1 {
			t.Errorf("stats = %+v, want the grant alive and nothing revoked", stats)
		}
		for range 2 {
			b.expire(c)
			if status, err := r.get(c); status != http.StatusOK {
				t.Errorf("read = %d, %v", status, err)
			}
		}
	})
}

// Guarantee: CRE6 (C08: the loser is refused; the winner's tokens stay)
func TestLateRefusalDoesNotEndTheConnection(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.expire(c)
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{
			Match:  sandbox.Match{Path: "/oauth/token", Grant: "refresh_token", Nth: []int{1}},
			Effect: sandbox.Effect{Kind: "status", Status: 400, Body: `{"error":"invalid_grant"}`},
		}}})
		if err := b.fencedRefresh(c, func() { b.takeover(c) }); err != nil {
			t.Errorf("the loser: %v, want it to adopt the winner's token", err)
		}
		b.wantStatus(c, StatusActive, "")
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}

// A sign-in that completes during a refresh wins, whatever the refresh got.
func TestReconnectFencesARunningRefresh(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.expire(c)
		err := b.fencedRefresh(c, func() {
			if again := r.connect(alice, "alice"); again.ID != c.ID {
				t.Errorf("connecting again made %s, want %s renewed", again.ID, c.ID)
			}
		})
		wantCode(t, err, connector.CodeConnectionRequired) // resolved before the sign-in
		now, err := r.Resolve(t.Context(), alice, "tickets", nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := b.version(c); v != 2 {
			t.Errorf("version = %d, want 2", v)
		}
		if status, err := r.get(now); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}

// C02: a holder that was held up after its claim does not send any more.
func TestHolderThatWasPausedDoesNotSend(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		held, err := r.claim(t.Context(), row, steady())
		if err != nil || held == nil {
			t.Fatalf("claim = %v, %v", held, err)
		}
		held.started = held.started.Add(-r.cfg.Lease) // as if it had been suspended
		p := r.providers["tickets"]
		done, err := r.spend(t.Context(), p, held, false)
		if done || err != nil {
			t.Errorf("spend = %v, %v; want to look again", done, err)
		}
		if n := b.refreshes(); n != 0 {
			t.Errorf("%d refreshes, want none", n)
		}
		if n := b.number(`SELECT count(*) FROM cred_tokens WHERE phase = 'idle' AND unknown_count = 0`); n != 1 {
			t.Error("the claim was not given back as unused")
		}
	})
}

// C44: no transaction is open while the provider is asked.
func TestDatabaseIsFreeDuringTheExchange(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		written := false
		r := b.replica(around(func(ctx context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if x.Form.Get("grant_type") == "refresh_token" {
				// On SQLite this blocks for as long as anybody else writes, and
				// on PostgreSQL for as long as the row is locked.
				b.exec(`UPDATE cred_tokens SET last_code = 'free'`)
				b.exec(`UPDATE cred_connections SET updated_at = updated_at`)
				written = true
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK || !written {
			t.Errorf("read = %d, %v; written during the exchange: %v", status, err, written)
		}
	})
}

// T30 and C33: a token whose time is over is not sent in the hope of an answer,
// and the time is counted from our request, not read from the token.
func TestExpiredTokenIsNeverSent(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 503}))
		b.exec(`UPDATE cred_tokens SET access_exp = 1000`) // the provider would still take it
		before := b.org.Hits("GET /api/v1/me")
		_, err := r.get(c)
		wantCode(t, err, connector.CodeUnavailable)
		if n := b.org.Hits("GET /api/v1/me"); n != before {
			t.Errorf("%d reads were sent, want none", n-before)
		}
	})
}

// C33: our clock decides by the lifetime that was answered, less the time on the way.
func TestExpiryCountsFromBeforeTheRequest(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		before := time.Now()
		c := r.connect(alice, "alice")
		v, err := r.Show(t.Context(), alice, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		life := 10 * time.Minute
		if at := v.AccessExpiresAt; at.Before(before.Add(life-time.Second)) || at.After(time.Now().Add(life)) {
			t.Errorf("expires at %v, want 10 minutes after the request", at)
		}
	})
}

// Inside the margin a call does not wait: it uses the token and starts a renewal.
func TestEarlyRenewalRunsInTheBackground(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		started, proceed := make(chan struct{}), make(chan struct{})
		r := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if x.Form.Get("grant_type") == "refresh_token" {
				close(started)
				<-proceed
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		b.exec(`UPDATE cred_tokens SET issued_at = ?, access_exp = ?`, time.Now().Add(-10*time.Minute).UnixMilli(), time.Now().Add(40*time.Second).UnixMilli())
		got, err := r.Authorize(t.Context(), c, 0)
		if err != nil || got.Version() != 1 {
			t.Errorf("authorize = %v, %v; want version 1 at once", got, err)
		}
		select {
		case <-started:
		case <-time.After(30 * time.Second):
			t.Fatal("no renewal started")
		}
		row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		running := r.flight(t.Context(), row, false) // joins it
		close(proceed)
		if result := <-running; result.Err != nil {
			t.Error(result.Err)
		}
		if v := b.version(c); v != 2 {
			t.Errorf("version = %d, want 2", v)
		}
	})
}

// steady is the watch of a flight whose database has long been there.
func steady() *watch {
	return &watch{since: time.Now().Add(-time.Hour), last: time.Now()}
}

// C02, C09: a lease that is just over is left to its holder for as long again.
func TestDeadLeaseIsLeftForALateCommit(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			over time.Duration
			want bool
		}{{-time.Minute, false}, {time.Millisecond, false}, {time.Hour, true}} {
			b.exec(`UPDATE cred_tokens SET phase = 'claimed', lease_exp = ?`, time.Now().Add(-test.over).UnixMilli())
			got, err := r.claim(t.Context(), row, steady())
			if err != nil || (got != nil) != test.want {
				t.Errorf("lease over for %v: claim = %v, %v; want one: %v", test.over, got, err, test.want)
			}
		}
	})
}

// Guarantee: CRE6 (C07): a restart in the middle of an exchange costs no grant.
func TestCloseWaitsForAnExchangeUnderWay(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		sent, answer := make(chan struct{}), make(chan struct{})
		r := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if x.Form.Get("grant_type") == "refresh_token" {
				close(sent)
				<-answer
			}
			return send()
		}))
		c := r.connect(alice, "alice")
		b.expire(c)
		r.flight(t.Context(), &record{key: recordKey{c.Tenant, c.ID}, principal: c.Principal, version: 1}, false)
		<-sent
		closed := make(chan struct{})
		go func() { defer close(closed); r.Service.Close() }()
		<-r.base.Done()
		close(answer)
		<-closed
		if v := b.version(c); v != 2 {
			t.Errorf("version = %d after Close, want the renewed 2", v)
		}
		if status, err := b.replica().get(c); status != http.StatusOK {
			t.Errorf("read after the restart = %d, %v", status, err)
		}
	})
}
