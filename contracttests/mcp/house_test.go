package mcp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

// packages finds what .ci/conformance installed. Where it was not run, tests that need
// it are skipped; in CI that is a failure.
func packages(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRAWBRIDGE_TEST_NODE_MODULES")
	if dir == "" {
		if os.Getenv("CI_REQUIRE_NODE") != "" {
			t.Fatal("DRAWBRIDGE_TEST_NODE_MODULES is not set: run it through .ci/conformance")
		}
		t.Skip("needs Node and npm packages: make conformance")
	}
	return dir
}

// brief is for programs that would rather wait for a person than end.
func brief(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// node runs a program of the installed packages.
func node(ctx context.Context, modules string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(modules, "node", "bin", "node"), args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(modules, "node", "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"NODE_PATH="+modules, "NO_COLOR=1")
	return cmd
}

var alice = connector.Caller{Tenant: "acme", Principal: "alice"}

// open makes the product over a sandbox organisation.
func open(t *testing.T, native *mcpexpose.Native) (*host.Host, *mcpexpose.Server, *sandbox.Server) {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	h, err := host.Open(context.Background(), host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{},
		Migrations: []store.Migrations{mcpexpose.Migrations()},
		Instances:  []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1e6}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	runtime, _ := h.Runtime("sandbox")
	server, err := mcpexpose.New(mcpexpose.Config{Mounts: []mcpexpose.Mount{{Name: "sandbox", Runtime: runtime}}, DB: h.DB, Keys: h.Keys, Native: native,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		t.Fatal(err)
	}
	return h, server, org
}

// listen puts the real edge in front. With a token, a request that brings none gets
// that one in front of the door: the suite can't send any.
func listen(t *testing.T, server *mcpexpose.Server, token string, config func(resource string) edge.Config) string {
	t.Helper()
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	c := config(web.URL + "/mcp")
	c.Resource, c.Limits = web.URL+"/mcp", edge.Limits{Principal: 1e6, Tenant: 1e6, Tool: 1e6}
	door, err := edge.New(c)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", door.Wrap(server.Handler()))
	for _, path := range door.MetadataPaths() {
		mux.Handle(path, door.Metadata())
	}
	handler = mux
	return c.Resource
}

const suiteToken = "the-token-of-the-suite"

func local(string) edge.Config {
	return edge.Config{Verifier: edge.Static(suiteToken, edge.Identity{Caller: alice})}
}
