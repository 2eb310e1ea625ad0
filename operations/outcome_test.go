package operations

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/google/go-cmp/cmp"
)

func (b *bench) look(rec connector.OperationRecord) connector.Claim {
	b.t.Helper()
	c, err := b.Look(b.t.Context(), rec.Tenant, rec.ID)
	if err != nil {
		b.t.Fatalf("look: %v", err)
	}
	return c
}

func (b *bench) due() []connector.OperationID {
	b.t.Helper()
	refs, err := b.Due(b.t.Context(), 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var ids []connector.OperationID
	for _, ref := range refs {
		ids = append(ids, ref.ID)
	}
	return ids
}

// Guarantee: TIX5
func TestT02LostAnswerIsLookedUpAndNeverSentAgain(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		rec := b.finish(c, connector.Outcome{State: connector.StateUnknown, Reason: "DEADLINE"})
		if rec.State != connector.StateUnknown || rec.NextLook.Sub(rec.DispatchedAt) < 2*time.Second {
			t.Errorf("record = %s, next look %v", rec.State, rec.NextLook)
		}
		e := b.refused(rec, 7, connector.CodeOutcomeUnknown)
		if e.Effect != connector.DispositionUnknown || e.Operation != rec.ID || e.Advice() != connector.NextLookUpOperation {
			t.Errorf("refusal = %+v", e)
		}
		if due := b.due(); len(due) != 0 {
			t.Errorf("%v due before its time", due)
		}
		b.pass(2 * time.Second)
		if due := b.due(); !slices.Equal(due, []connector.OperationID{rec.ID}) {
			t.Errorf("due = %v, want %s", due, rec.ID)
		}
		look := b.look(rec)
		if look.Fence != 2 || look.Looks != 1 || !cmp.Equal(look.Request, c.Request) {
			t.Errorf("look = fence %d, looks %d", look.Fence, look.Looks)
		}
		b.finish(look, connector.Outcome{State: connector.StateApplied, Receipt: []byte("{}")})
		b.is(rec, connector.StateApplied)
		if due := b.due(); len(due) != 0 {
			t.Errorf("%v due after it was settled", due)
		}
	})
}

// Guarantee: TIX5
func TestE8CrashWhileDispatchingIsUnknownNeverRejected(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		read := b.dispatched("read by somebody")
		swept := b.dispatched("swept")
		listed := b.dispatched("listed")
		b.is(read.OperationRecord, connector.StateDispatching)
		b.pass(time.Minute)
		if got := b.is(read.OperationRecord, connector.StateUnknown); got.NextLook.IsZero() {
			t.Error("nobody will look")
		}
		// The approval's time is long over; a write that may be out there is
		// not ended by that.
		b.pass(time.Hour)
		due := b.due()
		slices.Sort(due)
		want := []connector.OperationID{read.ID, swept.ID, listed.ID}
		slices.Sort(want)
		if !slices.Equal(due, want) {
			t.Errorf("due = %v, want %v", due, want)
		}
		for _, c := range []connector.Claim{read, swept, listed} {
			b.is(c.OperationRecord, connector.StateUnknown)
			b.refused(c.OperationRecord, 7, connector.CodeOutcomeUnknown)
		}
		late := b.dispatched("swept at start")
		b.pass(time.Minute)
		s, err := b.Sweep(t.Context())
		if want := (Swept{Lost: 1}); err != nil || s != want {
			t.Errorf("swept %+v (%v), want %+v", s, err, want)
		}
		b.is(late.OperationRecord, connector.StateUnknown)
	})
}

