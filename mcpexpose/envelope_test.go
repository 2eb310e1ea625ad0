package mcpexpose

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// judge tells whether structured content fits the output schema of a tool as it is
// listed. The SDK's typed tools hold their answers against such a schema.
func judge(t *testing.T, listed *mcp.Tool) func(structured any) error {
	t.Helper()
	var answer map[string]any
	server := mcp.NewServer(&mcp.Implementation{Name: "judge", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "judge", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: listed.OutputSchema},
		func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, map[string]any, error) {
			return nil, answer, nil
		})
	here, there := mcp.NewInMemoryTransports()
	serving, err := server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { serving.Close() })
	client, err := mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return func(structured any) error {
		answer = structured.(map[string]any)
		_, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "judge"})
		return err
	}
}

// Whatever a tool answers, success or error, fits the one schema that it is listed with,
// and nothing that failed or is not known looks like a success. T44
//
// Guarantee: MCP5
func TestEveryAnswerFitsTheListedSchema(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.InlineBytes = 3000 })
	h.connect(alice)
	approves := h.client(alice, modern, func(url string) string {
		if _, err := h.host.Ledger.Approve(t.Context(), "acme", url[strings.LastIndex(url, "/")+1:], "alice"); err != nil {
			t.Error(err)
		}
		return "accept"
	})
	plain, stranger := h.client(alice, modern, nil), h.client(bob, modern, nil)
	list, err := plain.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	judges := map[string]func(any) error{}
	for _, tool := range list.Tools {
		judges[tool.Name] = judge(t, tool)
	}
	lost := strings.Replace(draft, `"title":"`, `"title":"lost `, 1)
	if err := h.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Nth: []int{2}},
		Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}}); err != nil {
		t.Fatal(err)
	}
	statuses := map[string]bool{}
	for _, c := range []struct {
		as         *mcp.ClientSession
		tool, args string
		want       string // status, code or what else is in it
	}{
		{plain, "search", strings.Replace(searchAll, "5", "2", 1), `"status":"success"`},
		{plain, "search", strings.Replace(searchAll, "5", "50", 1), `"artifact":`},
		{plain, "search", strings.Replace(searchAll, "customer", "no such words", 1), `"status":"empty"`},
		{plain, "search", `{"page_size":-1,"more":true}`, `"faults":`},
		{plain, "search", strings.Replace(searchAll, "null", `"forged"`, 1), `CURSOR_INVALID`},
		{stranger, "search", searchAll, `CONNECTION_REQUIRED`},
		{plain, "get", `{"id":"no-such"}`, `NOT_FOUND`},
		{plain, "create", draft, `"pending":`},
		{approves, "create", draft, `"receipt":`},
		{plain, "create", draft, `"replayed":true`},
		{approves, "create", lost, `"code":"OUTCOME_UNKNOWN"`},
	} {
		name := "desk.tickets." + c.tool
		r, err := c.as.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(c.args)})
		if err != nil {
			t.Errorf("%s %s: %v", name, c.args, err)
			continue
		}
		raw, _ := json.Marshal(r.StructuredContent)
		if !strings.Contains(string(raw), c.want) {
			t.Errorf("%s %s has no %s: %s", name, c.args, c.want, raw)
		}
		if err := judges[name](r.StructuredContent); err != nil {
			t.Errorf("%s %s does not fit its schema: %v\n%s", name, c.args, err, raw)
		}
		content := r.StructuredContent.(map[string]any)
		if fine := content["status"] == "success" || content["status"] == "empty"; r.IsError == fine {
			t.Errorf("%s %s: status %v, isError %t", name, c.args, content["status"], r.IsError)
		}
		if effect, _ := content["effect"].(map[string]any); c.args == lost && effect["operation_id"] == nil {
			t.Errorf("an unknown outcome without its operation: %s", raw)
		}
		statuses[content["status"].(string)] = true
		for change, damage := range map[string]func(map[string]any){
			"more":        func(m map[string]any) { m["more"] = true },
			"no coverage": func(m map[string]any) { delete(m, "coverage") },
			"data":        func(m map[string]any) { m["data"] = map[string]any{"secret": 1} },
			"status":      func(m map[string]any) { m["status"] = "fine" },
		} {
			damaged := maps.Clone(content)
			damage(damaged)
			if judges[name](damaged) == nil {
				t.Fatalf("%s: the schema lets %q through", name, change)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(statuses)); len(got) < 3 {
		t.Errorf("only the statuses %v were seen", got)
	}
}

// A definition may keep shapes of its data apart, and the envelope must find them.
//
// Guarantee: MCP5
func TestTheEnvelopeKeepsDefinitions(t *testing.T) {
	output := json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"n":{"type":"integer"}},
		"type":"object","additionalProperties":false,"properties":{"n":{"$ref":"#/$defs/n"}}}`)
	tool, err := describe(shown{Mount{Name: "m"}, connector.Definition{Name: "x.y", Effect: connector.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: output}})
	if err != nil {
		t.Fatal(err)
	}
	fits := judge(t, tool)
	envelope := func(n any) map[string]any {
		return map[string]any{"call_id": "c", "tool": "m.x.y", "status": "success", "summary": "", "truncated": false, "next_cursor": nil,
			"coverage": map[string]any{"complete": true}, "effect": map[string]any{"disposition": "none"}, "data": map[string]any{"n": n}}
	}
	if err := fits(envelope(1)); err != nil {
		t.Error(err)
	}
	if fits(envelope("one")) == nil {
		t.Error("a text passes for a number")
	}
}
