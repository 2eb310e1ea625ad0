package kit_test

import (
	"fmt"
	"testing"

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
