package kit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// Guarantee: TST1, TST4
func TestSandboxTicketDriver(t *testing.T) {
	t.Parallel()
	s := kit.Tickets(tickets.New(sandboxorg.Driver{}), kit.SandboxOrg())
	s.Fixed, s.FixedDir = sandboxFixed(), "testdata/sandboxorg"
	r := kit.Run(t, s)
	fmt.Printf("figure: contract sandboxorg  %d passed  %d not claimed  %.1f s\n", r.Count(kit.Passed), r.Count(kit.NotClaimed), r.Seconds)
}

// One seed is one run: the same data, the same checks, and the same faults in the
// same order on the wire.
// Guarantee: TST4
func TestSeedFixesTheFaults(t *testing.T) {
	t.Parallel()
	var runs [2]kit.Report
	for i := range runs {
		s := kit.Tickets(tickets.New(sandboxorg.Driver{}), kit.SandboxOrg())
		s.Seed = 7
		runs[i] = kit.Run(t, s)
	}
	if diff := cmp.Diff(runs[0].Faults, runs[1].Faults); diff != "" || len(runs[0].Faults) < 20 {
		t.Errorf("%d faults; the second run (-first +second):\n%s", len(runs[0].Faults), diff)
	}
	if r := runs[0]; r.Seed != 7 || r.Version == "" || r.ProviderVersion == "" || !strings.Contains(r.ProviderDigest, "sha256:") {
		t.Errorf("the report says seed %d, %q, %q, %q", r.Seed, r.Version, r.ProviderVersion, r.ProviderDigest)
	}
}
