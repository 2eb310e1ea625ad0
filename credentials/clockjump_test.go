package credentials

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// jump puts the clock that every process goes by forward, or back: the same as moving
// all that was stored by it the other way.
func (b *bench) jump(by time.Duration) {
	b.t.Helper()
	ms := -by.Milliseconds()
	b.exec(`UPDATE cred_tokens SET issued_at = issued_at + ?, access_exp = access_exp + ?,
		lease_exp = CASE WHEN lease_exp = 0 THEN 0 ELSE lease_exp + ? END, next_attempt_at = CASE WHEN next_attempt_at = 0 THEN 0 ELSE next_attempt_at + ? END`,
		ms, ms, ms, ms)
}

// Guarantee: CRE6 (threat T20): a clock that jumps costs a renewal or a wait, never a
// grant.
func TestT20ClockJumpsForward(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r, other := b.replica(), b.replica()
		c := r.connect(alice, "alice")
		// Nothing is under way: the token looks old, and is renewed once for both.
		b.jump(2 * time.Hour)
		for _, one := range []*replica{r, other} {
			if status, err := one.get(c); status != http.StatusOK {
				t.Errorf("read = %d, %v", status, err)
			}
		}
		if n, v := b.refreshes(), b.version(c); n != 1 || v != 2 {
			t.Errorf("%d refreshes to version %d, want 1 to 2", n, v)
		}
		// While the provider answers: the lease is over, nobody was first, and the pair
		// is kept.
		b.expire(c)
		if err := b.fencedRefresh(c, func() { b.jump(time.Minute) }); err != nil {
			t.Errorf("the holder: %v", err)
		}
		if n, v := b.refreshes(), b.version(c); n != 2 || v != 3 {
			t.Errorf("%d refreshes to version %d, want 2 to 3", n, v)
		}
		b.wantStatus(c, StatusActive, "")
		if fenced := b.number(`SELECT count(*) FROM cred_attempts WHERE outcome <> 'granted'`); fenced != 0 {
			t.Errorf("%d attempts came to nothing", fenced)
		}
	})
}

// Guarantee: CRE6 (threat T20)
func TestT20ClockJumpsBetweenClaimAndSend(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		claim := func() *claim {
			t.Helper()
			row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
			if err != nil {
				t.Fatal(err)
			}
			held, err := r.claim(t.Context(), row, steady())
			if err != nil || held == nil {
				t.Fatalf("claim = %v, %v", held, err)
			}
			return held
		}
		// Without its monotonic part a time is the wall clock's alone.
		held := claim()
		held.started = held.started.Round(0).Add(-r.cfg.Lease)
		if done, err := r.spend(t.Context(), r.providers["tickets"], held, false); done || err != nil || b.refreshes() != 0 {
			t.Errorf("forward: spend = %v, %v after %d refreshes; want to look again after none", done, err, b.refreshes())
		}
		held = claim()
		held.started = held.started.Round(0).Add(time.Hour)
		if done, err := r.spend(t.Context(), r.providers["tickets"], held, false); !done || err != nil || b.refreshes() != 1 || b.version(c) != 2 {
			t.Errorf("back: spend = %v, %v after %d refreshes", done, err, b.refreshes())
		}
	})
}

// Guarantee: CRE6 (threat T20)
func TestT20ClockJumpsBack(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		// The token seems to live longer than it does; the provider's refusal counts.
		b.jump(-2 * time.Hour)
		if status, err := r.get(c); status != http.StatusOK || b.refreshes() != 0 {
			t.Errorf("read = %d, %v after %d refreshes", status, err, b.refreshes())
		}
		b.org.ExpireAccessTokens()
		if status, err := r.get(c); status != http.StatusOK || b.refreshes() != 1 {
			t.Errorf("after a refusal: read = %d, %v after %d refreshes, want 1", status, err, b.refreshes())
		}
		// A holder died with its claim. Its lease lasts longer by the jump; nobody
		// sends the same refresh token meanwhile.
		row, err := r.read(t.Context(), recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			t.Fatal(err)
		}
		if held, err := r.claim(t.Context(), row, steady()); err != nil || held == nil {
			t.Fatalf("claim = %v, %v", held, err)
		}
		b.expire(c)
		b.jump(-time.Hour)
		b.exec(`UPDATE cred_tokens SET access_exp = 1000`)
		for range 3 {
			if held, err := r.claim(t.Context(), row, steady()); held != nil || err != nil {
				t.Fatalf("a lease to come was taken: %v", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := b.replica().Authorize(ctx, c, 0); err == nil {
			t.Error("an expired token was given out")
		}
		if n := b.refreshes(); n != 1 {
			t.Errorf("%d refreshes, want 1", n)
		}
		// The clock is put right: the claim is replayed, once.
		b.jump(time.Hour + 3*r.cfg.Lease)
		held, err := r.claim(t.Context(), row, steady())
		if err != nil || held == nil || held.unknowns != 1 {
			t.Fatalf("after the lease: claim = %+v, %v", held, err)
		}
		if done, err := r.spend(t.Context(), r.providers["tickets"], held, false); !done || err != nil || b.refreshes() != 2 {
			t.Errorf("spend = %v, %v after %d refreshes", done, err, b.refreshes())
		}
		if _, err := b.replica().Authorize(t.Context(), c, 0); err != nil && connector.CodeOf(err) != connector.CodeConnectionRequired {
			t.Errorf("in the end: %v", err)
		}
		b.wantStatus(c, StatusActive, "")
	})
}
