package mcpexpose

//lint:file-ignore SA1019 the suite and older clients use what the protocol has deprecated

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

func refusal(code connector.Code) connector.Result {
	report := connector.Fail(code, "not yet").Report()
	return connector.Result{Status: connector.StatusError, Error: &report}
}

func done(connector.Call) connector.Result {
	return connector.Result{Status: connector.StatusSuccess, Data: json.RawMessage(`{}`)}
}

// The person agrees at once and is done on the page a second later: they are asked
// once, and the call that their client repeated goes through.
//
// Guarantee: MCP6
func TestACallWaitsForThePersonOnThePage(t *testing.T) {
	var runs, visits atomic.Int32
	ids := map[string]bool{}
	h := newHouse(t, func(c *Config) { c.PersonWait = time.Minute }, oneTool(func(_ context.Context, c connector.Call) connector.Result {
		if ids[c.ID] {
			t.Error("two runs have one call id")
		}
		ids[c.ID] = true
		if runs.Add(1) <= 2 { // the call, and its repetition
			return refusal(connector.CodeConnectionRequired)
		}
		return done(c)
	}))
	s := h.client(alice, modern, func(string) string { visits.Add(1); return "accept" })
	e, _, err := call(t, s, "odd.odd.do", `{}`)
	if err != nil || e.Status != "success" || visits.Load() != 1 || runs.Load() != 3 {
		t.Errorf("%+v, %v after %d questions and %d runs", e, err, visits.Load(), runs.Load())
	}
}

// A client that comes back without an answer is not held: nobody has agreed.
//
// Guarantee: MCP6
func TestACallThatNobodyAgreedToDoesNotWait(t *testing.T) {
	var runs atomic.Int32
	h := newHouse(t, func(c *Config) { c.PersonWait = time.Minute }, oneTool(func(context.Context, connector.Call) connector.Result {
		runs.Add(1)
		return refusal(connector.CodeConnectionRequired)
	}))
	s := h.session(alice, modern, &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}})
	state := ""
	for range 2 {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "odd.odd.do", Arguments: json.RawMessage(`{}`), RequestState: state})
		if err != nil || r.RequestState == "" {
			t.Fatalf("%+v, %v", r, err)
		}
		state = r.RequestState
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// Guarantee: MCP6
func TestAWaitEnds(t *testing.T) {
	tests := map[string]struct {
		agreed string
		code   connector.Code
		cancel time.Duration
		want   time.Duration
	}{
		"nobody finishes":           {purposeApprove, connector.CodeApprovalRequired, 0, 20 * time.Second},
		"nobody agreed":             {"", connector.CodeApprovalRequired, 0, 0},
		"another refusal":           {purposeConnect, connector.CodeScopeRequired, 0, 0},
		"a refusal nobody can lift": {purposeConnect, connector.CodePermissionDenied, 0, 0},
		"the client is gone":        {purposeScopes, connector.CodeScopeRequired, 2 * time.Second, 2 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				tool := shown{mount: Mount{Runtime: odd{answer: func(context.Context, connector.Call) connector.Result { runs++; return refusal(tt.code) }}}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, cancel)
				}
				start := time.Now()
				s := &Server{Config: Config{PersonWait: 20 * time.Second}}
				result := s.execute(ctx, edge.Identity{}, tool, connector.Call{}, tt.agreed)
				if result.Error.Code != tt.code || time.Since(start) != tt.want || runs > 12 {
					t.Errorf("%s after %v and %d runs, want %v", result.Error.Code, time.Since(start), runs, tt.want)
				}
			})
		})
	}
}

func TestOnlyAnAcceptIsAReasonToWait(t *testing.T) {
	for name, tt := range map[string]struct {
		answers mcp.InputResponseMap
		want    bool
	}{
		"accept":    {mcp.InputResponseMap{purposeConnect: &mcp.ElicitResult{Action: "accept"}}, true},
		"decline":   {mcp.InputResponseMap{purposeConnect: &mcp.ElicitResult{Action: "decline"}}, false},
		"other key": {mcp.InputResponseMap{purposeScopes: &mcp.ElicitResult{Action: "accept"}}, false},
		"nil":       {mcp.InputResponseMap{purposeConnect: (*mcp.ElicitResult)(nil)}, false},
		"a sample":  {mcp.InputResponseMap{purposeConnect: &mcp.CreateMessageResult{}}, false},
		"none":      {nil, false},
	} {
		if got := accepted(tt.answers, purposeConnect); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
