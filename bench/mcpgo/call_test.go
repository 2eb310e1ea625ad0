// Package mcpgo measures one stateless tools/call through our server beside the same
// answer from another Go library, mark3labs/mcp-go. It is a module of its own, so that
// the product does not depend on what it is compared with:
//
//	cd bench/mcpgo && go test -bench .
package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	other "github.com/mark3labs/mcp-go/mcp"
	otherserver "github.com/mark3labs/mcp-go/server"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

const tool = "desk.tickets.search"

// canned answers every call alike and at once: what is measured is the way there and
// back.
type canned struct{ data json.RawMessage }

var open = json.RawMessage(`{"type":"object"}`)

func (canned) Tools(context.Context, connector.Caller) ([]connector.Definition, error) {
	return []connector.Definition{{Name: "tickets.search", Title: "Search tickets", Description: "Finds tickets.", InputSchema: open, OutputSchema: open, Connector: "desk", Version: "1"}}, nil
}

func (c canned) Execute(_ context.Context, _ connector.Caller, call connector.Call) connector.Result {
	return connector.Result{CallID: call.ID, Tool: call.Tool, Status: connector.StatusSuccess, Summary: "10 tickets", Data: c.data}
}

// tickets are as many bytes as ten of them usually are.
func tickets() json.RawMessage {
	var items []map[string]string
	for i := range 10 {
		items = append(items, map[string]string{"id": fmt.Sprint("orders-", i), "title": "The checkout fails for a customer", "body": strings.Repeat("Something happened. ", 15), "status": "open"})
	}
	raw, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		panic(err) // texts
	}
	return raw
}

func ours(b *testing.B) string {
	db, err := store.Open(b.Context(), store.Config{URL: filepath.Join(b.TempDir(), "mcp.db"), Migrations: []store.Migrations{mcpexpose.Migrations()}})
	must(b, err)
	b.Cleanup(func() { db.Close() })
	secret, err := keys.Generate()
	must(b, err)
	ring, err := keys.Parse(secret)
	must(b, err)
	server, err := mcpexpose.New(mcpexpose.Config{Mounts: []mcpexpose.Mount{{Name: "desk", Runtime: canned{tickets()}}}, DB: db, Keys: ring})
	must(b, err)
	var door http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.ServeHTTP(w, r) }))
	b.Cleanup(web.Close)
	e, err := edge.New(edge.Config{Resource: web.URL + "/mcp", Verifier: edge.Static("token", edge.Identity{Caller: connector.Caller{Tenant: "acme", Principal: "bob"}}),
		Limits: edge.Limits{Principal: 1e9, Tenant: 1e9, Tool: 1e9}})
	must(b, err)
	door = e.Wrap(server.Handler())
	return web.URL + "/mcp"
}

// theirs returns what ours returned, already made, behind no door at all.
func theirs(b *testing.B, answer result) string {
	s := otherserver.NewMCPServer("other", "1")
	s.AddTool(other.NewToolWithRawSchema(tool, "Finds tickets.", open), func(context.Context, other.CallToolRequest) (*other.CallToolResult, error) {
		return other.NewToolResultStructured(answer.StructuredContent, answer.Content[0].Text), nil
	})
	web := httptest.NewServer(otherserver.NewStreamableHTTPServer(s, otherserver.WithStateLess(true)))
	b.Cleanup(web.Close)
	return web.URL + "/mcp"
}

type result struct {
	StructuredContent json.RawMessage
	Content           []struct{ Text string }
}

func call(b *testing.B, client *http.Client, url string) []byte {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"query":"customer"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	must(b, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer token",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	must(b, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(b, err)
	if resp.StatusCode != http.StatusOK || !bytes.Contains(raw, []byte("orders-9")) {
		b.Fatalf("%d: %.300s", resp.StatusCode, raw)
	}
	if _, data, event := bytes.Cut(raw, []byte("data: ")); event {
		raw = data
	}
	return raw
}

// BenchmarkCall runs both in turn and compares medians. Ours does what a door does
// (host, origin, token, rates), decides who may see the tool, and makes the envelope
// and its text; theirs returns the finished bytes.
func BenchmarkCall(b *testing.B) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	b.Cleanup(client.CloseIdleConnections)
	us := ours(b)
	var first struct{ Result result }
	must(b, json.NewDecoder(bytes.NewReader(call(b, client, us))).Decode(&first))
	urls := []string{theirs(b, first.Result), us}
	for range 20 {
		call(b, client, urls[0])
		call(b, client, urls[1])
	}
	var times [2][]time.Duration
	for b.Loop() {
		for i, url := range urls {
			start := time.Now()
			call(b, client, url)
			times[i] = append(times[i], time.Since(start))
		}
	}
	var median [2]time.Duration
	for i := range times {
		slices.Sort(times[i])
		median[i] = times[i][len(times[i])/2]
	}
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(float64(median[0].Nanoseconds()), "mcp-go-ns")
	b.ReportMetric(float64(median[1].Nanoseconds()), "ours-ns")
	b.ReportMetric(float64(median[1])/float64(median[0]), "x-mcp-go")
	b.ReportMetric(testing.AllocsPerRun(50, func() { call(b, client, urls[0]) }), "mcp-go-allocs")
	b.ReportMetric(testing.AllocsPerRun(50, func() { call(b, client, urls[1]) }), "ours-allocs")
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
