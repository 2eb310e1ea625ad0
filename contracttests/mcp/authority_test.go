package mcp

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// The suite's scenarios for authorization servers, at the sandbox's and at the one of
// the first hop: the tests that lean on them prove as much as these follow the protocol.
func TestOurAuthorizationServersFollowTheProtocol(t *testing.T) {
	modules := packages(t)
	const wanted = 2
	ask := func(t *testing.T, name, url, client, port string, browse func(page string)) {
		t.Helper()
		out, page := t.TempDir(), ""
		converse(t, node(brief(t), modules, filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
			"authorization", "--url", url, "--client-id", client, "--resource", "https://bridge.example/mcp", "--port", port, "-o", out), func(line string) {
			if found := link.FindString(line); found != "" {
				page = found
			}
			if strings.HasPrefix(line, "Callback server started") {
				browse(page)
			}
		})
		scenarios, _, failed := results(t, out)
		passed := 0
		for scenario, good := range scenarios {
			if good {
				passed++
			} else {
				t.Errorf("%s failed: %v", scenario, failed[scenario])
			}
		}
		if passed != wanted {
			t.Errorf("%d scenarios passed, want %d", passed, wanted)
		}
		fmt.Printf("figure: conformance of %s  %d of %d scenarios\n", name, passed, wanted)
	}
	t.Run("sandbox", func(t *testing.T) {
		org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { org.Close() })
		secret := password(t, org)
		ask(t, "the sandbox", org.URL(), "drawbridge-cli", freePort(t), func(page string) {
			// The suite asks for no scope; a server may insist on one (RFC 6749 section 3.3).
			back, err := sandbox.Login(t.Context(), nil, page+"&scope=tickets:read", "alice", secret, true)
			if err != nil {
				t.Errorf("the sign-in: %v", err)
				return
			}
			visit(t, back.String())
		})
	})
	t.Run("issuer", func(t *testing.T) {
		i, port := startIssuer(t), freePort(t)
		i.resource, i.redirect = "https://bridge.example/mcp", "http://127.0.0.1:"+port+"/callback"
		ask(t, "the issuer", i.URL, clientID, port, func(page string) { visit(t, page) })
	})
}
