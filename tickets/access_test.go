package tickets_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// sameAnswer compares what two callers were told, ids of the calls aside.
func sameAnswer(a, b connector.Result) string {
	return cmp.Diff(a, b, cmpopts.IgnoreFields(connector.Result{}, "CallID", "Attempts", "Provenance", "Quota"), cmp.AllowUnexported(connector.Receipt{}))
}

// T35: absent, hidden and outside the grant are one answer, for the same work.
// Guarantee: TIX3
func TestT35AbsentHiddenAndOutsideTheGrantAnswerAlike(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice", "web") // sees orders too, but did not grant it
	absent, _ := alice.get("WEB-99999")
	alice.expect("absent", absent, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	for name, id := range map[string]string{"hidden": "SEC-1", "another organisation": "0042", "outside the grant": "007", "no ticket": "CR-12"} {
		before := alice.asked()
		r, _ := alice.get(id)
		if diff := sameAnswer(absent, r); diff != "" {
			t.Errorf("%s (-absent +%s):\n%s", name, name, diff)
		}
		if n := alice.asked() - before; n != 1 || len(r.Attempts) != len(absent.Attempts) {
			t.Errorf("%s: %d requests and %d attempts, like %d", name, n, len(r.Attempts), len(absent.Attempts))
		}
		if r.Provenance != nil && len(r.Provenance.ObjectVersions) > 0 {
			t.Errorf("%s: the version got out: %v", name, r.Provenance.ObjectVersions)
		}
	}
	if _, found := alice.search(search{Query: "order", State: "all"}); len(found) != 0 {
		t.Errorf("a search went beyond the grant: %v", ids(found))
	}
}

// T39: two people and two connections at one provider see their own.
// Guarantee: TIX2, TIX3
func TestT39TwoPrincipalsSeeTheirOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	alice, bob, carol := d.connect("alice"), d.connect("bob"), d.connect("carol")
	r, got := bob.get("SEC-1")
	bob.expect("bob", r, connector.StatusSuccess, 0, connector.DispositionNone)
	if got.ID != "SEC-1" {
		t.Errorf("bob got %q", got.ID)
	}
	for name, p := range map[string]*person{"alice": alice, "carol": carol} {
		r, _ := p.get("SEC-1")
		p.expect(name, r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	}
	if _, found := carol.search(search{Query: "globex"}); len(found) != 1 || found[0].Project != "ops" {
		t.Errorf("carol found %v", ids(found))
	}
	if _, found := alice.search(search{Query: "globex"}); len(found) != 0 {
		t.Errorf("alice found %v", ids(found))
	}
	// Somebody else's connection is no connection.
	thief := *alice
	thief.caller.Connection = bob.connection.ID
	stolen, _ := thief.get("SEC-1")
	thief.expect("bob's connection", stolen, connector.StatusError, connector.CodeConnectionRequired, connector.DispositionNone)

	// One payload, two people: two operations, each approved for itself.
	alice.approved(draft)
	bob.expect("bob's own proposal", bob.call("tickets.create", draft), connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	made := alice.call("tickets.create", draft)
	alice.expect("alice's", made, connector.StatusSuccess, 0, connector.DispositionApplied)
	bob.expect("bob's still waits", bob.call("tickets.create", draft), connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	if w := d.made(); w.Login != "alice" {
		t.Errorf("created as %s", w.Login)
	}
	d.counts("in the end", 1, 1)
}

// T42: a project that is taken away between two calls is gone from the next
// answer on, whatever was seen before.
// Guarantee: TIX2, TIX3
func TestT42AccessRemovedBetweenTwoCalls(t *testing.T) {
	t.Parallel()
	alice := newDesk(t).connect("alice")
	r, _ := alice.get("WEB-1")
	alice.expect("before", r, connector.StatusSuccess, 0, connector.DispositionNone)
	q := search{Query: "customer", Projects: []string{"web"}, PageSize: 1}
	first, found := alice.search(q)
	if len(found) != 1 || first.NextCursor == nil {
		t.Fatalf("first page: %v", ids(found))
	}
	alice.approved(draft)
	if err := alice.org.SetAccess("alice", "web", sandbox.RoleNone); err != nil {
		t.Fatal(err)
	}
	r, _ = alice.get("WEB-1")
	alice.expect("get", r, connector.StatusError, connector.CodeNotFound, connector.DispositionNone)
	q.Cursor = first.NextCursor
	if r, found = alice.search(q); len(found) != 0 {
		t.Errorf("the next page still shows %v (%s)", ids(found), r.Status)
	}
	made := alice.call("tickets.create", draft)
	alice.expect("an approved create", made, connector.StatusError, connector.CodeNotFound, connector.DispositionNotApplied)
	if rec := alice.record(made.Effect.Operation); rec.State != connector.StateRejected {
		t.Errorf("the operation is %s", rec.State)
	}
	alice.counts("in the end", 1, 0)
}

// A role that may read and not create.
func TestReaderMayNotCreate(t *testing.T) {
	t.Parallel()
	guest := newDesk(t).connect("guest")
	made := guest.create(draft)
	guest.expect("guest", made, connector.StatusError, connector.CodePermissionDenied, connector.DispositionNotApplied)
	guest.counts("in the end", 1, 0)
}
