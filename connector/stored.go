package connector

import (
	"slices"
	"time"
)

// SourceCopy is the Provenance.Source of data that is a stored copy. The provider
// was not asked; FetchedAt is when the copy was fetched from it.
const SourceCopy = "stored_copy"

// The states of stored copies.
const (
	CopiesComplete = "complete" // all that the connection sees, and no change is known that waits
	CopiesPartial  = "partial"  // see the reasons
	CopiesUnknown  = "unknown"  // not yet compared with the provider under the present authorization
)

// CopyState says how far the copies that are kept of what a connection sees can be
// relied on. It is another fact than the Coverage of a result: a list that the
// provider answered is not less complete because the copies are, nor more.
type CopyState struct {
	State   string   `json:"state"`
	Reasons []string `json:"reasons,omitempty"` // of partial, in stable words
}

// FromCopy records in the provenance that the data is a stored copy, and when that
// was fetched.
func (a *Access) FromCopy(fetched time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.request, a.fetched, a.source = "", fetched, SourceCopy
}

// Copies records in the provenance what is stored of what the connection sees.
func (a *Access) Copies(s CopyState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.Reasons = slices.Clone(s.Reasons)
	a.copies = &s
}
