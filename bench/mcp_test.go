package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

// canned answers every call alike and at once: what is measured is the way there
// and back.
type canned struct {
	tools  []connector.Definition
	answer connector.Result
}

func (c canned) Tools(context.Context, connector.Caller) ([]connector.Definition, error) {
	return c.tools, nil
}

func (c canned) Execute(_ context.Context, _ connector.Caller, call connector.Call) connector.Result {
	r := c.answer
	r.CallID, r.Tool = call.ID, call.Tool
	return r
}

const mcpArguments = `{"query":"customer","page_size":10,"cursor":null}`

// ticketTools are the real definitions, and a search as it is really answered.
func ticketTools(b *testing.B) canned {
	b.Helper()
	s := setup(b)
	tools, err := s.runtime.Tools(b.Context(), s.caller)
	must(b, err)
	answer := s.runtime.Execute(b.Context(), s.caller, connector.Call{Tool: "tickets.search", Arguments: json.RawMessage(mcpArguments)})
	if answer.Error != nil || len(answer.Data) < 1000 {
		b.Fatalf("search: %+v with %d bytes", answer.Error, len(answer.Data))
	}
	return canned{tools, answer}
}

func exposed(b *testing.B, r mcpexpose.Runtime) *mcpexpose.Server {
	b.Helper()
	db, err := store.Open(b.Context(), store.Config{URL: filepath.Join(b.TempDir(), "mcp.db"), Migrations: []store.Migrations{mcpexpose.Migrations()}})
	must(b, err)
	b.Cleanup(func() { db.Close() })
	secret, err := keys.Generate()
	must(b, err)
	ring, err := keys.Parse(secret)
	must(b, err)
	server, err := mcpexpose.New(mcpexpose.Config{Mounts: []mcpexpose.Mount{{Name: "desk", Runtime: r}}, DB: db, Keys: ring})
	must(b, err)
	return server
}

// bareServer is the SDK's server with the same tools, as listed, and one answer.
func bareServer(tools []*mcp.Tool, answer *mcp.CallToolResult) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "floor", Version: "1"}, nil)
	for _, t := range tools {
		server.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer, nil })
	}
	return server
}

// post sends one tools/call of the newer era, written by hand: a client of the SDK
// would cost both sides more than what is measured.
func post(b *testing.B, client *http.Client, url string) []byte {
	b.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"desk.tickets.search","arguments":%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, mcpArguments)
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	must(b, err)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "desk.tickets.search"} {
		request.Header.Set(name, value)
	}
	resp, err := client.Do(request)
	must(b, err)
	raw, err := drain(resp)
	must(b, err)
	if resp.StatusCode != http.StatusOK {
		b.Fatalf("status %d: %s", resp.StatusCode, raw)
	}
	return raw
}

// answerIn reads the tool's result out of what post returned, an event or plain.
func answerIn(b *testing.B, raw []byte) *mcp.CallToolResult {
	b.Helper()
	if _, data, ok := bytes.Cut(raw, []byte("data: ")); ok {
		raw = data
	}
	var message struct {
		Result *mcp.CallToolResult `json:"result"`
	}
	must(b, json.NewDecoder(bytes.NewReader(raw)).Decode(&message))
	if message.Result == nil || message.Result.IsError || message.Result.StructuredContent == nil {
		b.Fatalf("no answer in %.300s", raw)
	}
	structured, err := json.Marshal(message.Result.StructuredContent)
	must(b, err)
	message.Result.StructuredContent = json.RawMessage(structured) // as ready as it can be
	return message.Result
}

