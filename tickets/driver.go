package tickets

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A Driver is one ticket system: facts as data and pure mapping functions. It
// never sees a credential and has no way to write. Its tickets need not be
// cleaned or checked against the grant; this package does that for all.
type Driver interface {
	Facts() Facts
	// Identify reads whose account a fresh connection is and what it may see.
	Identify(ctx context.Context, a *connector.Access) (connector.Identity, error)
	// Search asks for one page. It sends every filter explicitly, because
	// providers have hidden defaults, and q.Text only as text.
	Search(ctx context.Context, a *connector.Access, q Query, p connector.Position) (connector.Page[Ticket], error)
	// Get reads one ticket by the id that this driver gave it.
	Get(ctx context.Context, a *connector.Access, id string) (Ticket, error)
	// PlanCreate turns a draft into the one request that would create it.
	PlanCreate(ctx context.Context, a *connector.Access, d Draft) (connector.Request, error)
	// Created reads a ticket out of the answer to that request. When only part
	// can be read, it returns the id with an error.
	Created(r connector.Response) (Ticket, error)
	// FindCreated tells what became of a create whose answer was lost, by a
	// route that is strongly consistent, or says that it cannot tell.
	FindCreated(ctx context.Context, a *connector.Access, id connector.OperationID, d Draft) (Ticket, connector.Found, error)
	// Classify maps the provider's own ways to refuse; nil: the default table.
	Classify(q connector.Request, r connector.Response) *connector.Error
}

// Facts are what the contract tests hold a driver to.
type Facts struct {
	Provider        string
	ProviderVersion string
	ReadScopes      []string
	WriteScopes     []string
	ConnectScopes   []string // asked for beside both, such as a profile scope
	Dedupe          connector.Dedupe
	Settle          time.Duration
	Limitations     []string // what the provider can't guarantee, in words for callers
}

// Query is a search within the grant.
type Query struct {
	Text     string
	State    string   // open, closed or all; never empty
	Projects []string // never empty, never outside the grant
}
