package tickets

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Copies are the tickets that an installation stores. They are asked within a call
// that has passed policy and consent and has a connection; nothing that goes wrong
// with them makes a call fail, because there is always the provider to ask. Calls
// are concurrent.
type Copies interface {
	// Copy returns a ticket as tickets.get once answered it, and when it was
	// fetched, if that was for exactly this connection, under the authorization
	// that it has now, and no longer ago than maxAge and the installation allow.
	// Where it answers false the provider is asked.
	Copy(ctx context.Context, c connector.Connection, id string, maxAge time.Duration) (t Ticket, fetched time.Time, ok bool)
	// State is how far the copies of a connection can be relied on. False: none
	// are kept, or it could not be found out.
	State(ctx context.Context, c connector.Connection) (connector.CopyState, bool)
}

// copied answers with a stored copy if the caller takes one and there is one. A
// copy was made fit to leave before it was stored.
func copied(ctx context.Context, a *connector.Access, copies Copies, in getInput) (Ticket, bool) {
	if copies == nil || in.MaxAge <= 0 {
		return Ticket{}, false
	}
	t, fetched, ok := copies.Copy(ctx, a.Connection(), in.ID, time.Duration(in.MaxAge)*time.Second)
	if !ok || t.ID != in.ID || !a.Allowed(t.Project) {
		return Ticket{}, false
	}
	a.FromCopy(fetched)
	describe(a, &t)
	report(ctx, a, copies)
	return t, true
}

// report adds to the provenance what is stored of what the connection sees.
func report(ctx context.Context, a *connector.Access, copies Copies) {
	if copies == nil {
		return
	}
	if s, ok := copies.State(ctx, a.Connection()); ok {
		a.Copies(s)
	}
}
