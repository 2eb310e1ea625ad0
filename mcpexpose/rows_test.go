package mcpexpose

import (
	"encoding/json"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// Guarantee: CRE4 (threat T12): on PostgreSQL the tenant's wall stands without
// any WHERE, in every table that belongs to tenants. All tests of this package
// that use PostgreSQL run as an owner whom the guards hold.
func TestForgottenTenantFindsNothing(t *testing.T) {
	each(t, func(t *testing.T, s *Server) {
		for _, who := range []connector.Caller{alice, globex} {
			tool, _, err := s.see(t.Context(), who, "odd.odd.do")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.keep(t.Context(), edge.Identity{Caller: who}, tool, json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Guarded(t, s.DB, [2]string{string(alice.Tenant), string(globex.Tenant)}, "mcp_redeemed")
	})
}
