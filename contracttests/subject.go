package contracttests

import (
	"encoding/json"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// A Subject is a connector and what the kit must know to call it. Checks whose
// part is left out are not claimed.
type Subject struct {
	Connector connector.Connector
	Harness   Harness // nil: only what needs no provider
	Search    Search
	Get       Get
	Create    Create

	// Lock is the path of connector.lock.json. Empty: not compared.
	Lock string
	// Fixed are calls with given answers; Golden is the folder of what must come
	// of them and of the definitions. Update writes it instead.
	Fixed  []Fixed
	Golden string
	Update bool

	// Exposures are the ways to the tools that the stories are played through.
	// Nil: all that this module has without a server.
	Exposures []Exposure
	// Skip says of a check why it is not claimed.
	Skip map[string]string
	// Seed decides the order of the checks and where faults hit. Zero: 1.
	Seed uint64
	// Parts puts other parts into the installation: a deployment's own ledger,
	// or a broken one.
	Parts Parts
}

// Search is a tool made by [connector.List].
type Search struct {
	Tool string
	// Arguments find what [Org].Seed made with the word. The kit adds page_size
	// and cursor.
	Arguments func(c connector.Connection, word string) any
	// ID reads the id of one item, for Get. Nil: its member id.
	ID func(item json.RawMessage) string
}

// Get is a tool that reads one object by its id.
type Get struct {
	Tool      string
	Arguments func(id string) any
}

// Create is a tool made by [connector.Write].
type Create struct {
	Tool string
	// Arguments hold the mark in a text that the provider stores, so that its
	// own books can be asked for it. The same mark gives the same arguments.
	Arguments func(c connector.Connection, mark string) any
}

// Parts change what an installation is made of. Nil funcs change nothing.
type Parts struct {
	Credentials func(transport.Credentials) transport.Credentials
	// Runtime sees the finished configuration and where the provider is.
	Runtime func(c *connector.Config, at transport.Profile, credentials transport.Credentials)
}

// Tickets is the subject of a connector made by [tickets.New].
func Tickets(c connector.Connector, h Harness) Subject {
	project := func(c connector.Connection) string {
		if len(c.Resources) == 0 {
			return ""
		}
		return c.Resources[0]
	}
	return Subject{
		Connector: c, Harness: h,
		Search: Search{Tool: "tickets.search", Arguments: func(_ connector.Connection, word string) any {
			return map[string]any{"query": word}
		}},
		Get: Get{Tool: "tickets.get", Arguments: func(id string) any { return map[string]any{"id": id} }},
		Create: Create{Tool: "tickets.create", Arguments: func(c connector.Connection, mark string) any {
			return tickets.Draft{Project: project(c), Title: "Contract test " + mark, Body: "Made by the contract kit.", Severity: "low"}
		}},
	}
}
