package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Guarantee: MCP1, OPS1
func TestMCPOverStdio(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan int, 1)
	var errOut strings.Builder
	go func() {
		ended <- run(context.Background(), []string{"mcp", "--data", c.data, "--as", c.as}, in, out, &errOut)
		out.Close()
	}()
	ask := func(format string, args ...any) map[string]any {
		t.Helper()
		fmt.Fprintf(toServer, format+"\n", args...)
		return nil
	}
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	next := func() map[string]any {
		t.Helper()
		var m map[string]any
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil || m["jsonrpc"] != "2.0" {
			t.Fatalf("standard output has %q (%s)", lines.Text(), errOut.String())
		}
		return m
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if v := text(next(), "result", "protocolVersion"); v != "2025-11-25" {
		t.Errorf("negotiated %s", v)
	}
	ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox.tickets.search","arguments":{"query":"customer","page_size":2,"cursor":null}}}`)
	r := next()
	if text(r, "result", "structuredContent", "status") == "" || at(r, "result", "isError") == true {
		t.Errorf("search: %v", r)
	}
	toServer.Close()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}

// Guarantee: MCP2, MCP6, TIX4, CRE10
func TestMCPOverHTTPWithAPersonAtThePages(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	s := c.serve()
	_, page := s.do("GET", s.signIn, nil)
	s.do("POST", "/signin/local", fields(page))
	token, err := os.ReadFile(filepath.Join(c.data, localTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(filepath.Join(c.data, localTokenFile)); info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file is %s", info.Mode())
	}
	if status, _ := s.do("POST", "/mcp", map[string][]string{}); status != http.StatusBadRequest && status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			// The person reads the card in the browser in which they are signed in.
			_, card := s.do("GET", req.Params.URL, nil)
			if !strings.Contains(card, "Over MCP") {
				t.Errorf("the card: %s", card)
			}
			s.do("POST", strings.TrimPrefix(req.Params.URL, s.base)+"/approve", fields(card))
			return &mcp.ElicitResult{Action: "accept"}, nil
		}}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, options).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.base + "/mcp", HTTPClient: &http.Client{Transport: bearer{string(token), transport}}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sandbox.tickets.create",
		Arguments: json.RawMessage(`{"project":"orders","title":"Over MCP","body":"b","severity":"low"}`)})
	if err != nil || r.IsError || org.Count("Over MCP") != 1 {
		t.Fatalf("create: %+v, %v, %d tickets", r, err, org.Count("Over MCP"))
	}
	for _, q := range org.Requests() {
		raw, _ := json.Marshal(q)
		if strings.Contains(string(raw), string(token)) {
			t.Error("the inbound token reached the provider")
		}
	}
}

// bearer presents a token.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

func TestInstallHints(t *testing.T) {
	c := newCLI(t, "acme/alice")
	hints := c.json(0, "mcp", "install-hints")
	if args, _ := at(hints, "stdio", "args").([]any); len(args) < 5 || args[0] != "mcp" || text(hints, "http", "url") == "" {
		t.Errorf("hints: %v", hints)
	}
	if strings.Contains(c.seen.String(), "dbl_") {
		t.Error("a token is printed")
	}
}
