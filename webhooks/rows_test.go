package webhooks

import (
	"testing"

	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, in every table of this package; the
// inbox has a test of its own. All tests of this
// package run as an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		if _, err := h.s.Add(t.Context(), AddRequest{Tenant: "globex", Provider: "sandbox", Connection: "c1", Scheme: "github"}); err != nil {
			t.Fatal(err)
		}
		storetest.Guarded(t, h.db, [2]string{"acme", "globex"}, "webhook_delivery", "webhook_lane", "webhook_queue")
	})
}
