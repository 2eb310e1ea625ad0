package operations

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"pgregory.net/rapid"
)

// modelOp is what an operation should be, in the plainest terms.
type modelOp struct {
	rec      connector.OperationRecord
	variant  int
	state    connector.OperationState
	approval ApprovalState
	revoked  bool
	retry    bool // not sent, and may be tried again
	fence    int64
	open     claimKind // what the current claim may still report
	lease    time.Duration
	expires  time.Duration
	sent     time.Duration
	looks    int
}

func (o *modelOp) waiting() bool {
	return o.state == connector.StateAwaitingApproval || o.state == connector.StateApproved || o.retry
}

func (o *modelOp) live() bool {
	return o.state != connector.StateRejected && (o.state != connector.StateNotSent || o.retry)
}

func (o *modelOp) end(a ApprovalState) {
	o.approval, o.state, o.retry = a, connector.StateNotSent, false
}

// machine drives two replicas and the model side by side.
type machine struct {
	t        *rapid.T
	ctx      context.Context
	tenant   connector.TenantID
	replicas []*Ledger
	reopen   func() *Ledger
	ops      []*modelOp
	claims   []connector.Claim // held by some process that is still alive
	now      time.Duration     // what pass has added up to
}

const (
	modelLease  = time.Minute
	modelTTL    = 30 * time.Minute
	modelGiveUp = 24 * time.Hour
	modelSettle = 50 * time.Second
)

// Steps of time are far enough from every limit that a slow test can't cross
// one by itself.
var modelSteps = []time.Duration{61 * time.Second, 31 * time.Minute, 25 * time.Hour}

func (m *machine) ledger() *Ledger {
	return m.replicas[rapid.IntRange(0, len(m.replicas)-1).Draw(m.t, "replica")]
}

func (m *machine) op() *modelOp {
	if len(m.ops) == 0 {
		m.t.Skip("no operation yet")
	}
	return m.ops[rapid.IntRange(0, len(m.ops)-1).Draw(m.t, "operation")]
}

func (m *machine) want(err error, want connector.Code) {
	m.t.Helper()
	if got := connector.CodeOf(err); got != want {
		m.t.Fatalf("got %v, want code %v", err, want)
	}
}

func (m *machine) identity(n int) connector.WriteIdentity {
	return connector.WriteIdentity{Tenant: m.tenant, Principal: "alice", Connection: "con_1", Tool: "tickets.create", Intent: fmt.Sprint("step-", n)}
}

func (m *machine) liveOp(w connector.WriteIdentity) *modelOp {
	i := slices.IndexFunc(m.ops, func(o *modelOp) bool { return o.rec.WriteIdentity == w && o.live() })
	if i < 0 {
		return nil
	}
	return m.ops[i]
}

func (m *machine) propose() {
	variant := rapid.IntRange(0, 1).Draw(m.t, "variant")
	w := m.identity(rapid.IntRange(0, 1).Draw(m.t, "identity"))
	p := proposal(m.tenant, w.Intent, fmt.Sprint("variant ", variant))
	p.Settle = modelSettle
	rec, err := m.ledger().Propose(m.ctx, p)
	stands := m.liveOp(w)
	switch {
	case stands == nil:
		m.want(err, 0)
		if rec.ID != p.ID {
			m.t.Fatalf("proposal got operation %s, want its own", rec.ID)
		}
		m.ops = append(m.ops, &modelOp{rec: rec, variant: variant, state: connector.StateAwaitingApproval,
			approval: ApprovalPending, expires: m.now + modelTTL})
	case stands.variant != variant:
		m.want(err, connector.CodeConflict)
	default:
		m.want(err, 0)
		if rec.ID != stands.rec.ID {
			m.t.Fatalf("proposal got operation %s, want %s, which stands", rec.ID, stands.rec.ID)
		}
	}
}

func (m *machine) approve() {
	o := m.op()
	_, err := m.ledger().Approve(m.ctx, m.tenant, string(o.rec.Approval), "bob")
	switch o.approval {
	case ApprovalPending:
		m.want(err, 0)
		o.approval, o.state = ApprovalApproved, connector.StateApproved
	case ApprovalApproved:
		m.want(err, 0)
	default:
		m.want(err, connector.CodeConflict)
	}
}

func (m *machine) deny() {
	o := m.op()
	_, err := m.ledger().Deny(m.ctx, m.tenant, string(o.rec.Approval), "bob", "no")
	switch o.approval {
	case ApprovalPending:
		m.want(err, 0)
		o.end(ApprovalDenied)
	case ApprovalDenied:
		m.want(err, 0)
	default:
		m.want(err, connector.CodeConflict)
	}
}

func (m *machine) withdraw() {
	o := m.op()
	_, err := m.ledger().Withdraw(m.ctx, m.tenant, string(o.rec.Approval), "alice", "")
	switch o.approval {
	case ApprovalPending, ApprovalApproved:
		m.want(err, 0)
		o.end(ApprovalWithdrawn)
	case ApprovalWithdrawn:
		m.want(err, 0)
	default:
		m.want(err, connector.CodeConflict)
	}
}

