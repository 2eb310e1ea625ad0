package credentials

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// Guarantee: CRE7 (threat T15): what was not granted twice within an hour is not
// asked for a third time, by anybody and on any way; everything else still is.
func TestStepUpHasALimit(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r, other := b.replica(b.terminal), b.replica(b.terminal)
		c := r.connect(alice, "alice")
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{DenyScopes: map[string][]string{"alice": {"tickets:write"}}}})
		more := BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey, Connection: c.ID, Scopes: []string{"tickets:write"}}
		for range maxStepUps {
			begun, err := r.Begin(t.Context(), alice, more)
			if err != nil {
				t.Fatal(err)
			}
			if c, err = r.Finish(t.Context(), alice, browserKey, b.visit(begun, "alice", true), r.identify); err != nil {
				t.Fatal(err)
			}
			caller := alice
			caller.Connection = c.ID
			_, err = r.Resolve(t.Context(), caller, "tickets", more.Scopes)
			wantCode(t, err, connector.CodeScopeRequired)
		}
		_, err := other.Begin(t.Context(), alice, more)
		e := wantCode(t, err, connector.CodeRateLimited)
		if diff := cmp.Diff(more.Scopes, e.Scopes); diff != "" || e.RetryAfter < 50*time.Minute || e.RetryAfter > time.Hour {
			t.Errorf("refusal = %+v", e)
		}
		_, err = other.BeginDevice(t.Context(), alice, DeviceRequest{Provider: "tickets", Connection: c.ID, Scopes: more.Scopes})
		wantCode(t, err, connector.CodeRateLimited)
		// A reconnect asks for no more than before, and is no step up.
		for range 3 {
			r.connect(alice, "alice", func(q *BeginRequest) { q.Connection = c.ID })
		}
		b.exec(`UPDATE cred_transactions SET created_at = created_at - 3600000`)
		if _, err := r.Begin(t.Context(), alice, more); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

func TestStepUpsThatAreLeftAlone(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r, other := b.replica(), b.replica()
		c := r.connect(alice, "alice")
		more := BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey, Connection: c.ID, Scopes: []string{"tickets:write"}}
		var all sync.WaitGroup
		var mu sync.Mutex
		begun := 0
		for i := range 4 { // fewer than slots
			all.Go(func() {
				_, err := []*replica{r, other}[i%2].Begin(t.Context(), alice, more)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					begun++
				} else if connector.CodeOf(err) != connector.CodeRateLimited {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if begun != maxStepUps {
			t.Errorf("%d at once were let through, want %d", begun, maxStepUps)
		}
		b.exec(`UPDATE cred_transactions SET expires_at = 1000 WHERE status = 'open'`)
		r.connect(alice, "alice", func(q *BeginRequest) { q.Connection, q.Scopes = c.ID, more.Scopes })
	})
}