func TestLateFinishCountsUntilItIsFencedOff(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		slow := b.dispatched("slow")
		b.pass(2 * time.Minute)
		b.is(slow.OperationRecord, connector.StateUnknown)
		b.finish(slow, connector.Outcome{State: connector.StateApplied, Receipt: []byte("{}")})
		b.is(slow.OperationRecord, connector.StateApplied)

		overtaken := b.dispatched("overtaken")
		b.pass(2 * time.Minute)
		look := b.look(overtaken.OperationRecord)
		for _, o := range []connector.Outcome{
			{State: connector.StateApplied, Receipt: []byte("{}"), Output: []byte("{}")}, {State: connector.StateRejected},
			{State: connector.StateNotSent, Retryable: true}, {State: connector.StateUnknown}, {State: connector.StateUnresolved},
		} {
			_, err := b.Finish(t.Context(), overtaken, o)
			fails(t, err, connector.CodeConflict)
			got := b.is(overtaken.OperationRecord, connector.StateUnknown)
			if got.Receipt != nil || got.Output != nil {
				t.Errorf("a fenced-off %s left something", o.State)
			}
		}
		b.finish(look, connector.Outcome{State: connector.StateApplied})
		_, err := b.Finish(t.Context(), overtaken, connector.Outcome{State: connector.StateApplied, Receipt: []byte("{}")})
		fails(t, err, connector.CodeConflict)
		if got := b.get(overtaken.OperationRecord); got.Receipt != nil {
			t.Error("a fenced-off claim replaced the receipt")
		}
	})
}

func TestFinishedClaimCanOnlyRepeatItself(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		states := []connector.OperationState{connector.StateApplied, connector.StateRejected, connector.StateNotSent, connector.StateUnknown, connector.StateUnresolved}
		for _, first := range states {
			c := b.dispatched("finish as " + string(first))
			b.finish(c, connector.Outcome{State: first, Reason: "first"})
			for _, second := range states {
				_, err := b.Finish(t.Context(), c, connector.Outcome{State: second, Reason: "first"})
				if second == first {
					if err != nil {
						t.Errorf("%s again: %v", first, err)
					}
					continue
				}
				if connector.CodeOf(err) != connector.CodeConflict {
					t.Errorf("%s after %s: %v, want CONFLICT", second, first, err)
				}
			}
			b.is(c.OperationRecord, first)
		}
		_, err := b.Finish(t.Context(), b.dispatched("odd"), connector.Outcome{State: "done"})
		fails(t, err, connector.CodeInternal)
	})
}

func TestOneLookAtATime(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		_, err := b.Look(t.Context(), acme, c.ID)
		fails(t, err, connector.CodeOutcomeUnknown) // it is still being sent
		b.finish(c, connector.Outcome{State: connector.StateUnknown})
		first := b.look(c.OperationRecord)
		_, err = b.Look(t.Context(), acme, c.ID)
		if e := fails(t, err, connector.CodeOutcomeUnknown); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
			t.Errorf("retry after %v, want the rest of the lease", e.RetryAfter)
		}
		if due := b.due(); len(due) != 0 {
			t.Errorf("%v due while it is being looked up", due)
		}
		b.pass(time.Minute) // the first one's process died
		if due := b.due(); len(due) != 1 {
			t.Errorf("due = %v after the look's lease, want one", due)
		}
		second := b.look(c.OperationRecord)
		if second.Fence <= first.Fence || second.Looks != 2 {
			t.Errorf("fence %d after %d, looks %d", second.Fence, first.Fence, second.Looks)
		}
		_, err = b.Finish(t.Context(), first, connector.Outcome{State: connector.StateRejected})
		fails(t, err, connector.CodeConflict)
		b.finish(second, connector.Outcome{State: connector.StateUnresolved, Reason: "the marker was dropped"})
		_, err = b.Look(t.Context(), acme, c.ID)
		if e := fails(t, err, connector.CodeOutcomeUnknown); e.Advice() != connector.NextAskPerson {
			t.Errorf("advice = %s", e.Advice())
		}
		for _, state := range []connector.OperationState{connector.StateApplied, connector.StateRejected} {
			over := b.dispatched("over as " + string(state))
			b.finish(over, connector.Outcome{State: state})
			_, err = b.Look(t.Context(), acme, over.ID)
			fails(t, err, connector.CodeConflict)
		}
	})
}

