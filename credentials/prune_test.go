package credentials

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// rows counts each table.
func (b *bench) rows() map[string]int64 {
	out := make(map[string]int64)
	for _, table := range []string{"connections", "tokens", "transactions", "attempts", "revocations"} {
		out[table] = b.number(`SELECT count(*) FROM cred_` + table)
	}
	return out
}

// age makes everything that is stored older.
func (b *bench) age(d time.Duration) {
	ms := d.Milliseconds()
	b.exec(`UPDATE cred_connections SET updated_at = updated_at - ?`, ms)
	b.exec(`UPDATE cred_transactions SET created_at = created_at - ?`, ms)
	b.exec(`UPDATE cred_attempts SET started_at = started_at - ?`, ms)
	b.exec(`UPDATE cred_revocations SET updated_at = updated_at - ?`, ms)
}

func (r *replica) prune(want int) {
	r.b.t.Helper()
	if n, err := r.Prune(r.b.t.Context()); n != want || err != nil {
		r.b.t.Errorf("pruned %d rows, %v, want %d", n, err, want)
	}
}

// What is over goes after its time and not before; what lives stays, however old.
func TestPrune(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.terminal, func(c *Config) { c.Keep = 48 * time.Hour })
		alive := r.connect(alice, "alice")
		b.expire(alive)
		if _, err := r.get(alive); err != nil {
			t.Fatal(err)
		}
		gone := r.connect(bob, "bob")
		if _, err := r.Disconnect(t.Context(), bob, gone.ID, ""); err != nil {
			t.Fatal(err)
		}
		dead := r.connect(carol, "carol")
		b.org.RevokeUser("carol")
		b.expire(dead)
		_, err := r.get(dead)
		wantCode(t, err, connector.CodeConnectionRequired)
		left, device := r.begin(alice), r.beginDevice(alice)

		r.prune(0)
		b.exec(`UPDATE cred_transactions SET expires_at = 1000 WHERE status = 'open'`)
		r.prune(2) // the secrets of the two that expired, at once
		for _, id := range []string{left.Transaction, device.Transaction} {
			if n := b.number(`SELECT count(*) FROM cred_transactions WHERE id = ? AND status = 'expired' AND verifier IS NULL`, id); n != 1 {
				t.Errorf("sign-in %s still has its secret", id)
			}
		}
		before := b.rows()
		b.age(47 * time.Hour)
		r.prune(0)
		if diff := cmp.Diff(before, b.rows()); diff != "" {
			t.Errorf("before its time (-want +got):\n%s", diff)
		}
		b.age(2 * time.Hour)
		r.prune(5 + 2 + 2) // sign-ins; renewals; the connection that is gone and the one that is dead
		want := map[string]int64{"connections": 2, "tokens": 2, "transactions": 0, "attempts": 0, "revocations": 2}
		if diff := cmp.Diff(want, b.rows()); diff != "" {
			t.Errorf("afterwards (-want +got):\n%s", diff)
		}
		if n := b.number(`SELECT count(*) FROM cred_tokens WHERE sealed IS NOT NULL`); n != 1 {
			t.Errorf("%d connections have tokens, want the living one", n)
		}
		b.wantStatus(dead, StatusReconnectRequired, ReasonInvalidGrant)
		r.prune(0)
		if status, err := r.get(alive); status != 200 {
			t.Errorf("the living one: %d, %v", status, err)
		}
		_, err = r.Show(t.Context(), bob, gone.ID)
		wantCode(t, err, connector.CodeConnectionRequired)
		if n, err := r.PumpRevocations(t.Context()); n != 2 || err != nil {
			t.Errorf("pumped %d, %v", n, err)
		}
		// The dead one can be made again, and can be ended.
		again := r.connect(carol, "carol", func(q *BeginRequest) { q.Connection = dead.ID })
		if status, err := r.get(again); status != 200 || again.ID != dead.ID {
			t.Errorf("made again: %d, %v", status, err)
		}
	})
}

func TestDisconnectAfterPrune(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		dead := r.connect(alice, "alice")
		b.org.RevokeUser("alice")
		b.expire(dead)
		_, err := r.get(dead)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.age(91 * 24 * time.Hour)
		if _, err := r.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		steps, err := r.Disconnect(t.Context(), alice, dead.ID, "")
		if err != nil || steps.Stopped.State != StepDone || steps.RefreshToken.State != StepDone || steps.AccessToken.State != StepDone || steps.RevokedAtProvider != "yes" {
			t.Errorf("steps = %+v, %v", steps, err)
		}
		if _, err := New(Config{DB: r.db, Keys: b.ring, Exchanger: ExchangerFunc(nil), Keep: time.Hour}); err == nil {
			t.Error("an hour is accepted")
		}
	})
}
