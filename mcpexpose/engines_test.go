package mcpexpose

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// each runs a test on every database, with a server of one tool.
func each(t *testing.T, f func(t *testing.T, s *Server)) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db, err := store.Open(t.Context(), store.Config{URL: d.URL, Migrations: []store.Migrations{Migrations()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		text, err := keys.Generate()
		if err != nil {
			t.Fatal(err)
		}
		ring, err := keys.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		config := Config{DB: db, Keys: ring, Connections: oneConnection{}}
		oneTool(nil)(&config)
		s, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
	})
}

// Eight replicas are handed one state at once.
//
// Guarantee: MCP6
func TestAStateIsRedeemedOnceAmongMany(t *testing.T) {
	each(t, func(t *testing.T, s *Server) {
		id := edge.Identity{Caller: alice}
		for range 5 {
			r := round{method: "tools/call", name: "odd.odd.do", args: []byte(`{}`), version: modern}
			var err error
			if r.state, err = s.seal(id, r, purposeConnect, nil); err != nil {
				t.Fatal(err)
			}
			var redeemed atomic.Int32
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if _, _, err := s.redeem(t.Context(), id, r); err == nil {
						redeemed.Add(1)
					}
				})
			}
			all.Wait()
			if n := redeemed.Load(); n != 1 {
				t.Errorf("redeemed %d times, want 1", n)
			}
		}
	})
}

// A replica whose clock is behind takes an expired state for a good one. The
// database's clock does not, so a used state may be forgotten then.
//
// Guarantee: MCP6
func TestTheDatabasesClockEndsAState(t *testing.T) {
	each(t, func(t *testing.T, s *Server) {
		id, r := edge.Identity{Caller: alice}, round{method: "tools/call", name: "odd.odd.do", args: []byte(`{}`), version: modern}
		s.now = func() time.Time { return time.Now().Add(-time.Hour) }
		var err error
		if r.state, err = s.seal(id, r, purposeConnect, nil); err != nil {
			t.Fatal(err)
		}
		if _, why := s.open(id, r); why != "" {
			t.Fatalf("by its own clock the state is %s", why)
		}
		if _, _, err := s.redeem(t.Context(), id, r); err == nil {
			t.Error("a state was redeemed an hour late")
		}
	})
}

// Guarantee: RUN10
func TestArtifactsOnEveryDatabase(t *testing.T) {
	each(t, func(t *testing.T, s *Server) {
		ctx, id := t.Context(), edge.Identity{Caller: alice}
		tool, _, err := s.see(ctx, alice, "odd.odd.do")
		if err != nil {
			t.Fatal(err)
		}
		data := json.RawMessage(`{"text":"` + "\u2603" + `"}`)
		a, err := s.keep(ctx, id, tool, data)
		if err != nil {
			t.Fatal(err)
		}
		handle := a.URI[len(artifactPrefix):]
		for name, tt := range map[string]struct {
			caller connector.Caller
			want   bool
		}{"itself": {alice, true}, "another principal": {bob, false}, "another tenant": {globex, false}} {
			r, err := s.artifact(edge.WithIdentity(ctx, edge.Identity{Caller: tt.caller}), a.URI, handle)
			if got := err == nil && r.Contents[0].Text == string(data); got != tt.want {
				t.Errorf("%s: read %t, want %t: %v", name, got, tt.want, err)
			}
		}
		s.Connections = oneConnection{version: 2} // its scopes have changed, say
		if _, err := s.artifact(edge.WithIdentity(ctx, id), a.URI, handle); err == nil {
			t.Error("it opens under another authorization")
		}
		s.Connections = oneConnection{}
		var stored []byte
		if err := s.DB.QueryRowFor(ctx, store.AllTenants(), `SELECT data FROM mcp_artifact`).Scan(&stored); err != nil || json.Valid(stored) {
			t.Errorf("the stored data is not sealed: %q, %v", stored, err)
		}
		s.now = func() time.Time { return time.Now().Add(time.Hour) }
		if _, err := s.artifact(edge.WithIdentity(ctx, id), a.URI, handle); err == nil {
			t.Error("it opens after it expired")
		}
		if _, err := s.keep(ctx, id, tool, data); err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := s.DB.QueryRowFor(ctx, store.AllTenants(), `SELECT COUNT(*) FROM mcp_artifact`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows, want the new one alone: %v", rows, err)
		}
	})
}
