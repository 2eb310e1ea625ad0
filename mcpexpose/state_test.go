package mcpexpose

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// Guarantee: MCP6
func TestRequestStateIsBoundAndUsedOnce(t *testing.T) {
	h := newHouse(t)
	s := h.server
	id := edge.Identity{Caller: alice, Issuer: "https://id.example", ClientID: "c1"}
	asked := round{method: "tools/call", name: "desk.tickets.create", args: []byte(`{"a":1,"b":"x"}`), version: modern}
	made := func() string {
		state, err := s.seal(id, asked, "approve", []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(state, "payload") || len(state) > 1500 {
			t.Fatalf("the state is %q", state)
		}
		return state
	}
	flip := func(state string, at int) string {
		raw, _ := base64.RawURLEncoding.DecodeString(state)
		raw[at%len(raw)] ^= 1
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	refused := map[string]func(i *edge.Identity, r *round){
		"first bit":       func(_ *edge.Identity, r *round) { r.state = flip(r.state, 0) },
		"middle bit":      func(_ *edge.Identity, r *round) { r.state = flip(r.state, 60) },
		"last bit":        func(_ *edge.Identity, r *round) { r.state = flip(r.state, len(r.state)*3/4-1) },
		"cut":             func(_ *edge.Identity, r *round) { r.state = r.state[:len(r.state)/2] },
		"longer":          func(_ *edge.Identity, r *round) { r.state += "AAAA" },
		"not base64":      func(_ *edge.Identity, r *round) { r.state = "-TAMPERED" },
		"appended":        func(_ *edge.Identity, r *round) { r.state += "-TAMPERED" },
		"huge":            func(_ *edge.Identity, r *round) { r.state = strings.Repeat("A", 1<<20) },
		"other tool":      func(_ *edge.Identity, r *round) { r.name = "desk.tickets.get" },
		"other method":    func(_ *edge.Identity, r *round) { r.method = "prompts/get" },
		"other arguments": func(_ *edge.Identity, r *round) { r.args = []byte(`{"a":2,"b":"x"}`) },
		"more arguments":  func(_ *edge.Identity, r *round) { r.args = []byte(`{"a":1,"b":"x","c":null}`) },
		"other era":       func(_ *edge.Identity, r *round) { r.version = "2027-01-01" },
		"other tenant":    func(i *edge.Identity, _ *round) { i.Caller.Tenant = "globex" },
		"other principal": func(i *edge.Identity, _ *round) { i.Caller.Principal = "bob" },
		"other connection": func(i *edge.Identity, _ *round) {
			i.Caller.Connection = "con_2"
		},
		"other issuer": func(i *edge.Identity, _ *round) { i.Issuer = "https://other.example" },
		"other client": func(i *edge.Identity, _ *round) { i.ClientID = "c2" },
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		who, r := id, asked
		r.state = made()
		refused[name](&who, &r)
		_, payload, err := s.redeem(t.Context(), who, r)
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams || payload != nil || err.Error() != errState().Error() {
			t.Errorf("%s: %q, %v", name, payload, err)
		}
	}
	r := asked
	r.state = made()
	r.args = []byte(` {"b":"x", "a":1.0}`) // the same arguments, as another encoder writes them
	if purpose, payload, err := s.redeem(t.Context(), id, r); err != nil || purpose != "approve" || string(payload) != "payload" {
		t.Errorf("the right one: %s %q %v", purpose, payload, err)
	}
	if _, _, err := s.redeem(t.Context(), id, r); err == nil {
		t.Error("a state was used twice")
	}
	other, err := New(s.Config) // another replica on the same database
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.redeem(t.Context(), id, r); err == nil {
		t.Error("a state was used again at another replica")
	}
	r.state = made()
	s.now = func() time.Time { return time.Now().Add(stateTTL + time.Second) }
	if _, _, err := s.redeem(t.Context(), id, r); err == nil {
		t.Error("an expired state was used")
	}
}

// The wire shows the same: a state of one call does not open another.
//
// Guarantee: MCP6
func TestForeignStateOnTheWire(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	h.connect(bob)
	ask := func(c connector.Caller, arguments, state string) (*mcp.CallToolResult, error) {
		options := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
			Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}}
		s := h.session(c, modern, options)
		return s.CallTool(t.Context(), &mcp.CallToolParams{Name: "desk.tickets.create", Arguments: json.RawMessage(arguments), RequestState: state})
	}
	first, err := ask(alice, draft, "")
	if err != nil || first.RequestState == "" || len(first.InputRequests) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if raw, _ := json.Marshal(first); strings.Contains(string(raw), `"text"`) {
		t.Errorf("there is text beside the question: %s", raw)
	}
	if _, err := ask(bob, draft, first.RequestState); err == nil {
		t.Error("another principal's state was taken")
	}
	if _, err := ask(alice, strings.Replace(draft, "high", "low", 1), first.RequestState); err == nil {
		t.Error("a state was taken for other arguments")
	}
	if again, err := ask(alice, draft, first.RequestState); err != nil || again.RequestState == "" || again.RequestState == first.RequestState {
		t.Errorf("the right one: %v", err)
	}
	if _, err := ask(alice, draft, first.RequestState); err == nil {
		t.Error("a state was taken twice")
	}
	if n := h.org.Count("Printer on fire"); n != 0 {
		t.Errorf("%d tickets were made", n)
	}
}
