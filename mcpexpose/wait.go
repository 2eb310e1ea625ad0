package mcpexpose

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// lifted is the refusal that a person at a link of each purpose can lift; of no
// purpose, none.
var lifted = map[string]connector.Code{
	purposeConnect: connector.CodeConnectionRequired,
	purposeScopes:  connector.CodeScopeRequired,
	purposeApprove: connector.CodeApprovalRequired,
}

// execute runs a call. A client repeats a call as soon as its person has agreed to
// open the link, and gives up after a few rounds; the person is still reading then.
// So a call that comes back from such a link is run until they are done, or for
// PersonWait. Each run is refused before it has an effect, until one is not refused.
func (s *Server) execute(ctx context.Context, id edge.Identity, t shown, call connector.Call, agreed string) connector.Result {
	run := func() connector.Result {
		call.ID = "mcp_" + strings.ToLower(rand.Text())
		return t.mount.Runtime.Execute(ctx, id.Caller, call)
	}
	result := run()
	end := time.Now().Add(s.PersonWait)
	for pause := 500 * time.Millisecond; result.Error != nil && result.Error.Code == lifted[agreed]; pause = min(2*pause, 3*time.Second) {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		select {
		case <-ctx.Done():
			return result
		case <-time.After(min(pause, left)):
		}
		result = run()
	}
	return result
}

// accepted tells whether the person agreed to open the link of a purpose. It proves
// nothing; it is a reason to wait.
func accepted(answers mcp.InputResponseMap, purpose string) bool {
	e, ok := answers[purpose].(*mcp.ElicitResult)
	return ok && e != nil && e.Action == "accept"
}