func (m *machine) dispatch() {
	o := m.op()
	authz := rapid.SampledFrom([]int64{7, 7, 7, 6, 8}).Draw(m.t, "authz")
	c, err := m.ledger().Dispatch(m.ctx, m.tenant, o.rec.ID, authz)
	switch o.state {
	case connector.StateApproved, connector.StateNotSent:
		switch {
		case !o.waiting():
			m.want(err, connector.CodeApprovalRequired)
		case authz != 7:
			m.want(err, connector.CodeApprovalMismatch)
			if authz > 7 {
				o.end(ApprovalWithdrawn)
			}
		default:
			m.want(err, 0)
			o.fence++
			o.state, o.approval, o.retry, o.open, o.looks = connector.StateDispatching, ApprovalUsed, false, claimDispatch, 0
			o.lease, o.sent = m.now+modelLease, m.now
			if c.Fence != o.fence || c.Digest != o.rec.Digest || string(c.Request.Body) != string(o.rec.Request.Body) {
				m.t.Fatalf("claim has fence %d and digest %s, want %d and %s", c.Fence, c.Digest, o.fence, o.rec.Digest)
			}
			m.claims = append(m.claims, c)
		}
	case connector.StateAwaitingApproval, connector.StateRejected:
		m.want(err, connector.CodeApprovalRequired)
	default:
		m.want(err, connector.CodeOutcomeUnknown)
	}
}

func (m *machine) look() {
	o := m.op()
	c, err := m.ledger().Look(m.ctx, m.tenant, o.rec.ID)
	switch o.state {
	case connector.StateUnknown:
		if m.now < o.lease {
			m.want(err, connector.CodeOutcomeUnknown)
			return
		}
		m.want(err, 0)
		o.fence++
		o.looks++
		o.open, o.lease = claimLook, m.now+modelLease
		m.claims = append(m.claims, c)
	case connector.StateDispatching, connector.StateUnresolved:
		m.want(err, connector.CodeOutcomeUnknown)
	default:
		m.want(err, connector.CodeConflict)
	}
}

func (m *machine) finish() {
	if len(m.claims) == 0 {
		m.t.Skip("no claim")
	}
	c := m.claims[rapid.IntRange(0, len(m.claims)-1).Draw(m.t, "claim")]
	o := m.ops[slices.IndexFunc(m.ops, func(o *modelOp) bool { return o.rec.ID == c.ID })]
	outcome := connector.Outcome{State: rapid.SampledFrom([]connector.OperationState{connector.StateApplied, connector.StateRejected,
		connector.StateNotSent, connector.StateUnknown, connector.StateUnknown, connector.StateUnresolved}).Draw(m.t, "outcome")}
	outcome.Retryable = outcome.State == connector.StateNotSent && rapid.Bool().Draw(m.t, "retryable")
	_, err := m.ledger().Finish(m.ctx, c, outcome)
	switch {
	case c.Fence != o.fence:
		m.want(err, connector.CodeConflict)
		return
	case o.open == claimNone:
		if outcome.State == o.state {
			m.want(err, 0)
		} else {
			m.want(err, connector.CodeConflict)
		}
		return
	case o.open == claimLook && outcome.State == connector.StateNotSent:
		m.want(err, connector.CodeInternal)
		return
	}
	m.want(err, 0)
	look := o.open == claimLook
	o.open, o.lease = claimNone, 0
	switch {
	case look && outcome.State == connector.StateRejected && m.now < o.sent+modelSettle:
		o.state = connector.StateUnknown
	case outcome.State == connector.StateUnknown && o.looks > 0 && m.now >= o.sent+modelGiveUp:
		o.state = connector.StateUnresolved
	default:
		o.state = outcome.State
	}
	if outcome.Retryable && !o.revoked && m.now < o.expires {
		o.retry, o.approval = true, ApprovalApproved
	}
}

func (m *machine) settle() {
	o := m.op()
	state := rapid.SampledFrom([]connector.OperationState{connector.StateApplied, connector.StateRejected}).Draw(m.t, "verdict")
	_, err := m.ledger().Settle(m.ctx, m.tenant, string(o.rec.ID), Verdict{State: state, By: "carol", Reason: "seen"})
	if o.state != connector.StateUnknown && o.state != connector.StateUnresolved {
		m.want(err, connector.CodeConflict)
		return
	}
	m.want(err, 0)
	o.state, o.open, o.lease = state, claimNone, 0
	o.fence++
}

func (m *machine) kill() {
	n, err := m.ledger().KillConnection(m.ctx, nil, m.tenant, "con_1", "disconnected")
	m.want(err, 0)
	want := 0
	for _, o := range m.ops {
		switch {
		case o.waiting():
			o.end(ApprovalWithdrawn)
			want++
		case o.state == connector.StateDispatching:
			o.revoked = true
		}
	}
	if n != want {
		m.t.Fatalf("killed %d operations, want %d", n, want)
	}
}

