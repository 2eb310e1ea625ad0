package connector_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A stored copy is named as one, after whatever was asked before it, and what copies
// are worth changes nothing of the result's own coverage.
// Guarantee: RUN4
func TestProvenanceOfAStoredCopy(t *testing.T) {
	h := newHarness(t)
	fetched := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reasons := []string{"backlog"}
	h.toy.get = func(ctx context.Context, a *connector.Access, in getIn) (note, error) {
		// A look at the provider that came to nothing does not show as the source.
		_, _ = a.Get(ctx, connector.Request{Path: "/notes/" + in.ID})
		a.FromCopy(fetched)
		a.Copies(connector.CopyState{State: connector.CopiesPartial, Reasons: reasons})
		reasons[0] = "changed by the connector afterwards"
		return note{in.ID, "kept"}, nil
	}
	r := h.call("desk.get", `{"id":"n1"}`)
	if r.Status != connector.StatusSuccess || !r.Coverage.Complete || len(r.Coverage.Missing) > 0 {
		t.Fatalf("%s %+v %+v", r.Status, r.Error, r.Coverage)
	}
	p := r.Provenance
	want := &connector.CopyState{State: connector.CopiesPartial, Reasons: []string{"backlog"}}
	if diff := cmp.Diff(want, p.Copies); diff != "" || p.Source != connector.SourceCopy || !p.FetchedAt.Equal(fetched) || p.RequestID != "" {
		t.Errorf("provenance %+v (-want +got copies):\n%s", p, diff)
	}
	wire, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var seen struct {
		Provenance struct {
			Source string
			Copies struct {
				State   string
				Reasons []string
			} `json:"stored_copies"`
		}
	}
	if err := json.Unmarshal(wire, &seen); err != nil || seen.Provenance.Source != "stored_copy" || seen.Provenance.Copies.State != "partial" {
		t.Errorf("on the wire: %s", wire)
	}
}
