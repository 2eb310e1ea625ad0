package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

var (
	tools    = []string{"sandbox.tickets.create", "sandbox.tickets.get", "sandbox.tickets.search"}
	versions = map[string]string{"modern": "2026-07-28", "legacy": "2025-11-25"}
)

// saw is what an official client reports.
type saw struct {
	Consents int
	Version  string
	Tools    []string
	Search   envelope
	Create   envelope
	Unknown  any
}

type envelope struct {
	Status string
	Data   struct{ Items []struct{ ID string } }
	Error  *struct{ Code string }
}

// agent runs client.mjs where it finds the installed packages.
func agent(t *testing.T, modules string, args ...string) saw {
	t.Helper()
	raw, err := os.ReadFile("testdata/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "client.mjs"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	var report saw
	decode(t, run(t, node(brief(t), modules, append([]string{filepath.Join(dir, "client.mjs")}, args...)...)), &report)
	return report
}

// run returns what a program prints, and fails with what it complains about.
func run(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	return converse(t, cmd, func(string) {})
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
}

func (s saw) check(t *testing.T, version string, consents int) {
	t.Helper()
	if s.Version != version || s.Consents != consents {
		t.Errorf("version %s after %d consents, want %s after %d", s.Version, s.Consents, version, consents)
	}
	if diff := cmp.Diff(tools, s.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if s.Search.Error != nil || len(s.Search.Data.Items) != 2 {
		t.Errorf("search: %+v", s.Search)
	}
	// Nobody is there to approve: the client is told so, and nothing happens.
	if s.Create.Error == nil || s.Create.Error.Code != "APPROVAL_REQUIRED" {
		t.Errorf("create: %+v", s.Create)
	}
	if s.Unknown != float64(-32602) {
		t.Errorf("an unknown tool: %v", s.Unknown)
	}
}

// connect gives alice a connection to the organisation: the second hop.
func connect(t *testing.T, h *host.Host, org *sandbox.Server) {
	t.Helper()
	const browser = "the browser that alice sits at"
	begun, err := h.Credentials.Begin(t.Context(), alice, credentials.BeginRequest{Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		t.Fatal(err)
	}
	back, err := sandbox.Login(t.Context(), nil, begun.URL, "alice", password(t, org), true)
	if err != nil {
		t.Fatal(err)
	}
	runtime, _ := h.Runtime("sandbox")
	if _, err := h.Credentials.Finish(t.Context(), alice, browser, back.Query(), runtime.Identify); err != nil {
		t.Fatal(err)
	}
}

func password(t *testing.T, org *sandbox.Server) string {
	t.Helper()
	for _, u := range org.Users() {
		if u.Login == "alice" {
			return u.Password
		}
	}
	t.Fatal("alice is not there")
	return ""
}

// twoHops is the product between an issuer and a provider.
func twoHops(t *testing.T) (i *issuer, org *sandbox.Server, url string) {
	t.Helper()
	h, server, org := open(t, nil)
	connect(t, h, org)
	i = startIssuer(t)
	url = listen(t, server, "", func(resource string) edge.Config {
		i.resource = resource
		v, err := edge.NewJWT(t.Context(), edge.JWT{Issuer: i.URL, Claims: edge.Claims{Audience: resource, TenantClaim: "tenant", PrincipalClaim: "sub"}})
		if err != nil {
			t.Fatal(err)
		}
		return edge.Config{Verifier: v, Issuers: []string{i.URL}, Effect: server.Effect}
	})
	return i, org, url
}

// The official clients sign in by what the door's challenge and metadata say, are
// asked for more when they propose a write, and their tokens stay on this side.
//
// Guarantee: MCP9, MCP1, MCP2, CRE10
func TestOfficialClientsOverHTTP(t *testing.T) {
	modules := packages(t)
	for _, generation := range []string{"modern", "legacy"} {
		t.Run(generation, func(t *testing.T) {
			i, org, url := twoHops(t)
			agent(t, modules, generation, "http", url, clientID, i.redirect).check(t, versions[generation], 2)
			_, scopes := i.given()
			if diff := cmp.Diff([]string{"mcp:read", "mcp:read mcp:write"}, scopes); diff != "" {
				t.Errorf("scopes that were asked for (-want +got):\n%s", diff)
			}
			apart(t, i, org, url)
		})
	}
}

// apart shows that no token of one hop is known on the other.
func apart(t *testing.T, i *issuer, org *sandbox.Server, url string) {
	t.Helper()
	tokens, _ := i.given()
	reads := 0
	for _, r := range org.Requests() {
		raw, _ := json.Marshal(r)
		for _, token := range tokens {
			sum := sha256.Sum256([]byte(token))
			if r.BearerSHA256 == hex.EncodeToString(sum[:]) || bytes.Contains(raw, []byte(token)) {
				t.Errorf("%s %s carried the client's token", r.Method, r.Path)
			}
		}
		if r.Authorization && strings.HasPrefix(r.Path, "/api/v1/tickets") {
			reads++
		}
	}
	if reads == 0 || len(tokens) == 0 {
		t.Errorf("%d requests to the provider and %d tokens prove nothing", reads, len(tokens))
	}
	provider := slices.DeleteFunc(org.Canaries(), func(s string) bool { return !strings.HasPrefix(s, "sat_") })
	if len(provider) == 0 {
		t.Error("the provider gave no token")
	}
	for _, token := range provider {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the provider's token at our door: %d", resp.StatusCode)
		}
	}
}

// installed builds the command and connects alice by it. The arguments serve stdio.
func installed(t *testing.T) []string {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	dir := t.TempDir()
	command, data := filepath.Join(dir, "drawbridge"), filepath.Join(dir, "data")
	run(t, exec.CommandContext(t.Context(), "go", "build", "-o", command, "../../cmd/drawbridge"))
	as := string(alice.Tenant) + "/" + string(alice.Principal)
	run(t, exec.CommandContext(t.Context(), command, "connect", "--data", data, "--as", as, "--provider", "sandbox", "--url", org.URL(), "--login", "alice:"+password(t, org)))
	return []string{command, "mcp", "--data", data, "--as", as}
}

// Guarantee: MCP9, MCP1
func TestOfficialClientsOverStdio(t *testing.T) {
	modules := packages(t)
	server := installed(t)
	for _, generation := range []string{"modern", "legacy"} {
		t.Run(generation, func(t *testing.T) {
			want := versions[generation]
			if generation == "legacy" {
				want = "" // this client does not say what it agreed on
			}
			agent(t, modules, append([]string{generation, "stdio"}, server...)...).check(t, want, 0)
		})
	}
	t.Run("inspector", func(t *testing.T) {
		i := newInspector(t, modules)
		i.check(t, func(args ...string) []byte {
			return run(t, i.command(brief(t), append(args, append([]string{"--"}, server...)...)...))
		})
	})
}

// Guarantee: MCP9
func TestInspectorOverHTTP(t *testing.T) {
	modules := packages(t)
	server, org, url := twoHops(t)
	server.redirect = "http://127.0.0.1:" + freePort(t) + "/oauth/callback"
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			i := newInspector(t, modules)
			i.check(t, func(args ...string) []byte {
				return i.browse(t, i.command(brief(t), append(args, "--server-url", url, "--transport", "http", "--protocol-era", era,
					"--client-id", clientID, "--callback-url", server.redirect)...))
			})
		})
	}
	apart(t, server, org, url)
}
