package mcp

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the door refuses reaches no provider, whatever the SDK behind it would make of it.
//
// Guarantee: MCP1, MCP2, MCP4
func TestTheDoorAndTheServerReadTheSameCall(t *testing.T) {
	i, org, url := twoHops(t)
	token := i.issue("mcp:read")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	const search = `"params":{"name":"sandbox.tickets.search","arguments":{"query":"customer","page_size":2,"cursor":null},` + meta + `}`
	const create = `{"name":"sandbox.tickets.create","arguments":{"project":"orders","title":"t","body":"b","severity":"low"},` + meta + `}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + search + `}`
	headers := func(name string) map[string]string {
		return map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
	}
	right := headers("sandbox.tickets.search")
	for _, c := range []struct {
		name    string
		headers map[string]string
		body    string
		status  int
	}{
		{"as it should be", right, call, http.StatusOK},
		{"a batch", right, "[" + call + "," + call + "]", http.StatusBadRequest},
		{"a batch of the era that had them", map[string]string{"Mcp-Protocol-Version": "2025-03-26"}, "[" + call + "," + call + "]", http.StatusBadRequest},
		{"no version", map[string]string{}, call, http.StatusBadRequest},
		{"an old version", map[string]string{"Mcp-Protocol-Version": "2024-10-07"}, call, http.StatusBadRequest},
		{"a version to come", map[string]string{"Mcp-Protocol-Version": "2099-01-01"}, call, http.StatusBadRequest},
		{"another version inside", right, strings.ReplaceAll(call, "2026-07-28", "2025-11-25"), http.StatusBadRequest},
		{"another tool in the header", headers("sandbox.tickets.get"), call, http.StatusBadRequest},
		{"a read in the header, a write in the body", right, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + create + `}`, http.StatusForbidden},
		{"a write behind another method", headers("sandbox.tickets.create"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","Method":"ping","params":` + create + `}`, http.StatusBadRequest},
		{"a write behind other parameters", headers("sandbox.tickets.create"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + create + `,"Params":{"name":"sandbox.tickets.search"}}`, http.StatusBadRequest},
		{"no tool in the header", map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}, call, http.StatusBadRequest},
	} {
		before := len(org.Requests())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		asked := len(org.Requests()) > before
		if resp.StatusCode != c.status || asked != (c.status == http.StatusOK) {
			t.Errorf("%s: %d, want %d; the provider was asked: %t; %.300s", c.name, resp.StatusCode, c.status, asked, answer)
		}
	}
}