// Guarantee: TIX5
func TestT04AbsenceIsNotBelievedBeforeTheSettleTime(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1") // settles in 10 s
		b.finish(c, connector.Outcome{State: connector.StateUnknown})
		rec := b.finish(b.look(c.OperationRecord), connector.Outcome{State: connector.StateRejected, Reason: "absent"})
		if rec.State != connector.StateUnknown || !rec.NextLook.Equal(rec.DispatchedAt.Add(10*time.Second)) {
			t.Errorf("record = %s, next look %v after dispatch", rec.State, rec.NextLook.Sub(rec.DispatchedAt))
		}
		b.pass(10 * time.Second)
		rec = b.finish(b.look(c.OperationRecord), connector.Outcome{State: connector.StateRejected, Reason: "absent"})
		if rec.State != connector.StateRejected {
			t.Errorf("after the settle time: %s", rec.State)
		}
		// A look-up proves absence at best, not that nothing left.
		c = b.dispatched("step-2")
		b.finish(c, connector.Outcome{State: connector.StateUnknown})
		look := b.look(c.OperationRecord)
		_, err := b.Finish(t.Context(), look, connector.Outcome{State: connector.StateNotSent, Retryable: true})
		fails(t, err, connector.CodeInternal)
		b.is(c.OperationRecord, connector.StateUnknown)
	})
}

func TestLooksSlowDownAndEndWithAPerson(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		b.pass(10 * time.Second) // the settle time
		rec := b.finish(c, connector.Outcome{State: connector.StateUnknown})
		var delays []time.Duration
		for range 9 {
			now, err := b.db.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			delays = append(delays, rec.NextLook.Sub(now).Round(2*time.Second))
			rec = b.finish(b.look(rec), connector.Outcome{State: connector.StateUnknown})
		}
		want := []time.Duration{2 * time.Second, 6 * time.Second, 16 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
			30 * time.Minute, 30 * time.Minute, 30 * time.Minute}
		for i := range want {
			if d := delays[i] - want[i]; d < -2*time.Second || d > 2*time.Second {
				t.Errorf("delay %d = %v, want about %v", i, delays[i], want[i])
			}
		}
		// The provider's own word is better than our table, but not for ever.
		rec = b.finish(b.look(rec), connector.Outcome{State: connector.StateUnknown, Retry: time.Hour})
		if d := time.Until(rec.NextLook); d < 50*time.Minute || d > 70*time.Minute {
			t.Errorf("next look in %v, want an hour", d)
		}
		rec = b.finish(b.look(rec), connector.Outcome{State: connector.StateUnknown, Retry: 1000 * time.Hour})
		if want := rec.DispatchedAt.Add(24 * time.Hour); !rec.NextLook.Equal(want) {
			t.Errorf("next look %v, want %v", rec.NextLook, want)
		}
		look := b.look(rec)
		b.pass(24 * time.Hour)
		rec = b.finish(look, connector.Outcome{State: connector.StateUnknown, Reason: "UNAVAILABLE"})
		if rec.State != connector.StateUnresolved || !strings.Contains(rec.Reason, "UNAVAILABLE") || !rec.NextLook.IsZero() {
			t.Errorf("record = %s (%s), next look %v", rec.State, rec.Reason, rec.NextLook)
		}
	})
}

// Guarantee: TIX5
func TestE10ALookIsDueAtTheSettleTimeAndOneAtTheEnd(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		rec := b.finish(c, connector.Outcome{State: connector.StateUnknown})
		for range 3 { // far apart, were it not for the settle time
			rec = b.finish(b.look(rec), connector.Outcome{State: connector.StateUnknown})
		}
		if want := rec.DispatchedAt.Add(rec.Settle); !rec.NextLook.Equal(want) {
			t.Errorf("next look %v, want %v", rec.NextLook, want)
		}
		b.pass(24*time.Hour - 10*time.Minute)
		rec = b.finish(b.look(rec), connector.Outcome{State: connector.StateUnknown})
		b.pass(10*time.Minute + time.Second)
		if s, err := b.Sweep(t.Context()); err != nil || s != (Swept{}) {
			t.Errorf("swept %+v (%v) before the last look", s, err)
		}
		if due := b.due(); len(due) != 1 {
			t.Errorf("due = %v, want the last look", due)
		}
		b.pass(time.Minute) // nobody came
		if s, err := b.Sweep(t.Context()); err != nil || s != (Swept{Unresolved: 1}) {
			t.Errorf("swept %+v (%v), want one unresolved", s, err)
		}
	})
}

