package credentials

import (
	"context"
	"sync"
	"time"
)

// tripAfter is how many connections of one client must fail, one after the
// other and with no answer of worth in between, until the server is no longer
// asked for the rest. One connection alone may be what the server stumbles over.
const tripAfter = 3

// circuits stand before renewals, one per client registration: thousands of
// connections must not each find out for themselves that the server is down or
// that our secret was replaced. They are of this process and forget nothing
// durable: what is refused here is UNAVAILABLE and leaves a connection as it is.
// Sign-ins pass, because a person waits; one that succeeds closes the circuit.
type circuits struct {
	mu   sync.Mutex
	bad  map[clientKey]*circuit
	base func(fails int64) time.Duration
}

type clientKey struct{ issuer, client string }

type circuit struct {
	failed  map[recordKey]bool
	until   time.Time // zero: closed still
	opened  int64
	probing bool
}

// enter lets a renewal pass, or tells how long none will. After the wait one
// passes as a probe, which leave ends.
func (cs *circuits) enter(k clientKey) (wait time.Duration, probe bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.bad[k]
	if c == nil || c.until.IsZero() {
		return 0, false
	}
	if left := time.Until(c.until); left > 0 {
		return left, false
	}
	if c.probing {
		return cs.base(0), false
	}
	c.probing = true
	return 0, true
}

func (cs *circuits) leave(k clientKey, probe bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.bad[k]; c != nil && probe {
		c.probing = false
	}
}

// report takes a renewal's answer. It tells whether the circuit is open now.
func (cs *circuits) report(k clientKey, of recordKey, a answer) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	ours := a.class == classMisconfigured && (a.code == "" || a.code == "invalid_client" || a.code == "unauthorized_client")
	if !ours && a.class != classNotSent && a.class != classUnknown {
		delete(cs.bad, k) // it answers, whatever it says
		return false
	}
	c := cs.bad[k]
	if c == nil {
		c = &circuit{failed: make(map[recordKey]bool)}
		cs.bad[k] = c
	}
	if c.until.IsZero() {
		if c.failed[of] = true; len(c.failed) < tripAfter {
			return false
		}
	}
	wait := cs.base(c.opened)
	if ours {
		wait = misconfiguredWait
	}
	c.until = time.Now().Add(wait)
	c.opened++
	c.failed = nil
	return true
}

// close is what a sign-in that succeeded says about the server.
func (cs *circuits) close(k clientKey) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.bad, k)
}

func (p *Provider) key() clientKey { return clientKey{p.Issuer, p.ClientID} }

func (s *Service) reportRenewal(ctx context.Context, p *Provider, c *claim, a answer) {
	if s.circuits.report(p.key(), c.key, a) {
		s.log.ErrorContext(ctx, "renewals of this client stop for a while", "provider", p.ID, "class", a.class, "code", a.code, "status", a.status)
	}
}
