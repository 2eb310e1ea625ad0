package subscriptions

import (
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without any
// WHERE. The tables of endpoints and of the inbox have tests of their own; all tests of
// this package run as an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.subscribe(connector.CodeApprovalRequired)
		h.req.Connection.Tenant, h.req.Subscriber.Tenant = "globex", "globex"
		h.subscribe(connector.CodeApprovalRequired)
		storetest.Guarded(t, h.db, [2]string{"acme", "globex"}, "webhook_secret", "webhook_delivery", "webhook_lane", "webhook_queue")
	})
}
