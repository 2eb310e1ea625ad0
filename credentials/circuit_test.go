package credentials

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// several connects that many principals, all of whom are expired then.
func (r *replica) several(n int) []connector.Connection {
	var out []connector.Connection
	for i := range n {
		out = append(out, r.connect(connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(fmt.Sprintf("p%d", i))}, "alice"))
	}
	r.b.exec(`UPDATE cred_tokens SET access_exp = 1000`)
	return out
}

func (r *replica) waited() {
	r.circuits.mu.Lock()
	defer r.circuits.mu.Unlock()
	for _, c := range r.circuits.bad {
		c.until = time.Now()
	}
}

// C40, C20 (threat T17): a server that is down, or does not know this client any
// more, is asked a few times and not once per connection; nobody has to reconnect.
func TestCircuitOfAClient(t *testing.T) {
	for name, effect := range map[string]sandbox.Effect{
		"down":          {Kind: "status", Status: 503},
		"secret turned": {Kind: "status", Status: 401, ContentType: "application/json", Body: `{"error":"invalid_client"}`},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(b *bench) {
				t := b.t
				var mu sync.Mutex
				var hold chan struct{}
				r := b.replica(around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
					mu.Lock()
					wait := hold
					mu.Unlock()
					if wait != nil && x.Form.Get("grant_type") == "refresh_token" {
						<-wait
					}
					return send()
				}))
				all := r.several(20)
				b.behave(onRefresh(effect))
				asked := func() int64 { return int64(b.org.RouteHits()["POST /oauth/token"]) }
				before := asked()
				for _, c := range all {
					_, err := r.Authorize(t.Context(), c, 0)
					if e := wantCode(t, err, connector.CodeUnavailable); e.RetryAfter <= 0 {
						t.Errorf("refused without a time to wait: %v", e)
					}
				}
				if n := asked() - before; n != tripAfter {
					t.Errorf("the server was asked %d times for %d connections, want %d", n, len(all), tripAfter)
				}
				if n := b.number(`SELECT count(*) FROM cred_connections WHERE status = 'reconnect_required'`); n != 0 {
					t.Errorf("%d connections must be made again", n)
				}
				if n := b.number(`SELECT count(*) FROM cred_attempts`); n != tripAfter {
					t.Errorf("%d claims, want none for what was not sent", n)
				}
				// The wait is over and the server still bad: one probe, and closed again.
				r.waited()
				for _, c := range all[tripAfter:] {
					_, err := r.Authorize(t.Context(), c, 0)
					wantCode(t, err, connector.CodeUnavailable)
				}
				if n := asked() - before; n != tripAfter+1 {
					t.Errorf("%d probes, want 1", n-tripAfter)
				}
				// Healthy: while the probe is under way nobody else goes.
				b.behave(sandbox.Behaviour{})
				r.waited()
				b.exec(`UPDATE cred_tokens SET next_attempt_at = 0`)
				mu.Lock()
				hold = make(chan struct{})
				mu.Unlock()
				probe := make(chan error)
				go func() { _, err := r.Authorize(t.Context(), all[10], 0); probe <- err }()
				for b.number(`SELECT count(*) FROM cred_tokens WHERE phase = 'claimed'`) == 0 {
					pause(t.Context(), time.Millisecond)
				}
				_, err := r.Authorize(t.Context(), all[11], 0)
				wantCode(t, err, connector.CodeUnavailable)
				mu.Lock()
				close(hold)
				hold = nil
				mu.Unlock()
				if err := <-probe; err != nil {
					t.Errorf("probe: %v", err)
				}
				for i, c := range all {
					if status, err := r.get(c); status != http.StatusOK {
						t.Errorf("connection %d after the probe: %d, %v", i, status, err)
					}
				}
			})
		})
	}
}

// A connection that the server stumbles over does not stop the others, and a
// sign-in passes and closes.
func TestCircuitIsNotOneConnections(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		all := r.several(5)
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 500}))
		for range 2 * tripAfter {
			_, err := r.Authorize(t.Context(), all[0], 0)
			wantCode(t, err, connector.CodeUnavailable)
			b.exec(`UPDATE cred_tokens SET next_attempt_at = 0`)
		}
		b.behave(sandbox.Behaviour{})
		if status, err := r.get(all[1]); status != http.StatusOK {
			t.Errorf("another connection: %d, %v", status, err)
		}
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 500}))
		for _, c := range []connector.Connection{all[0], all[2], all[3]} {
			_, err := r.Authorize(t.Context(), c, 0)
			wantCode(t, err, connector.CodeUnavailable)
		}
		b.behave(sandbox.Behaviour{})
		_, err := r.Authorize(t.Context(), all[4], 0)
		wantCode(t, err, connector.CodeUnavailable)
		r.connect(bob, "bob")
		if status, err := r.get(all[4]); status != http.StatusOK {
			t.Errorf("after a sign-in: %d, %v", status, err)
		}
	})
}