// BenchmarkMCPCall is one stateless tools/call over HTTP through our server,
// against the SDK's bare server that returns the same bytes, already made. The
// runtime behind ours is canned, so the ratio is what exposing a result costs:
// who may see what, the envelope, the text and its scan. Aim: at most 1.1 times.
func BenchmarkMCPCall(b *testing.B) {
	tools := ticketTools(b)
	inner := exposed(b, tools).Handler()
	id := edge.Identity{Caller: connector.Caller{Tenant: "acme", Principal: "bob"}, Issuer: "https://id.example"}
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(edge.WithIdentity(r.Context(), id)))
	}))
	b.Cleanup(ours.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	b.Cleanup(client.CloseIdleConnections)
	first := post(b, client, ours.URL)

	bare := bareServer(listed(b, ours.URL), answerIn(b, first))
	floor := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare },
		&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	b.Cleanup(floor.Close)
	if got, want := len(post(b, client, floor.URL)), len(first); got < want-200 || got > want+200 {
		b.Fatalf("the floor answers %d bytes, ours %d", got, want)
	}

	pair(b, func() { post(b, client, floor.URL) }, func() { post(b, client, ours.URL) })
	floorBytes, oursBytes := bytesPerRun(func() { post(b, client, floor.URL) }), bytesPerRun(func() { post(b, client, ours.URL) })
	b.ReportMetric(floorBytes, "floor-B")
	b.ReportMetric(oursBytes, "ours-B")
}

// listed is what our server lists, for a floor that lists the same.
func listed(b *testing.B, url string) []*mcp.Tool {
	b.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}, DisableStandaloneSSE: true}, nil)
	must(b, err)
	defer session.Close()
	list, err := session.ListTools(b.Context(), nil)
	must(b, err)
	return list.Tools
}

// bytesPerRun is what one run allocates, client and server together.
func bytesPerRun(f func()) float64 {
	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / runs
}

const stdioVariable = "DRAWBRIDGE_BENCH_STDIO"

// BenchmarkMCPColdStart is a process of its own that serves stdio, from its start to
// the first list of tools. Ours opens its data folder with everything in it, as
// `drawbridge mcp` does; the floor knows its tools already. Aim: at most 1.5 times.
func BenchmarkMCPColdStart(b *testing.B) {
	s := setup(b)
	data := b.TempDir()
	h, err := openStdioHost(b.Context(), data, s.url) // migrates and makes the keys: not a part of each start
	must(b, err)
	must(b, h.Close())
	list, err := json.Marshal(startAndList(b, "ours", data, s.url))
	must(b, err)
	toolsFile := filepath.Join(data, "floor-tools.json")
	must(b, os.WriteFile(toolsFile, list, 0o600))
	pair(b, func() { startAndList(b, "floor", toolsFile) }, func() { startAndList(b, "ours", data, s.url) })
}

func startAndList(b *testing.B, role ...string) []*mcp.Tool {
	b.Helper()
	self, err := os.Executable()
	must(b, err)
	cmd := exec.Command(self, "-test.run=^TestStdioChild$")
	cmd.Env = append(os.Environ(), stdioVariable+"="+strings.Join(role, "\n"))
	cmd.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	must(b, err)
	list, err := session.ListTools(b.Context(), nil)
	must(b, err)
	must(b, session.Close())
	if len(list.Tools) != 3 {
		b.Fatalf("%d tools, want 3", len(list.Tools))
	}
	return list.Tools
}

// TestStdioChild is no test: it is the process that BenchmarkMCPColdStart starts.
func TestStdioChild(t *testing.T) {
	role := strings.Split(os.Getenv(stdioVariable), "\n")
	switch role[0] {
	case "":
		t.Skip("only the benchmark of cold starts runs it")
	case "floor":
		raw, err := os.ReadFile(role[1])
		if err != nil {
			t.Fatal(err)
		}
		var tools []*mcp.Tool
		if err := json.Unmarshal(raw, &tools); err != nil {
			t.Fatal(err)
		}
		_ = bareServer(tools, nil).Run(t.Context(), &mcp.StdioTransport{})
	case "ours":
		h, err := openStdioHost(t.Context(), role[1], role[2])
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		r, _ := h.Runtime("sandbox")
		server, err := mcpexpose.New(mcpexpose.Config{Mounts: []mcpexpose.Mount{{Name: "desk", Provider: "sandbox", Runtime: r}}, DB: h.DB, Keys: h.Keys})
		if err != nil {
			t.Fatal(err)
		}
		_ = server.ServeStdio(t.Context(), connector.Caller{Tenant: "acme", Principal: "bob"}, os.Stdin, os.Stdout)
	}
}

func openStdioHost(ctx context.Context, data, url string) (*host.Host, error) {
	return host.Open(ctx, host.Config{Data: data, Policy: host.Local{}, Consent: host.Local{}, Migrations: []store.Migrations{mcpexpose.Migrations()},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: url, Private: host.Loopback(url)}}})
}
