package edge

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Guarantee: MCP1
func TestOneMessageWithItsVersion(t *testing.T) {
	d := newDoor(t, Config{Verifier: local, MaxBody: 2000})
	version := func(v ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Mcp-Protocol-Version"] = v }
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`
	for name, c := range map[string]struct {
		body    string
		version []string
		status  int
	}{
		"modern":                {ping, []string{"2026-07-28"}, 200},
		"older":                 {ping, []string{"2025-06-18"}, 200},
		"handshake":             {initialize, nil, 200},
		"no version":            {ping, nil, 400},
		"no version, call":      {toolCall("desk.get"), nil, 400},
		"unknown old version":   {ping, []string{"2024-01-01"}, 400},
		"two versions":          {ping, []string{"2026-07-28", "2025-03-26"}, 400},
		"batch":                 {"[" + ping + "," + ping + "]", []string{"2025-03-26"}, 400},
		"batch without version": {"[" + initialize + "]", nil, 400},
		"two documents":         {ping + ping, []string{"2026-07-28"}, 400},
		"names twice":           {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, []string{"2026-07-28"}, 400},
		"tool twice":            {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, []string{"2026-07-28"}, 400},
		"no tool":               {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, []string{"2026-07-28"}, 400},
		"not JSON":              {"{", []string{"2026-07-28"}, 400},
		"text":                  {`"ping"`, []string{"2026-07-28"}, 400},
		"too large":             {ping + strings.Repeat(" ", 2000), []string{"2026-07-28"}, 413},
	} {
		before := d.reached.Load()
		resp := d.send(c.body, "local-token", version(c.version...))
		if resp.StatusCode != c.status || d.reached.Load()-before != map[bool]int64{true: 1}[c.status == 200] {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.status)
		}
	}
	resp := d.send(ping, "local-token", version("2024-01-01"))
	var doc struct {
		ID    int
		Error struct {
			Code int
			Data struct{ Supported []string }
		}
	}
	if json.NewDecoder(resp.Body).Decode(&doc) != nil || doc.ID != 1 || doc.Error.Code != unsupportedVersion || len(doc.Error.Data.Supported) < 3 {
		t.Errorf("an unknown version: %+v", doc)
	}
	if resp := d.send(ping, "local-token", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }); resp.StatusCode != 415 {
		t.Errorf("gzip: %d", resp.StatusCode)
	}
}

// The SDK reads names exactly; a decoder that does not would take the later one.
//
// Guarantee: MCP2
func TestNamesInAnotherCaseHideNoCall(t *testing.T) {
	i := newIssuer(t)
	d := jwtDoor(t, i, func(c *Config) { c.Effect = effects })
	for name, body := range map[string]string{
		"method": `{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":{"name":"desk.create"}}`,
		"tool":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"desk.create","Name":"desk.get"}}`,
		"params": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"desk.create"},"Params":{"name":"desk.get"}}`,
	} {
		if resp := d.send(body, i.token(claims{"scope": "mcp:read"})); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"initialize","params":{"name":"desk.get"}}`, i.token(),
		func(r *http.Request) { r.Header.Del("Mcp-Protocol-Version") })
	if n := d.reached.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

// FuzzMessage hands any body and header to the door. Nothing panics, and a call that
// comes through is the one that was looked at.
func FuzzMessage(f *testing.F) {
	f.Add(ping, "2026-07-28")
	f.Add(toolCall("desk.get"), "2025-11-25")
	f.Add(`{"method":"initialize"}`, "")
	f.Add(`[{"method":"tools/call"}]`, "2025-03-26")
	f.Fuzz(func(t *testing.T, body, version string) {
		d := newDoor(t, Config{Verifier: local})
		resp := d.send(body, "local-token", func(r *http.Request) {
			r.Header.Del("Mcp-Protocol-Version")
			if version != "" {
				r.Header["Mcp-Protocol-Version"] = []string{version}
			}
		})
		if resp.StatusCode != 200 {
			if d.reached.Load() != 0 {
				t.Fatal("refused and let through")
			}
			return
		}
		var doc struct{ Method string }
		if d.last.body != body || strings.HasPrefix(strings.TrimSpace(body), "[") || json.Unmarshal([]byte(body), &doc) != nil || version == "" && doc.Method != "initialize" {
			t.Fatalf("%q came through with version %q", body, version)
		}
	})
}
