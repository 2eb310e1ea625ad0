package operations

import (
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestOpenCountsWhatIsNotOver(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		if o, err := b.Open(t.Context()); err != nil || o != (Open{}) {
			t.Fatalf("an empty ledger: %+v, %v", o, err)
		}
		b.propose(proposal(acme, "waits", "w"))
		b.propose(proposal(other, "waits elsewhere", "w"))
		b.approve(b.propose(proposal(acme, "approved", "a")))
		lost := b.finish(b.dispatched("lost"), connector.Outcome{State: connector.StateUnknown, Reason: "no answer"})
		b.finish(b.dispatched("lost as well"), connector.Outcome{State: connector.StateUnknown, Reason: "no answer"})
		b.finish(b.dispatched("refused"), connector.Outcome{State: connector.StateRejected, Reason: "no"})
		o, err := b.Open(t.Context())
		if err != nil || o.Unknown != 2 || o.Unresolved != 0 || o.Approvals != 3 {
			t.Errorf("%+v, %v", o, err)
		}
		if o.OldestUnknown == nil || !o.OldestUnknown.Equal(b.get(lost).DispatchedAt.Truncate(time.Millisecond)) {
			t.Errorf("the oldest unknown is of %v", o.OldestUnknown)
		}
	})
}
