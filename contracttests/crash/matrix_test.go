package crash

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// steps are the moments at which the process is killed.
var steps = []struct {
	name string
	die  string // empty: the parent kills while the request is on its way
	rule *sandbox.Effect
}{
	{"before propose", "propose:before", nil},
	{"after propose", "propose:after", nil},
	{"after approve", "approve:after", nil},
	{"dispatching on disk, no byte left", "dispatch:after", nil},
	{"request arrived, commits later", "", &sandbox.Effect{Kind: "delay", DelayMS: 600}},
	{"committed, no answer yet", "", &sandbox.Effect{Kind: "delay", When: "after", DelayMS: 600}},
	{"answer read, nothing recorded", "write:after", nil},
	{"applied recorded, not verified", "finish1:after", nil},
	{"read back, not recorded", "read:after", nil},
	{"verified recorded", "finish2:after", nil},
}

// providers are how a provider helps, or does not, to find a lost write.
var providers = []struct {
	name     string
	switches sandbox.Switches
}{
	{"key honoured", sandbox.Switches{}},
	{"key ignored", sandbox.Switches{NoIdempotency: true}},
	{"only a lookup by reference", sandbox.Switches{NoOperationLookup: true}},
	{"key ignored, reference lags 5 s", sandbox.Switches{NoIdempotency: true, IndexLagMS: 5000}},
	{"reference lags 1.2 s", sandbox.Switches{NoOperationLookup: true, IndexLagMS: 1200}},
}

type cell struct {
	engine, provider, step string
	title                  string
	after                  string // what the restart made of it
	repeat                 string // what the repeated call did
	tickets                int
}

// TestCrashMatrix kills the process at each step of a create, for each kind of
// provider and engine, starts over, and repeats the call.
//
// T01, T02, T04, T09, T10, T12; E4, E5, E8.
// Guarantee: TIX5, TIX6, RUN7, RUN9
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	full := os.Getenv("DRAWBRIDGE_CRASH") == "full"
	var mu sync.Mutex
	var cells []cell
	t.Run("cells", func(t *testing.T) {
		for i, p := range providers {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				column := func(t *testing.T, d storetest.Database) {
					done := matrixColumn(t, d, i, full)
					mu.Lock()
					defer mu.Unlock()
					cells = append(cells, done...)
				}
				if full {
					storetest.Each(t, column)
				} else {
					column(t, storetest.SQLite(t))
				}
			})
		}
	})
	var table strings.Builder
	ends := map[string]int{}
	most := 0
	slices.SortStableFunc(cells, func(a, b cell) int {
		return cmp.Or(cmp.Compare(a.engine, b.engine), cmp.Compare(a.provider, b.provider))
	})
	for _, c := range cells {
		fmt.Fprintf(&table, "%-11s %-27s %-34s %-60s %-28s %d\n", c.engine, c.provider, c.step, c.after, c.repeat, c.tickets)
		state, _, _ := strings.Cut(c.after, ":")
		ends[state]++
		most = max(most, c.tickets)
	}
	t.Logf("\n%-11s %-27s %-34s %-60s %-28s %s\n%s", "engine", "provider", "killed", "after the restart", "the same call again", "tickets", &table)
	if len(cells) == 0 {
		t.Error("no cell was played")
	}
	fmt.Printf("figure: crash_matrix cells %d  most_tickets_per_write %d  applied %d  rejected %d  unresolved %d  never_dispatched %d  failed %v\n",
		len(cells), most, ends["applied"], ends["rejected"], ends["unresolved"], ends["none"]+ends["awaiting_approval"]+ends["approved"], t.Failed())
}

// matrixColumn plays the steps against one provider on one database.
func matrixColumn(t *testing.T, d storetest.Database, provider int, full bool) []cell {
	ctx := t.Context()
	org, err := sandbox.Start(ctx, sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	p := place{Data: t.TempDir(), Database: d.URL, Provider: org.URL(), Lease: 800 * time.Millisecond, GiveUp: 2500 * time.Millisecond}
	h, err := open(ctx, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.connect(ctx, org); err != nil {
		h.close()
		t.Fatal(err)
	}
	h.close() // nobody is at home while the children live and die
	var cells []cell
	for i, s := range steps {
		if !full && (i+provider)%3 != 0 {
			continue
		}
		c := cell{engine: d.Engine.String(), provider: providers[provider].name, step: s.name,
			title: fmt.Sprintf("cell %d", i)}
		b := sandbox.Behaviour{Switches: providers[provider].switches}
		if s.rule != nil {
			b.Rules = []sandbox.Rule{{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true}, Effect: *s.rule}}
		}
		if err := org.SetBehaviour(b); err != nil {
			t.Fatal(err)
		}
		killChild(t, org, order{place: p, Title: c.title, Die: s.die}, s.rule)
		cells = append(cells, c)
	}
	if err := org.SetBehaviour(sandbox.Behaviour{Switches: providers[provider].switches}); err != nil {
		t.Fatal(err)
	}
	if h, err = open(ctx, p, nil); err != nil {
		t.Fatal(err)
	}
	defer h.close()
	recoverAll(t, ctx, h)
	for i := range cells {
		repeat(t, ctx, h, org, &cells[i])
	}
	recoverAll(t, ctx, h) // nothing may be left over
	judge(t, ctx, h, org)
	return cells
}

// killChild waits for the child's death, and brings it about for a request
// that is on its way.
func killChild(t *testing.T, org *sandbox.Server, o order, rule *sandbox.Effect) {
	t.Helper()
	hits, writes := org.Hits("POST /api/v1/tickets"), len(org.Ledger())
	cmd, out := start(t, o)
	if rule != nil {
		until(t, func() bool {
			if rule.When == "after" {
				return len(org.Ledger()) > writes
			}
			return org.Hits("POST /api/v1/tickets") > hits
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	err := cmd.Wait()
	if out.Len() > 0 || err == nil {
		t.Errorf("%q: the child was not killed (%v): %s", o.Title, err, out)
	}
}

// until polls for something that another process does.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen in 20 seconds")
		}
	}
}

// recoverAll is a host's periodic work until no outcome is open.
func recoverAll(t *testing.T, ctx context.Context, h *house) {
	t.Helper()
	until(t, func() bool {
		if _, err := h.tick(ctx); err != nil {
			t.Fatal(err)
		}
		open, err := h.ledger.Operations(ctx, caller.Tenant, operations.Filter{Limit: 1000}, connector.StateDispatching, connector.StateUnknown)
		if err != nil {
			t.Fatal(err)
		}
		return len(open) == 0
	})
}

// of finds the operation that stands for a title, newest first.
func (h *house) of(t *testing.T, ctx context.Context, title string) (connector.OperationRecord, bool) {
	t.Helper()
	lines, err := h.ledger.Operations(ctx, caller.Tenant, operations.Filter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		rec, err := h.ledger.Get(ctx, caller.Tenant, line.ID)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(rec.Arguments), `"`+title+`"`) {
			return rec, true
		}
	}
	return connector.OperationRecord{}, false
}

