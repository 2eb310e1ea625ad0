package kit

import (
	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// Tickets is the subject for a connector with the three ticket tools, whatever
// driver is behind them.
func Tickets(c connector.Connector, h Harness) Subject {
	return Subject{
		Connector: c, Harness: h,
		List: Use{"tickets.search", func(text, _ string) any { return map[string]any{"query": text, "state": "all"} }},
		Read: Use{"tickets.get", func(id, _ string) any { return map[string]any{"id": id} }},
		Write: Use{"tickets.create", func(marker, container string) any {
			return tickets.Draft{Project: container, Title: marker, Body: "Made by the contract tests.", Severity: "low"}
		}},
		Undo: connector.EffectCompensable, // a ticket can be closed, not unmade
	}
}
