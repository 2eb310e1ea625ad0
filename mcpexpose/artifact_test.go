package mcpexpose

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// oneConnection is everybody's, and has one id.
type oneConnection struct{ version int64 }

func (o oneConnection) Resolve(_ context.Context, c connector.Caller, _ string, _ []string) (connector.Connection, error) {
	if c.Connection != "" && c.Connection != "con_1" {
		return connector.Connection{}, &connector.Error{Code: connector.CodeConnectionRequired}
	}
	return connector.Connection{ID: "con_1", Tenant: c.Tenant, Principal: c.Principal, AuthzVersion: o.version}, nil
}

func (oneConnection) Current(context.Context, connector.Connection) error { return nil }

// What was kept goes with the connection that it came through: not after it was
// disconnected, nor through the one that was made in its place, nor without the tool.
//
// Guarantee: RUN10
func TestAnArtifactIsReadThroughItsConnectionAlone(t *testing.T) {
	h := newHouse(t, func(c *Config) { c.InlineBytes = 100 })
	h.connect(alice)
	s := h.client(alice, modern, nil)
	e, _, err := call(t, s, "desk.tickets.search", searchAll)
	if err != nil || e.Artifact == nil || len(e.Data) != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	readable := func(want bool, when string) {
		t.Helper()
		// Not with the client, which keeps what it has read for a while.
		r, err := h.server.artifact(edge.WithIdentity(t.Context(), edge.Identity{Caller: alice}), e.Artifact.URI, e.Artifact.URI[len(artifactPrefix):])
		if got := err == nil && int64(len(r.Contents[0].Text)) == e.Artifact.Bytes; got != want {
			t.Errorf("%s: readable %t, want %t: %v", when, got, want, err)
		}
		if absent := mcp.ResourceNotFoundError(e.Artifact.URI); !want && (err == nil || err.Error() != absent.Error()) {
			t.Errorf("%s: %v, want %v", when, err, absent)
		}
	}
	readable(true, "at once")
	h.gates.forbid("alice", "tickets.search", true)
	readable(false, "without the right to search")
	h.gates.forbid("alice", "tickets.search", false)
	readable(true, "with it again")
	views, err := h.host.Credentials.List(t.Context(), alice)
	if err != nil || len(views) != 1 {
		t.Fatalf("%d connections, %v", len(views), err)
	}
	if _, err := h.host.Credentials.Disconnect(t.Context(), alice, views[0].Connection.ID, "by the test"); err != nil {
		t.Fatal(err)
	}
	readable(false, "after it was disconnected")
	h.connect(alice)
	readable(false, "through a new connection")
}

// Guarantee: RUN10
func TestLargeDataThatIsNotKeptIsRefused(t *testing.T) {
	data := json.RawMessage(`{"text":"0123456789"}`)
	cursor := "next"
	read := connector.Result{Status: connector.StatusSuccess, Data: data, NextCursor: &cursor, Coverage: connector.Coverage{Complete: true}}
	written := read
	written.Effect = connector.EffectReport{Disposition: connector.DispositionApplied, Operation: "op_1"}
	for name, tt := range map[string]struct {
		result connector.Result
		keeps  connector.Connections
		before int // artifacts
		status string
		code   string
	}{
		"a read, and nothing is kept":        {read, nil, 0, "error", "TOO_LARGE"},
		"a read, and there are too many":     {read, oneConnection{}, maxArtifacts, "error", "TOO_LARGE"},
		"a read, and one more may be kept":   {read, oneConnection{}, maxArtifacts - 1, "success", ""},
		"a write stays applied all the same": {written, nil, 0, "partial", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(c *Config) { c.InlineBytes, c.Connections = 10, tt.keeps },
				oneTool(func(context.Context, connector.Call) connector.Result { return tt.result }))
			s := h.client(alice, modern, nil)
			for range tt.before {
				if _, err := h.server.keep(t.Context(), edge.Identity{Caller: alice}, shown{mount: h.server.Mounts[1]}, data); err != nil {
					t.Fatal(err)
				}
			}
			e, r, err := call(t, s, "odd.odd.do", `{}`)
			if err != nil || e.Status != tt.status || e.code() != tt.code || len(e.Data) != 0 || r.IsError != (tt.code != "") || (tt.status != "success" && e.NextCursor != nil) {
				t.Errorf("%+v, %v", e, err)
			}
			if tt.result.Effect.Disposition == connector.DispositionApplied && (e.Effect.Disposition != "applied" || e.Effect.Operation != "op_1") {
				t.Errorf("effect %+v", e.Effect)
			}
			// Another principal has room of their own.
			if other, _, err := call(t, h.client(bob, modern, nil), "odd.odd.do", `{}`); tt.keeps != nil && (err != nil || other.Artifact == nil) {
				t.Errorf("bob: %+v, %v", other, err)
			}
		})
	}
}
