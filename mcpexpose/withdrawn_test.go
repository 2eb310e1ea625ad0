package mcpexpose

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func everything(t *testing.T, s *mcp.ClientSession) []string {
	t.Helper()
	names := toolNames(t, s)
	resources, err := s.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.Resources {
		names = append(names, r.URI)
	}
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prompts.Prompts {
		names = append(names, p.Name)
	}
	return names
}

// A session of the older era, and a client on stdio, last longer than a policy.
//
// Guarantee: MCP3, MCP7
func TestALongSessionStopsListingWhatWasWithdrawn(t *testing.T) {
	h := newHouse(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- h.server.ServeStdio(t.Context(), alice, in, out); out.Close() }()
	stdio, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy}) // the newer client would keep the first list for a while
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*mcp.ClientSession{"http": h.client(alice, legacy, nil), "stdio": stdio} {
		all := everything(t, s)
		h.gates.forbid("alice", "tickets.create", true)
		want := []string{"desk.tickets.get", "desk.tickets.search",
			"drawbridge://guarantees/desk.tickets.get", "drawbridge://guarantees/desk.tickets.search",
			"drawbridge://schemas/desk.tickets.get", "drawbridge://schemas/desk.tickets.search", "triage"}
		if diff := cmp.Diff(want, everything(t, s)); diff != "" {
			t.Errorf("%s: without the right to create (-want +got):\n%s", name, diff)
		}
		h.gates.forbid("alice", "tickets.search", true)
		if diff := cmp.Diff([]string{"desk.tickets.get", "drawbridge://guarantees/desk.tickets.get", "drawbridge://schemas/desk.tickets.get"}, everything(t, s)); diff != "" {
			t.Errorf("%s: with one tool left (-want +got):\n%s", name, diff)
		}
		h.gates.forbid("alice", "tickets.create", false)
		h.gates.forbid("alice", "tickets.search", false)
		if diff := cmp.Diff(all, everything(t, s)); diff != "" {
			t.Errorf("%s: with all rights again (-want +got):\n%s", name, diff)
		}
	}
	stdio.Close()
	toServer.Close()
	if err := <-ended; err != nil {
		t.Errorf("stdio ended with %v", err)
	}
}
