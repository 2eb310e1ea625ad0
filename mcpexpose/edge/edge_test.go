package edge

import (
	"net/http"
	"strings"
	"testing"
)

// Guarantee: MCP2
func TestHostsAndOrigins(t *testing.T) {
	d := newDoor(t, Config{Verifier: local, Hosts: []string{"proxy.internal:8080"}, Origins: []string{"https://app.example"}})
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for name, c := range map[string]struct {
			host, origin, site string
			good               bool
		}{
			"own":                {"bridge.example", "", "", true},
			"own with port":      {"bridge.example:443", "", "", true},
			"own in capitals":    {"BRIDGE.example", "", "", true},
			"proxy":              {"proxy.internal:8080", "", "", true},
			"rebinding":          {"evil.example", "", "", false},
			"address":            {"127.0.0.1", "", "", false},
			"other port":         {"bridge.example:8443", "", "", false},
			"own page":           {"bridge.example", "https://bridge.example", "same-origin", true},
			"allowed page":       {"bridge.example", "https://app.example", "cross-site", true},
			"foreign page":       {"bridge.example", "https://evil.example", "cross-site", false},
			"foreign, no header": {"bridge.example", "https://evil.example", "", false},
			"null":               {"bridge.example", "null", "", false},
			"other scheme":       {"bridge.example", "http://bridge.example", "", false},
		} {
			resp := d.send(ping, "local-token", func(r *http.Request) {
				r.Method, r.Host = method, c.host
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			})
			if (resp.StatusCode == 200) != c.good || !c.good && resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %d", method, name, resp.StatusCode)
			}
		}
	}
}

// Guarantee: MCP2, MCP4
func TestScopeChallenges(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i, func(c *Config) { c.Effect = effects })
	for name, c := range map[string]struct {
		scope, tool, wants string
	}{
		"read":                  {"mcp:read", "desk.get", ""},
		"write":                 {"mcp:read mcp:write", "desk.create", ""},
		"write without read":    {"mcp:write", "desk.create", "mcp:read mcp:write"},
		"write with read alone": {"mcp:read", "desk.create", "mcp:read mcp:write"},
		"nothing":               {"", "desk.get", "mcp:read"},
		"part of a name":        {"mcp:reader", "desk.get", "mcp:read"},
		"unknown":               {"", "desk.drop", ""},
	} {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			resp := d.send(toolCall(c.tool), i.token(claims{"scope": c.scope}), func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", version) })
			want := `Bearer resource_metadata="` + d.edge.MetadataURL() + `", scope="` + c.wants + `", error="insufficient_scope"`
			if c.wants == "" && resp.StatusCode != 200 || c.wants != "" && (resp.StatusCode != 403 || resp.Header.Get("WWW-Authenticate") != want) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
			}
		}
	}
	for _, method := range []string{"resources/read", "prompts/get"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{}}`
		if resp := d.send(body, i.token(claims{"scope": ""})); resp.StatusCode != http.StatusForbidden || !strings.Contains(resp.Header.Get("WWW-Authenticate"), `scope="mcp:read"`) {
			t.Errorf("%s without a scope: %d", method, resp.StatusCode)
		}
		if resp := d.send(body, i.token(claims{"scope": "mcp:read"})); resp.StatusCode != http.StatusOK {
			t.Errorf("%s with the scope: %d", method, resp.StatusCode)
		}
	}
	// A tool that this caller may not see answers like one that isn't there.
	v, err := NewJWT(t.Context(), JWT{Claims: Claims{Audience: resource, TenantClaim: "tenant", PrincipalClaim: "sub"}, Issuer: i.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Client.CloseIdleConnections)
	hidden := newDoor(t, Config{Verifier: v, Effect: effects})
	if resp := hidden.send(toolCall("desk.create"), i.token(claims{"sub": "hidden", "scope": ""})); resp.StatusCode != 200 {
		t.Errorf("a hidden tool is told by a challenge: %d", resp.StatusCode)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	for _, c := range []Config{{}, {Resource: resource}, {Verifier: local}, {Resource: "http://bridge.example/mcp", Verifier: local}, {Resource: "https://u@bridge.example", Verifier: local},
		{Resource: "https://bridge.example/mcp?x=1", Verifier: local}, {Resource: resource, Verifier: local, MaxBody: -1},
		{Resource: resource, Verifier: local, Origins: []string{"app.example"}}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	for _, j := range []JWT{{Issuer: "https://id.example"}, {Issuer: "http://id.example", Claims: Claims{Audience: "a", Tenant: "t"}},
		{Issuer: "https://id.example", Claims: Claims{Audience: "a"}}, {Issuer: "https://id.example", Claims: Claims{Audience: "a", Tenant: "t", TenantClaim: "t"}},
		{Issuer: "https://id.example", KeysURL: "https://id.example/k", Algorithms: []string{"HS256"}, Claims: Claims{Audience: "a", Tenant: "t"}},
		{Issuer: "https://id.example", KeysURL: "https://id.example/k", Algorithms: []string{"none"}, Claims: Claims{Audience: "a", Tenant: "t"}}} {
		if _, err := NewJWT(t.Context(), j); err == nil {
			t.Errorf("%+v was accepted", j)
		}
	}
}
