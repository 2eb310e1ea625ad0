package mcpexpose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

var (
	alice  = connector.Caller{Tenant: "acme", Principal: "alice"}
	bob    = connector.Caller{Tenant: "acme", Principal: "bob"}
	globex = connector.Caller{Tenant: "globex", Principal: "alice"}
)

// gates are policy and consent with one forbidden tool for each caller.
type gates struct {
	mu     sync.Mutex
	closed map[connector.PrincipalID]map[string]bool
	broken bool
}

func (g *gates) forbid(who connector.PrincipalID, tool string, yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == nil {
		g.closed = map[connector.PrincipalID]map[string]bool{}
	}
	if g.closed[who] == nil {
		g.closed[who] = map[string]bool{}
	}
	g.closed[who][tool] = yes
}

func (g *gates) Decide(_ context.Context, c connector.Caller, a connector.Action) (connector.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		return connector.Decision{}, fmt.Errorf("policy store with secret dsn is down")
	}
	return connector.Decision{Allow: !g.closed[c.Principal][a.Tool], Version: "1"}, nil
}

func (*gates) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

// pages are the links; what they were asked for is kept.
type pages struct {
	mu    sync.Mutex
	asked []string
}

func (p *pages) Connect(_ context.Context, c connector.Caller, provider string, scopes []string) (string, error) {
	return p.link(fmt.Sprintf("connect %s %s %v", c.Principal, provider, scopes), "https://bridge.example/connect?t=opaque")
}

func (p *pages) Approval(_ context.Context, c connector.Caller, id connector.ApprovalID) (string, error) {
	return p.link(fmt.Sprintf("approve %s", c.Principal), "https://bridge.example/approvals/"+string(id))
}

func (p *pages) link(asked, link string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, asked)
	return link, nil
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// house is the product over a sandbox, behind MCP.
type house struct {
	t      testing.TB
	org    *sandbox.Server
	host   *host.Host
	gates  *gates
	pages  *pages
	log    *logged
	server *Server
	web    *httptest.Server
}

func newHouse(t testing.TB, change ...func(*Config)) *house {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	h := &house{t: t, org: org, gates: &gates{}, pages: &pages{}, log: &logged{}}
	h.host, err = host.Open(context.Background(), host.Config{
		Data: t.TempDir(), Policy: h.gates, Consent: h.gates, Migrations: []store.Migrations{Migrations()}, WatchEvery: 300 * time.Millisecond,
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1e6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.host.Close() })
	runtime, _ := h.host.Runtime("sandbox")
	config := Config{
		Mounts: []Mount{{Name: "desk", Provider: "sandbox", Runtime: runtime}}, DB: h.host.DB, Keys: h.host.Keys, Links: h.pages, Connections: h.host.Credentials, PersonWait: time.Millisecond,
		Logger:   slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Runbooks: []Runbook{{Name: "outcome-unknown", Version: "1", Title: "Unknown outcomes", Text: "# Look it up", Tools: []string{"tickets.create"}}},
		Prompts: []Prompt{{Name: "triage", Title: "Triage", Doc: "Sorts tickets.", Text: "Look at {{query}}.", Tools: []string{"tickets.search"},
			Arguments: []Argument{{Name: "query", Required: true}}}},
	}
	for _, f := range change {
		f(&config)
	}
	if h.server, err = New(config); err != nil {
		t.Fatal(err)
	}
	inner := h.server.Handler()
	h.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c connector.Caller
		if json.Unmarshal([]byte(r.Header.Get("X-Test-Caller")), &c) == nil && c.Tenant != "" {
			r = r.WithContext(edge.WithIdentity(r.Context(), edge.Identity{Caller: c, Issuer: "https://id.example"}))
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(h.web.Close)
	return h
}

// connect gives a person of the sandbox a connection.
func (h *house) connect(c connector.Caller) {
	h.t.Helper()
	runtime, _ := h.host.Runtime("sandbox")
	const key, redirect = "the browser of the tests of MCP", "http://127.0.0.1:1/callback"
	begun, err := h.host.Credentials.Begin(context.Background(), c, credentials.BeginRequest{Provider: "sandbox", RedirectURI: redirect, BrowserKey: key})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, u := range h.org.Users() {
		if u.Login != string(c.Principal) {
			continue
		}
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		back, err := sandbox.Login(context.Background(), &http.Client{Transport: transport}, begun.URL, u.Login, u.Password, true)
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := h.host.Credentials.Finish(context.Background(), c, key, back.Query(), runtime.Identify); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	h.t.Fatalf("the sandbox knows no %s", c.Principal)
}

// as is an HTTP client of one caller.
type as struct {
	caller connector.Caller
	next   http.RoundTripper
}

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, _ := json.Marshal(a.caller)
	r = r.Clone(r.Context())
	r.Header.Set("X-Test-Caller", string(raw))
	return a.next.RoundTrip(r)
}

// client opens a session in one of the eras. A client that opens links lets visit do
// what the person does.
func (h *house) client(c connector.Caller, version string, visit func(url string) string) *mcp.ClientSession {
	h.t.Helper()
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if visit != nil {
		options.Capabilities.Elicitation = &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
		options.ElicitationHandler = func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: visit(req.Params.URL)}, nil
		}
	}
	return h.session(c, version, options)
}

func (h *house) session(c connector.Caller, version string, options *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	transport := &http.Transport{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: h.web.URL, HTTPClient: &http.Client{Transport: as{c, transport}}, DisableStandaloneSSE: true, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	return session
}

// call returns the answered of a tool's answer, and its text.
func call(t testing.TB, s *mcp.ClientSession, tool, arguments string) (answered, *mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return answered{}, nil, err
	}
	return read(t, r), r, nil
}

type answered struct {
	Status     string          `json:"status"`
	Tool       string          `json:"tool"`
	Data       json.RawMessage `json:"data"`
	NextCursor *string         `json:"next_cursor"`
	Replayed   bool            `json:"replayed"`
	Effect     struct {
		Disposition string `json:"disposition"`
		Operation   string `json:"operation_id"`
	} `json:"effect"`
	Error *struct {
		Code     string `json:"code"`
		Approval string `json:"approval_id"`
	} `json:"error"`
	Receipt json.RawMessage `json:"receipt"`
	Pending *struct {
		Digest string `json:"payload_digest"`
	} `json:"pending"`
	Artifact *struct {
		URI   string `json:"uri"`
		Bytes int64  `json:"bytes"`
	} `json:"artifact"`
}

func (e answered) code() string {
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

func read(t testing.TB, r *mcp.CallToolResult) (e answered) {
	t.Helper()
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return e
}

func textOf(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	c, _ := r.Content[0].(*mcp.TextContent)
	if c == nil {
		return ""
	}
	return c.Text
}