// repeat makes the same call again, as an agent would, and a person settles
// what no look-up could.
func repeat(t *testing.T, ctx context.Context, h *house, org *sandbox.Server, c *cell) {
	t.Helper()
	where := c.provider + ", " + c.step
	before := org.Count(c.title)
	rec, found := h.of(t, ctx, c.title)
	c.after = "none: never proposed"
	if found {
		c.after = string(rec.State)
		if rec.Reason != "" {
			c.after += ": " + rec.Reason
		}
	}
	switch rec.State {
	case connector.StateApplied:
		if before != 1 {
			t.Errorf("%s: applied, and the provider holds %d tickets", where, before)
		}
	case connector.StateRejected, connector.StateNotSent, connector.StateAwaitingApproval, connector.StateApproved, "":
		if before != 0 {
			t.Errorf("%s: %s, and the provider holds %d tickets", where, rec.State, before)
		}
	case connector.StateUnresolved:
		if again := h.create(ctx, c.title); again.Status != connector.StatusUnknown || again.Error == nil ||
			again.Error.Code != connector.CodeOutcomeUnknown || org.Count(c.title) != before {
			t.Errorf("%s: the same call answered %s, and the provider went from %d to %d tickets", where, again.Status, before, org.Count(c.title))
		}
		v := operations.Verdict{State: connector.StateRejected, By: "maria", Reason: "asked the provider's support"}
		if before > 0 {
			v.State = connector.StateApplied
		}
		if _, err := h.ledger.Settle(ctx, caller.Tenant, string(rec.ID), v); err != nil {
			t.Errorf("%s: settle: %v", where, err)
		}
	default:
		t.Errorf("%s: it ended as %s", where, rec.State)
	}
	again := h.create(ctx, c.title)
	if again.Pending != nil {
		c.repeat = "approved, "
		if err := h.approve(ctx, again.Pending.Approval); err != nil {
			t.Errorf("%s: approve: %v", where, err)
		}
		again = h.create(ctx, c.title)
	}
	c.repeat += string(again.Status)
	switch {
	case again.Replayed && again.Receipt != nil:
		c.repeat += ", receipt " + string(again.Receipt.Proof())
	case again.Replayed:
		c.repeat += ", by a person's word"
	}
	c.tickets = org.Count(c.title)
	// A person's word is no receipt, and the result says so.
	want := connector.StatusSuccess
	if again.Replayed && again.Receipt == nil {
		want = connector.StatusPartial
	}
	if again.Status != want || c.tickets != 1 {
		t.Errorf("%s: in the end %s with %d tickets, want %s with 1 (%+v)", where, again.Status, c.tickets, want, again.Error)
	}
}

// judge compares our ledger with the provider's, operation by operation.
func judge(t *testing.T, ctx context.Context, h *house, org *sandbox.Server) {
	t.Helper()
	states := map[string]connector.OperationState{}
	rows, err := h.db.Query(ctx, `SELECT id, state, reason FROM operation`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, state, reason string
		if err := rows.Scan(&id, &state, &reason); err != nil {
			t.Fatal(err)
		}
		states[id] = connector.OperationState(state)
		switch states[id] {
		case connector.StateApplied:
		case connector.StateRejected, connector.StateNotSent, connector.StateUnresolved:
			if reason == "" {
				t.Errorf("operation %s is %s without a reason", id, state)
			}
		default:
			t.Errorf("operation %s is left %s (%s)", id, state, reason)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	// Several processes have appended to one chain, and some died doing so.
	if _, err := h.audit.Verify(ctx, caller.Tenant); err != nil {
		t.Errorf("audit: %v", err)
	}
	made := map[string]int{}
	for _, w := range org.Ledger() {
		if w.Kind != "create" {
			continue
		}
		made[w.ExternalRef]++
		if made[w.ExternalRef] > 1 {
			t.Errorf("operation %s made %d tickets", w.ExternalRef, made[w.ExternalRef])
		}
		switch state, known := states[w.ExternalRef]; {
		case !known:
			t.Errorf("ticket %s belongs to no operation of ours", w.TicketID)
		case state != connector.StateApplied && state != connector.StateUnresolved:
			t.Errorf("ticket %s exists, and its operation %s is %s", w.TicketID, w.ExternalRef, state)
		}
	}
	for id, state := range states {
		if state == connector.StateApplied && made[id] != 1 {
			t.Errorf("operation %s is applied, and made %d tickets", id, made[id])
		}
	}
}
