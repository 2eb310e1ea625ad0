package mcpexpose

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// Guarantee: MCP1
func TestAReadEndsWithItsClient(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	h := newHouse(t, oneTool(func(ctx context.Context, _ connector.Call) connector.Result {
		close(began)
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-time.After(20 * time.Second):
			ended <- nil
		}
		return refusal(connector.CodeCanceled)
	}))
	s := h.client(alice, modern, nil)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-began; leave() }()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "odd.odd.do", Arguments: json.RawMessage(`{}`)}); err == nil {
		t.Error("an answer came to a client that had left")
	}
	if err := <-ended; err == nil {
		t.Error("the read went on without its client")
	}
}

// The client leaves while the provider is still thinking. The write was sent, so it is
// followed to its end, and the same call learns what became of it.
//
// Guarantee: MCP6
func TestAWriteOutlivesItsClient(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	s := h.client(alice, modern, func(url string) string {
		if _, err := h.host.Ledger.Approve(t.Context(), "acme", url[strings.LastIndex(url, "/")+1:], "alice"); err != nil {
			t.Error(err)
		}
		return "accept"
	})
	if err := h.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: http.MethodPost, Path: "/api/v1/tickets", Exact: true},
		Effect: sandbox.Effect{Kind: "delay", DelayMS: 400}}); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() {
		for h.org.Hits("POST /api/v1/tickets") == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		leave()
	}()
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "desk.tickets.create", Arguments: json.RawMessage(draft)}); err == nil {
		t.Fatal("the client did not leave in time")
	}
	if n := h.org.Count("Printer on fire"); n != 0 {
		t.Fatalf("%d tickets when the client left: it left too late to show anything", n)
	}
	// Until the write is done the same call says that it is under way.
	var e answered
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if e, _, err = call(t, s, "desk.tickets.create", draft); err != nil {
			t.Fatal(err)
		}
		if e.Status == "success" {
			break
		}
	}
	if e.Status != "success" || !e.Replayed || e.Effect.Disposition != "applied" || len(e.Receipt) == 0 {
		t.Errorf("the same call later: %+v", e)
	}
	if n := h.org.Count("Printer on fire"); n != 1 {
		t.Errorf("%d tickets, want 1", n)
	}
}
