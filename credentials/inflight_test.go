package credentials

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// Guarantee: CRE8 (threat T19, C43): a hundred calls are at the provider when
// their connection ends, the provider can't be reached for revoking, and the
// process that disconnected is gone afterwards. By the provider's own record no
// call takes another network step, and the tokens are dead in the end.
func TestDisconnectDuringAHundredCalls(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		const calls = 100
		one, two := b.replica(), b.replica()
		c, control := one.connect(alice, "alice"), one.connect(bob, "bob")
		// Every read is held, then refused as an expired token is: the next step
		// of each call would be a renewal and the read once more.
		held := func(ms int) sandbox.Behaviour {
			match := sandbox.Match{Path: "/api/v1/me"}
			return sandbox.Behaviour{Rules: []sandbox.Rule{
				{Match: match, Effect: sandbox.Effect{Kind: "delay", DelayMS: ms}},
				{Match: match, Effect: sandbox.Effect{Kind: "status", Status: 401}},
				{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "reset_before"}},
			}}
		}
		hits := func() int64 { return int64(b.org.Hits("GET /api/v1/me")) }
		b.behave(held(1))
		before := hits()
		one.get(control)
		if n := hits() - before; n < 2 {
			t.Fatalf("%d requests of a call that is refused: nothing would be shown", n)
		}
		b.behave(held(1000))
		before = hits()
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range calls {
			all.Go(func() {
				_, err := []*replica{one, two}[i%2].get(c)
				if connector.CodeOf(err) == connector.CodeConnectionRequired {
					refused.Add(1)
				}
			})
		}
		for hits()-before < calls {
			pause(t.Context(), time.Millisecond)
		}
		steps, err := one.Disconnect(t.Context(), alice, c.ID, "")
		last := b.org.Requests()
		seq := last[len(last)-1].Seq
		if err != nil || steps.Stopped.State != StepDone || steps.RefreshToken.State != StepPending || steps.AccessToken.State != StepPending || steps.RevokedAtProvider != "unknown" {
			t.Errorf("steps = %+v, %v", steps, err)
		}
		all.Wait()
		for _, each := range []*replica{one, two} {
			_, err := each.get(c)
			wantCode(t, err, connector.CodeConnectionRequired)
		}
		for _, r := range b.org.Requests() {
			if r.Seq > seq {
				t.Errorf("%s %s started after Disconnect had returned", r.Method, r.Path)
			}
		}
		if refused.Load() != calls {
			t.Errorf("%d of %d calls were told that their connection is gone", refused.Load(), calls)
		}
		one.Close()
		b.exec(`UPDATE cred_revocations SET next_at = 1`)
		if n, err := two.PumpRevocations(t.Context()); n != 2 || err != nil { // still away
			t.Errorf("pumped %d, %v", n, err)
		}
		if s := b.org.OAuthStats(); s.FamiliesAlive != 2 {
			t.Fatalf("%d grants live during the outage, want both", s.FamiliesAlive)
		}
		b.behave(sandbox.Behaviour{})
		b.exec(`UPDATE cred_revocations SET next_at = 1`)
		if n, err := b.replica().PumpRevocations(t.Context()); n != 2 || err != nil {
			t.Errorf("pumped %d, %v", n, err)
		}
		v, err := two.Show(t.Context(), alice, c.ID)
		if err != nil || v.Status != StatusDisconnected || v.Revocation.RevokedAtProvider != "yes" || b.org.OAuthStats().FamiliesAlive != 1 {
			t.Errorf("in the end: %+v, %v", v, err)
		}
	})
}
