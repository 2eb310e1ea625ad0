package contracttests_test

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
	r := contracttests.Run(t, contracttests.Tickets(tickets.New(sandboxorg.Driver{}), contracttests.SandboxOrg()))
	fmt.Printf("figure: contract sandboxorg  %d passed  %d not claimed  %.1f s\n", r.Count(contracttests.Passed), r.Count(contracttests.NotClaimed), r.Seconds)
}