func (m *machine) pass() {
	d := rapid.SampledFrom(modelSteps).Draw(m.t, "time")
	if err := pass(m.ctx, m.replicas[0].db, m.tenant, d); err != nil {
		m.t.Fatal(err)
	}
	m.now += d
	for _, o := range m.ops {
		switch {
		case o.waiting() && m.now >= o.expires:
			o.end(ApprovalExpired)
		case o.state == connector.StateDispatching && m.now >= o.lease:
			o.state = connector.StateUnknown
		case o.state == connector.StateUnknown && o.looks > 0 && m.now >= o.lease && m.now >= o.sent+modelGiveUp:
			o.state = connector.StateUnresolved
		}
	}
}

func (m *machine) sweep() {
	if _, err := m.ledger().Sweep(m.ctx); err != nil {
		m.t.Fatal(err)
	}
}

// crash ends a process: its claims are gone, its database handle with it.
func (m *machine) crash() {
	m.claims = nil
	m.replicas[1] = m.reopen()
}

// check compares everything that can be seen with the model.
func (m *machine) check() {
	l := m.ledger()
	cards, err := l.Approvals(m.ctx, m.tenant, Filter{})
	if err != nil {
		m.t.Fatal(err)
	}
	lines, err := l.Operations(m.ctx, m.tenant, Filter{})
	if err != nil {
		m.t.Fatal(err)
	}
	if len(cards) != len(m.ops) || len(lines) != len(m.ops) {
		m.t.Fatalf("%d approvals and %d operations, want %d", len(cards), len(lines), len(m.ops))
	}
	for _, o := range m.ops {
		c := cards[slices.IndexFunc(cards, func(c Card) bool { return c.Operation == o.rec.ID })]
		d := lines[slices.IndexFunc(lines, func(d Line) bool { return d.ID == o.rec.ID })]
		if d.State != o.state || c.State != o.approval {
			m.t.Fatalf("%s is %s with approval %s (%s), want %s with approval %s", o.rec.ID, d.State, c.State, d.Reason, o.state, o.approval)
		}
	}
	m.checkHistory(l)
	for n := range 2 {
		rec, found, err := l.Find(m.ctx, m.identity(n))
		want := m.liveOp(m.identity(n))
		if err != nil || found != (want != nil) || found && rec.ID != want.rec.ID {
			m.t.Fatalf("find %d: %s, %v, %v, want %+v", n, rec.ID, found, err, want)
		}
	}
}

// checkHistory wants one unbroken line of events for each operation, ending
// where the operation is.
func (m *machine) checkHistory(l *Ledger) {
	last := map[connector.OperationID]Event{}
	err := l.db.EachFor(m.ctx, scope(m.tenant), func(row store.Scanner) error {
		var id connector.OperationID
		var e Event
		if err := row.Scan(&id, &e.Seq, &e.From, &e.To); err != nil {
			return err
		}
		if e.Seq != last[id].Seq+1 || e.From != last[id].To {
			return fmt.Errorf("history of %s: %+v after %+v", id, e, last[id])
		}
		last[id] = e
		return nil
	}, `SELECT operation, seq, from_state, to_state FROM operation_event WHERE tenant = ? ORDER BY operation, seq`, m.tenant)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, o := range m.ops {
		if last[o.rec.ID].To != o.state {
			m.t.Fatalf("history of %s ends with %s, want %s", o.rec.ID, last[o.rec.ID].To, o.state)
		}
	}
}

// Guarantee: TIX5
func TestLedgerAgreesWithItsModel(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		ring := newRing(t)
		d.Open(Migrations())
		open := func() *store.DB {
			db, err := store.Open(t.Context(), store.Config{URL: d.URL, MaxConns: 2})
			if err != nil {
				t.Fatal(err)
			}
			return db
		}
		ledger := func(db *store.DB) *Ledger {
			l, err := New(Config{DB: db, Keys: ring, Lease: modelLease, ApprovalTTL: modelTTL, GiveUp: modelGiveUp})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first, second := open(), open()
		defer first.Close()
		defer func() { second.Close() }()
		runs := 0
		rapid.Check(t, func(rt *rapid.T) {
			runs++
			m := &machine{t: rt, ctx: t.Context(), tenant: connector.TenantID(fmt.Sprint("tenant-", runs)), replicas: []*Ledger{ledger(first), ledger(second)}}
			m.reopen = func() *Ledger {
				second.Close()
				second = open()
				return ledger(second)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"propose": func(*rapid.T) { m.propose() }, "propose again": func(*rapid.T) { m.propose() },
				"approve": func(*rapid.T) { m.approve() }, "approve another": func(*rapid.T) { m.approve() },
				"deny": func(*rapid.T) { m.deny() }, "withdraw": func(*rapid.T) { m.withdraw() },
				"dispatch": func(*rapid.T) { m.dispatch() }, "dispatch again": func(*rapid.T) { m.dispatch() },
				"look": func(*rapid.T) { m.look() }, "finish": func(*rapid.T) { m.finish() }, "finish again": func(*rapid.T) { m.finish() },
				"settle": func(*rapid.T) { m.settle() }, "kill": func(*rapid.T) { m.kill() }, "pass": func(*rapid.T) { m.pass() },
				"sweep": func(*rapid.T) { m.sweep() }, "crash": func(*rapid.T) { m.crash() },
				"": func(*rapid.T) { m.check() },
			})
		})
	})
}
