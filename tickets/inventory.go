package tickets

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A Sweeper is a driver that can list what its connection sees, so that changes
// that no event announced are found.
type Sweeper interface {
	// Sweep returns one page of all tickets in the given projects, open, closed
	// and archived, in whatever order pages well. With Since, those that changed
	// at or after that time are enough. What it leaves out is taken for nothing
	// but a reason to fetch it.
	Sweep(ctx context.Context, a *connector.Access, q SweepQuery) (Inventory, error)
}

// SweepQuery is one page of a sweep within the grant.
type SweepQuery struct {
	Projects []string  // never empty, never outside the grant
	Since    time.Time // zero: everything
	Cursor   string    // the driver's own; empty on the first page
}

// Inventory is one page of a sweep.
type Inventory struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next"` // empty: this was the last page
	// Clock is the provider's own time of this page; zero: it did not say.
	Clock time.Time `json:"clock"`
}

// Entry is a ticket by its ids alone.
type Entry struct {
	ID      string `json:"id"`
	Project string `json:"project"`
	Version string `json:"version"`
}

// Order is a number that never shrinks while a ticket changes: its version when
// that is a whole number, else the time of its last change in milliseconds. With
// coarse, two changes in short succession can have the same.
func (t Ticket) Order() (n int64, coarse bool) {
	if n, err := strconv.ParseInt(t.Version, 10, 64); err == nil {
		return n, false
	}
	return t.UpdatedAt.UnixMilli(), true
}

// InventoryTool is the one operation of [NewInventory].
const InventoryTool = "tickets.inventory"

// NewInventory puts the listing of a driver behind a connector of its own. It is
// for a runtime that no model and no person is shown: what runs there passes the
// same policy, connection and audit as every call. It answers false when the
// driver is no Sweeper.
func NewInventory(d Driver) (connector.Connector, bool) {
	sweeper, ok := d.(Sweeper)
	c := New(d)
	c.Operations = []connector.Operation{connector.Read(connector.Spec{
		Name: InventoryTool, Title: "List ticket ids",
		Doc:    "Lists ids and versions of all tickets that the connection may see, for background reconciliation.",
		Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal, Scopes: d.Facts().ReadScopes,
	}, func(ctx context.Context, a *connector.Access, in inventoryInput) (Inventory, error) {
		projects, err := a.Narrow(nil)
		if err != nil {
			return Inventory{}, err
		}
		out := Inventory{Entries: []Entry{}}
		if len(projects) == 0 {
			return out, nil
		}
		page, err := sweeper.Sweep(ctx, a, SweepQuery{projects, in.Since, in.Cursor})
		if err != nil {
			return out, err
		}
		for _, e := range page.Entries {
			// The provider's filter is not trusted here either.
			if slices.Contains(projects, e.Project) && plainName(e.ID) {
				out.Entries = append(out.Entries, e)
			}
		}
		out.Next, out.Clock = page.Next, page.Clock.UTC()
		return out, nil
	})}
	return c, ok
}

type inventoryInput struct {
	Since  time.Time `json:"since"`
	Cursor string    `json:"cursor"`
}

// List runs one page of a sweep in a runtime that [NewInventory] is mounted in,
// as the connection's own principal.
func List(ctx context.Context, r *connector.Runtime, caller connector.Caller, since time.Time, cursor string) (Inventory, error) {
	return do[Inventory](ctx, r, caller, InventoryTool, inventoryInput{since, cursor})
}

// Fetch reads one ticket for a background worker, as the connection's own
// principal and by the same way as tickets.get: whoever was denied that is
// denied this.
func Fetch(ctx context.Context, r *connector.Runtime, caller connector.Caller, id string) (Ticket, error) {
	return do[Ticket](ctx, r, caller, "tickets.get", getInput{ID: id})
}

func do[Out, In any](ctx context.Context, r *connector.Runtime, caller connector.Caller, tool string, in In) (Out, error) {
	out, result := connector.Do[In, Out](ctx, r, caller, tool, in)
	if e := result.Error; e != nil {
		return out, &connector.Error{Code: e.Code, Message: e.Message, Scopes: e.Scopes, Guessed: e.Guessed,
			RetryAfter: time.Duration(e.RetryAfter * float64(time.Second))}
	}
	return out, nil
}
