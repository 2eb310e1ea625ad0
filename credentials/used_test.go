package credentials

import (
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestLastUseIsWrittenOnceAnHour(t *testing.T) {
	each(t, func(b *bench) {
		one, two := b.replica(), b.replica()
		c := one.connect(alice, "alice")
		view := func() View {
			t.Helper()
			v, err := one.Show(t.Context(), alice, c.ID)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		request := func(r *replica) {
			t.Helper()
			if _, err := r.Authorize(t.Context(), c, 0); err != nil {
				t.Fatal(err)
			}
		}
		write := func(r *replica) {
			t.Helper()
			if err := r.NoteUses(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		set := func(at time.Time) {
			t.Helper()
			b.exec(`UPDATE cred_connections SET last_used_at = ? WHERE id = ?`, millis(at), string(c.ID))
		}
		if at := view().LastUsedAt; !at.IsZero() {
			t.Errorf("a connection that was only made was used at %s", at)
		}
		request(one)
		if b.number(`SELECT last_used_at FROM cred_connections WHERE id = ?`, string(c.ID)) != 0 {
			t.Error("a request wrote to the database")
		}
		updated := view().UpdatedAt
		write(one)
		first := view().LastUsedAt
		now, err := b.db.Now(t.Context())
		if err != nil || first.IsZero() || now.Sub(first) > time.Minute || first.After(now) {
			t.Fatalf("last used at %s, now is %s (%v)", first, now, err)
		}
		if v := view(); !v.UpdatedAt.Equal(updated) || v.Connection.AuthzVersion != c.AuthzVersion {
			t.Error("a use counts as a change")
		}
		// The same hour: neither this process nor another one writes again.
		set(first.Add(-time.Minute))
		request(one)
		write(one)
		request(two)
		write(two)
		if got := view().LastUsedAt; !got.Equal(first.Add(-time.Minute)) {
			t.Errorf("within the hour it was written again: %s", got)
		}
		// An hour later; and a clock that had been ahead.
		three := b.replica()
		for name, stored := range map[string]time.Time{"an hour later": first.Add(-time.Hour - time.Minute), "from the future": first.Add(48 * time.Hour)} {
			set(stored)
			three.uses = map[recordKey]use{}
			request(three)
			write(three)
			if got := view().LastUsedAt; got.Sub(first) < 0 || got.Sub(first) > time.Hour {
				t.Errorf("%s: last used %s, want about %s", name, got, first)
			}
		}
		// Close writes what is left, and another tenant's is not touched by any of it.
		set(time.UnixMilli(0))
		four := b.replica()
		request(four)
		four.Close()
		if b.number(`SELECT last_used_at FROM cred_connections WHERE id = ?`, string(c.ID)) == 0 {
			t.Error("Close lost a use")
		}
	})
}

func TestUsesAreBounded(t *testing.T) {
	t.Parallel()
	s := &Service{uses: map[recordKey]use{}}
	at := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	for n := range maxUses + 10 {
		s.noteUse(recordKey{"acme", connector.ConnectionID(strings.Repeat("x", n%7) + time.Duration(n).String())}, at)
	}
	if len(s.uses) > maxUses {
		t.Errorf("%d uses are remembered, want %d at most", len(s.uses), maxUses)
	}
	for key, u := range s.uses {
		s.uses[key] = use{at: u.at}
	}
	if left := s.pendingUses(at.Add(useEvery)); len(left) != 0 || len(s.uses) != 0 {
		t.Errorf("after an hour %d are pending and %d remembered", len(left), len(s.uses))
	}
}
