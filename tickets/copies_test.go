package tickets_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// shelf is stored copies by id, and what was asked of them.
type shelf struct {
	mu     sync.Mutex
	copies map[string]tickets.Ticket
	state  *connector.CopyState
	asked  []string
	under  connector.Connection
	ages   []time.Duration
}

var shelved = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (s *shelf) Copy(_ context.Context, c connector.Connection, id string, maxAge time.Duration) (tickets.Ticket, time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.ages, s.under = append(s.asked, id), append(s.ages, maxAge), c
	t, ok := s.copies[id]
	return t, shelved, ok
}

func (s *shelf) State(context.Context, connector.Connection) (connector.CopyState, bool) {
	if s.state == nil {
		return connector.CopyState{}, false
	}
	return *s.state, true
}

// A copy is taken only where a caller asked for one, is held to the grant like an
// answer of the provider, and is returned as it was stored. No write looks at it.
// Guarantee: TIX8
func TestCopiesAreOnlyForCallersWhoTakeThem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := &shelf{copies: map[string]tickets.Ticket{}, state: &connector.CopyState{State: connector.CopiesPartial, Reasons: []string{"backlog"}}}
	d.mount(tickets.NewWithCopies(timed{settle: time.Second}, s), 0)
	alice := d.connect("alice", "web", "orders")
	_, found := alice.search(search{Query: "order", State: "all"})
	if len(found) == 0 {
		t.Fatal("nothing to read")
	}
	one := found[0]
	kept := one
	kept.Body, kept.Truncated, kept.Removed = "as it was stored", true, 2
	get := func(maxAge any) connector.Result {
		t.Helper()
		return alice.call("tickets.get", map[string]any{"id": one.ID, "max_age_seconds": maxAge})
	}
	answered := func(what string, r connector.Result, copied bool) {
		t.Helper()
		alice.expect(what, r, connector.StatusSuccess, 0, connector.DispositionNone)
		if got := r.Provenance.Source == connector.SourceCopy; got != copied || copied != (len(r.Attempts) == 0) {
			t.Errorf("%s: from a copy: %v, want %v; %d attempts", what, got, copied, len(r.Attempts))
		}
	}
	answered("no copy", get(60), false)
	s.copies[one.ID] = kept
	for name, r := range map[string]connector.Result{"0": get(0), "left out": alice.call("tickets.get", map[string]any{"id": one.ID})} {
		answered(name, r, false)
	}
	if len(s.asked) != 1 {
		t.Errorf("the copies were asked %d times", len(s.asked))
	}
	r := get(60)
	answered("a copy", r, true)
	if diff := cmp.Diff(kept, ticketOf(t, r), cmp.AllowUnexported(tickets.Optional[string]{}, tickets.Optional[bool]{})); diff != "" {
		t.Errorf("the copy (-stored +returned):\n%s", diff)
	}
	if p := r.Provenance; !r.Truncated || !p.FetchedAt.Equal(shelved) || p.ObjectVersions[one.ID] != one.Version || !cmp.Equal(p.Copies, s.state) {
		t.Errorf("truncated %v, provenance %+v", r.Truncated, p)
	}
	if s.under.ID != alice.connection.ID || s.under.AuthzVersion != alice.connection.AuthzVersion || s.ages[len(s.ages)-1] != time.Minute {
		t.Errorf("asked for %+v, %v", s.under, s.ages)
	}

	other := kept
	other.Project = "security"
	s.copies[one.ID] = other
	answered("a copy outside the grant", get(60), false)
	other = kept
	other.ID = "another"
	s.copies[one.ID] = other
	answered("a copy of another ticket", get(60), false)

	s.state = nil
	if r, _ := alice.search(search{Query: "order", State: "all"}); r.Provenance.Copies != nil {
		t.Errorf("copies that nobody knows of: %+v", r.Provenance.Copies)
	}

	// A write is read back at the provider.
	before := len(s.asked)
	made := alice.create(titled(t))
	alice.expect("a write", made, connector.StatusSuccess, 0, connector.DispositionApplied)
	if _, err := tickets.Fetch(t.Context(), alice.runtime, alice.caller, one.ID); err != nil {
		t.Error(err)
	}
	if len(s.asked) != before {
		t.Errorf("copies were asked for %v", s.asked[before:])
	}
}
