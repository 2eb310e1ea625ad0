package exposures

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
)

const mount = "desk."

// overMCP is the SDK's own client before our server.
type overMCP struct {
	session *mcp.ClientSession
}

// newMCP serves one caller over two pipes, as stdio does.
func newMCP(t *testing.T, server *mcpexpose.Server, caller connector.Caller) Exposure {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeStdio(context.Background(), caller, in, out)
		out.Close()
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "stories", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		toServer.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return overMCP{session}
}

func (overMCP) Name() string { return "MCP" }

func (m overMCP) Tools(ctx context.Context) ([]Tool, error) {
	var all []Tool
	for t, err := range m.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, Tool{strings.TrimPrefix(t.Name, mount), t.Description, t.InputSchema})
	}
	return all, nil
}

func (m overMCP) Call(ctx context.Context, call connector.Call) (Answer, error) {
	r, err := m.session.CallTool(ctx, &mcp.CallToolParams{Name: mount + call.Tool, Arguments: call.Arguments})
	if err != nil {
		return Answer{}, err
	}
	text, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return Answer{}, err
	}
	return read(text)
}
