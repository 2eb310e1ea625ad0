package mcpexpose

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// echo answers with who it was called for.
type echo struct{ odd }

func (e echo) Execute(_ context.Context, who connector.Caller, c connector.Call) connector.Result {
	data, _ := json.Marshal(map[string]string{"text": fmt.Sprint(who.Tenant, "/", who.Principal)})
	return connector.Result{CallID: c.ID, Status: connector.StatusSuccess, Data: data}
}

// Six callers of two tenants share one server in each era, all at once.
//
// Guarantee: MCP8
func TestCallersOfOneServerAreNeverMixedUp(t *testing.T) {
	h := newHouse(t, oneTool(nil), func(c *Config) { c.Mounts[1].Runtime = echo{c.Mounts[1].Runtime.(odd)} })
	var all sync.WaitGroup
	for _, tenant := range []connector.TenantID{"acme", "globex"} {
		for _, principal := range []connector.PrincipalID{"alice", "bob", "carol"} {
			for _, era := range eras {
				s, want := h.client(connector.Caller{Tenant: tenant, Principal: principal}, era, nil), fmt.Sprint(tenant, "/", principal)
				all.Go(func() {
					for range 10 {
						r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "odd.odd.do", Arguments: json.RawMessage(`{}`)})
						if err != nil {
							t.Error(err)
							return
						}
						if diff := cmp.Diff(map[string]any{"text": want}, r.StructuredContent.(map[string]any)["data"]); diff != "" {
							t.Errorf("%s of %s/%s (-want +got):\n%s", era, tenant, principal, diff)
						}
					}
				})
			}
		}
	}
	all.Wait()
}
