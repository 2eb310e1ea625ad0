package operations

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// canaries fills everything that may carry content.
func canaries(t *testing.T, b *bench) connector.OperationRecord {
	t.Helper()
	p := proposal(acme, "step-1", "CANARY-title")
	p.ArgsDigest = "args" // a real digest says nothing about the title
	p.Digest = "payload"
	p.Account.Login, p.Account.Organisation = "CANARY-login", "CANARY-organisation"
	p.Request.Path, p.Request.Summary = "/CANARY-path", "CANARY-summary"
	p.Request.Query.Set("q", "CANARY-query")
	p.Request.Notes = []string{"CANARY-note"}
	rec := b.propose(p)
	b.approve(rec)
	c := b.dispatch(rec)
	return b.finish(c, connector.Outcome{State: connector.StateApplied, Receipt: []byte("CANARY-receipt"), Output: []byte("CANARY-output")})
}

func TestDatabaseFileHoldsNoContent(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	rec := canaries(t, b)
	dir := filepath.Dir(strings.TrimPrefix(b.d.URL, "sqlite:"))
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(raw, []byte("CANARY")); i >= 0 {
			t.Errorf("%s holds %q", f.Name(), raw[i:min(i+20, len(raw))])
		}
		seen = seen || bytes.Contains(raw, []byte(rec.ID))
	}
	if !seen {
		t.Error("the operation's id isn't in any file, so this test looked at the wrong ones")
	}
}

// moveColumn copies one sealed column to another row or column.
func (b *bench) moveColumn(fromID, toID connector.OperationID, from, to string) {
	b.t.Helper()
	ctx := b.t.Context()
	err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		n, err := tx.Exec(ctx, fmt.Sprintf("UPDATE operation SET %s = (SELECT %s FROM operation WHERE id = ?) WHERE id = ?", to, from), fromID, toID)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows changed", n)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestSealedColumnOpensOnlyInItsPlace(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		for _, column := range []string{"plan", "arguments", "receipt", "output"} {
			victim, donor := b.dispatched("victim "+column), b.dispatched("donor "+column)
			for _, c := range []connector.Claim{victim, donor} {
				b.finish(c, connector.Outcome{State: connector.StateApplied, Receipt: []byte("r"), Output: []byte("o")})
			}
			b.moveColumn(donor.ID, victim.ID, column, column)
			_, err := b.Get(t.Context(), acme, victim.ID)
			fails(t, err, connector.CodeInternal)
			b.get(donor.OperationRecord)
		}
		swapped := b.dispatched("swapped")
		b.finish(swapped, connector.Outcome{State: connector.StateApplied, Receipt: []byte("r"), Output: []byte("o")})
		b.moveColumn(swapped.ID, swapped.ID, "receipt", "output")
		_, err := b.Get(t.Context(), acme, swapped.ID)
		fails(t, err, connector.CodeInternal)
	})
}

// Guarantee: TIX4
func TestForeignPlanIsNotDispatched(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		victim := b.propose(proposal(acme, "victim", "a"))
		donor := b.propose(proposal(acme, "donor", "b"))
		b.approve(victim)
		b.moveColumn(donor.ID, victim.ID, "plan", "plan")
		b.refused(victim, 7, connector.CodeInternal)
		b.moveColumn(donor.ID, victim.ID, "state", "reason") // any harmless column: the row itself still works
		var state string
		if err := b.db.QueryRowFor(t.Context(), store.AllTenants(), "SELECT state FROM operation WHERE id = ?", victim.ID).Scan(&state); err != nil || state != "approved" {
			t.Errorf("state = %s (%v), want approved: nothing was dispatched", state, err)
		}
	})
}

// Guarantee: CRE4
func TestResealLetsTheOldKeyGo(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		old := b.ring.Primary()
		rec := canaries(t, b)
		waiting := b.propose(proposal(other, "step-1", "x"))
		id, err := b.ring.Add()
		if err == nil {
			err = b.ring.Promote(id)
		}
		if err != nil {
			t.Fatal(err)
		}
		fresh := b.propose(proposal(acme, "step-2", "y"))
		if used, err := b.SealedBy(t.Context()); err != nil || used[old] == 0 || used[id] == 0 || used[0] != 0 {
			t.Errorf("before resealing: %v, %v", used, err)
		}
		if n, err := b.Reseal(t.Context()); err != nil || n != 2 {
			t.Errorf("resealed %d operations (%v), want 2", n, err)
		}
		if n, err := b.Reseal(t.Context()); err != nil || n != 0 {
			t.Errorf("resealed %d operations (%v) the second time, want 0", n, err)
		}
		if used, err := b.SealedBy(t.Context()); err != nil || used[old] != 0 || used[id] == 0 {
			t.Errorf("after resealing: %v, %v", used, err)
		}
		if err := b.ring.Disable(old); err != nil {
			t.Fatal(err)
		}
		if got := b.get(rec); string(got.Receipt) != "CANARY-receipt" || string(got.Output) != "CANARY-output" || got.Request.Path != "/CANARY-path" {
			t.Errorf("after resealing: %+v", got)
		}
		b.get(waiting)
		b.get(fresh)
	})
}

// Guarantee: CRE4
func TestMissingKeyIsUnavailableNotDamage(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	rec := b.propose(proposal(acme, "step-1", "x"))
	b.ring = newRing(t)
	_, err := b.replica().Get(t.Context(), acme, rec.ID)
	fails(t, err, connector.CodeUnavailable)
	_, err = b.replica().Propose(t.Context(), proposal(acme, "step-2", "x"))
	if err != nil {
		t.Errorf("a process with its own key can't propose: %v", err)
	}
	l, err := New(Config{DB: b.db, Keys: new(keys.Ring)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Propose(t.Context(), proposal(acme, "step-3", "x"))
	fails(t, err, connector.CodeUnavailable)
}