func TestNobodyGivesUpBeforeTheFirstLook(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		c := b.dispatched("step-1")
		b.pass(48 * time.Hour) // everything was down
		if s, err := b.Sweep(t.Context()); err != nil || s != (Swept{Lost: 1}) {
			t.Errorf("swept %+v (%v)", s, err)
		}
		b.is(c.OperationRecord, connector.StateUnknown)
		if due := b.due(); len(due) != 1 {
			t.Errorf("due = %v, want one", due)
		}
		b.look(c.OperationRecord)
		if s, err := b.Sweep(t.Context()); err != nil || s != (Swept{}) {
			t.Errorf("swept %+v (%v) during the look", s, err)
		}
		b.pass(time.Minute) // and that process died, too
		if s, err := b.Sweep(t.Context()); err != nil || s != (Swept{Unresolved: 1}) {
			t.Errorf("swept %+v (%v)", s, err)
		}
		b.is(c.OperationRecord, connector.StateUnresolved)
	})
}

// Guarantee: TIX5
func TestSettlingByHandNeedsAReasonAndFencesOff(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		c := b.dispatched("step-1")
		settle := func(v Verdict) error {
			_, err := b.Settle(ctx, acme, string(c.ID), v)
			return err
		}
		good := Verdict{State: connector.StateApplied, By: "carol", Reason: "seen at the provider", ExternalID: "T-77"}
		fails(t, settle(good), connector.CodeConflict) // it is still being sent
		b.finish(c, connector.Outcome{State: connector.StateUnknown})
		look := b.look(c.OperationRecord)
		for name, v := range map[string]Verdict{
			"nobody":    {State: connector.StateApplied, Reason: "r"},
			"no reason": {State: connector.StateApplied, By: "carol", Reason: " "},
			"not sent":  {State: connector.StateNotSent, By: "carol", Reason: "r"},
			"no state":  {By: "carol", Reason: "r"},
			"odd id":    {State: connector.StateRejected, By: "carol", Reason: "r", ExternalID: "T-77"},
		} {
			if got := connector.CodeOf(settle(v)); got != connector.CodeInvalidInput {
				t.Errorf("%s: %v, want INVALID_INPUT", name, got)
			}
		}
		if err := settle(good); err != nil {
			t.Fatal(err)
		}
		for _, state := range []connector.OperationState{connector.StateRejected, connector.StateApplied} {
			_, err := b.Finish(ctx, look, connector.Outcome{State: state, Receipt: []byte("{}")})
			fails(t, err, connector.CodeConflict)
		}
		d, err := b.Operation(ctx, acme, string(c.ID))
		if err != nil {
			t.Fatal(err)
		}
		last := d.History[len(d.History)-1]
		if d.State != connector.StateApplied || d.ExternalID != "T-77" || d.SettledBy != "carol" || d.Record.Receipt != nil ||
			last.Actor != "carol" || last.Reason != "seen at the provider" || last.From != connector.StateUnknown {
			t.Errorf("detail = %+v, last event %+v", d.Line, last)
		}
		fails(t, settle(good), connector.CodeConflict)

		c = b.dispatched("step-2")
		b.finish(c, connector.Outcome{State: connector.StateUnresolved})
		if err := settle(Verdict{State: connector.StateRejected, By: "carol", Reason: "the provider's log"}); err != nil {
			t.Fatal(err)
		}
		if _, found, _ := b.Find(ctx, c.WriteIdentity); found {
			t.Error("a rejected operation stands for its identity")
		}
	})
}
