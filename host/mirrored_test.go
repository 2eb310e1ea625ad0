package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// gate is a policy and a consent that a test closes.
type gate struct{ denied, unconsented bool }

func (g *gate) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: !g.denied, Version: "gate"}, nil
}

func (g *gate) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return !g.unconsented, nil
}

// copying is a host that serves copies of up to an hour.
type copying struct {
	t        *testing.T
	org      *sandbox.Server
	h        *host.Host
	dir, url string
	gate
}

func openCopying(t *testing.T, d storetest.Database) *copying {
	t.Helper()
	c := &copying{t: t, org: startOrg(t), dir: t.TempDir(), url: d.URL}
	c.h = c.another(3600)
	return c
}

// another is one more host on the same data, with another limit.
func (c *copying) another(limit int) *host.Host {
	c.t.Helper()
	h, err := host.Open(c.t.Context(), host.Config{Data: c.dir, Database: c.url, Policy: &c.gate, Consent: &c.gate,
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: c.org.URL(), Private: host.Loopback(c.org.URL()), Rate: 1000, Concurrency: 16,
			MaxAge: limit}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return h
}

// settle fetches everything that waits.
func (c *copying) settle() {
	c.t.Helper()
	for {
		leases, err := c.h.Webhooks.Inbox().Claim(c.t.Context(), 8)
		if err != nil {
			c.t.Fatal(err)
		}
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			if err := c.h.Mirror.Apply(c.t.Context(), l); err != nil {
				c.t.Fatal(err)
			}
		}
	}
}

func (c *copying) follow(conn connector.Connection) {
	c.t.Helper()
	if err := c.h.Mirror.Reconcile(c.t.Context(), conn); err != nil {
		c.t.Fatal(err)
	}
	c.settle()
}

func call(t *testing.T, h *host.Host, who connector.Caller, tool string, arguments map[string]any) connector.Result {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := h.Runtime("sandbox")
	return r.Execute(t.Context(), who, connector.Call{Tool: tool, Arguments: raw})
}

func (c *copying) get(id string, maxAge int) connector.Result {
	c.t.Helper()
	return call(c.t, c.h, alice, "tickets.get", map[string]any{"id": id, "max_age_seconds": maxAge})
}

// copied and live say where a successful answer came from.
func copied(r connector.Result) bool {
	return r.Status == connector.StatusSuccess && r.Provenance.Source == connector.SourceCopy
}

func live(r connector.Result) bool {
	return r.Status == connector.StatusSuccess && r.Provenance.Source != connector.SourceCopy && len(r.Attempts) == 1
}

func (c *copying) ticket(project, title string) string {
	c.t.Helper()
	made, err := c.org.AddTicket(sandbox.Seed{Project: &project, Title: &title, Body: new("what a reader came for")})
	if err != nil {
		c.t.Fatal(err)
	}
	return made.ID
}

func (c *copying) mark(l inbox.Lane) {
	c.t.Helper()
	if err := c.h.DB.UpdateFor(c.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		return c.h.Webhooks.Inbox().Mark(c.t.Context(), tx, []inbox.Mark{{Lane: l}})
	}); err != nil {
		c.t.Fatal(err)
	}
}

// older stores what an earlier version of the connector made.
type older struct {
	mirror.Source
	conn connector.Connection
}

func (o older) Connection(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error) {
	return o.conn, nil
}

func (o older) Fetch(_ context.Context, _ connector.Connection, id string) (mirror.Object, mirror.State, error) {
	return mirror.Object{ID: id, Container: "orders", Version: "2", Order: 2, Data: fmt.Appendf(nil, `{"id":%q,"project":"orders"}`, id)}, mirror.OK, nil
}

func (c *copying) update(query string, args ...any) {
	c.t.Helper()
	if err := c.h.DB.UpdateFor(c.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(c.t.Context(), query, args...)
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
}

// A copy is the provider's answer of then: as old as its caller allows, and no older
// than the administrator does.
// Guarantee: TIX8
func TestAGetIsAnsweredFromACopy(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		id := c.ticket("orders", "first")
		if r := c.get(id, 3600); !live(r) || r.Provenance.Copies != nil {
			t.Errorf("nothing is stored: %s %+v", r.Status, r.Provenance)
		}
		began := time.Now().Add(-time.Second)
		c.follow(conn)

		asked := len(c.org.Requests())
		kept := c.get(id, 3600)
		if !copied(kept) || len(c.org.Requests()) != asked || len(kept.Attempts) > 0 || kept.Provenance.RequestID != "" {
			t.Fatalf("%s %+v %+v; %d requests", kept.Status, kept.Error, kept.Provenance, len(c.org.Requests())-asked)
		}
		if p := kept.Provenance; p.FetchedAt.Before(began) || p.FetchedAt.After(time.Now()) || p.Copies == nil || p.Copies.State != connector.CopiesComplete {
			t.Errorf("provenance %+v", p)
		}
		fresh := c.get(id, 0)
		if !live(fresh) || string(fresh.Data) != string(kept.Data) || !kept.Coverage.Complete ||
			!cmp.Equal(fresh.Provenance.ObjectVersions, kept.Provenance.ObjectVersions) || fresh.Provenance.Copies != nil {
			t.Errorf("the provider answers %s %+v, the copy was %s", fresh.Data, fresh.Provenance, kept.Data)
		}

		// Nobody announced this change yet: the copy is what it says it is.
		if _, err := c.org.ChangeTicket(id, sandbox.Seed{Title: new("second")}); err != nil {
			t.Fatal(err)
		}
		if r := c.get(id, 3600); !copied(r) || string(r.Data) != string(kept.Data) {
			t.Errorf("before the change is known: %s", r.Data)
		}
		if r := c.get(id, 0); !live(r) || string(r.Data) == string(kept.Data) {
			t.Errorf("the provider: %s", r.Data)
		}
		// Once it is announced, nobody gets the copy, and later the new one.
		lane := mirror.ObjectLane(conn, id)
		c.mark(lane)
		if r := c.get(id, 3600); !live(r) {
			t.Errorf("after an event: %s %+v", r.Status, r.Provenance)
		}
		c.settle()
		if r := c.get(id, 3600); !copied(r) || string(r.Data) == string(kept.Data) {
			t.Errorf("after the event was applied: %s", r.Data)
		}

		// While the provider is away a copy still answers.
		if err := c.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "GET", Path: "/api/v1/tickets/"}, Effect: sandbox.Effect{Kind: "status", Status: http.StatusForbidden}}); err != nil {
			t.Fatal(err)
		}
		if r := c.get(id, 3600); !copied(r) {
			t.Errorf("while the provider refuses: %s %+v", r.Status, r.Error)
		}
		if r := c.get(id, 0); r.Status != connector.StatusError {
			t.Errorf("while the provider refuses, live: %s", r.Status)
		}
		c.org.SetBehaviour(sandbox.Behaviour{})

		c.update(`UPDATE mirror_object SET fetched_at = fetched_at - 60000`)
		for name, x := range map[string]struct {
			h      *host.Host
			asked  int
			copied bool
		}{
			"younger than asked":         {c.h, 3600, true},
			"older than asked":           {c.h, 30, false},
			"a limit that it is under":   {c.another(300), 86400, true},
			"a limit that it is over":    {c.another(30), 3600, false},
			"no copies are to be served": {c.another(0), 3600, false},
		} {
			r := call(t, x.h, alice, "tickets.get", map[string]any{"id": id, "max_age_seconds": x.asked})
			if copied(r) != x.copied || live(r) == x.copied {
				t.Errorf("%s: %s %+v", name, r.Status, r.Provenance)
			}
		}
		for _, age := range []any{-1, 86401, 1.5, "1", nil} {
			if r := call(t, c.h, alice, "tickets.get", map[string]any{"id": id, "max_age_seconds": age}); r.Error == nil || r.Error.Code != connector.CodeInvalidInput {
				t.Errorf("max_age_seconds %v: %s", age, r.Status)
			}
		}
		// What another version made is not understood here.
		m, err := mirror.New(mirror.Config{DB: c.h.DB, Inbox: c.h.Webhooks.Inbox(), Sealer: c.h.Keys, Source: older{conn: conn}, Projection: "0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		c.mark(lane)
		leases, err := c.h.Webhooks.Inbox().Claim(t.Context(), 1)
		if err != nil || len(leases) != 1 {
			t.Fatalf("%d leases, %v", len(leases), err)
		}
		if err := m.Apply(t.Context(), leases[0]); err != nil {
			t.Fatal(err)
		}
		if r := c.get(id, 3600); !live(r) {
			t.Errorf("a copy of another version: %s %+v", r.Status, r.Provenance)
		}
		c.update(`UPDATE mirror_object SET data = ?`, []byte("damaged"))
		if r := c.get(id, 3600); !live(r) {
			t.Errorf("a damaged copy: %s %+v", r.Status, r.Error)
		}
	})
}

// reconnect signs alice in again, for some projects.
func (c *copying) reconnect(id connector.ConnectionID, projects ...string) connector.Connection {
	c.t.Helper()
	const browser = "the browser of the copies"
	begun, err := c.h.Credentials.Begin(c.t.Context(), alice, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser, Connection: id, Resources: projects})
	if err != nil {
		c.t.Fatal(err)
	}
	password := ""
	for _, u := range c.org.Users() {
		if u.Login == "alice" {
			password = u.Password
		}
	}
	back, err := sandbox.Login(c.t.Context(), &http.Client{}, begun.URL, "alice", password, true)
	if err != nil {
		c.t.Fatal(err)
	}
	r, _ := c.h.Runtime("sandbox")
	conn, err := c.h.Credentials.Finish(c.t.Context(), alice, browser, back.Query(), r.Identify)
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// A copy is released by the same rules as an answer of the provider: policy, consent,
// whose connection it is, what that may see now, and whether it is still there. What
// the mirror itself and the read-back of a write fetch is never a copy.
// Guarantee: TIX8, CUR3
func TestACopyIsAuthorizedAnew(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		id, other := c.ticket("orders", "kept"), c.ticket("web", "kept elsewhere")
		c.follow(conn)
		if !copied(c.get(id, 3600)) || !copied(c.get(other, 3600)) {
			t.Fatal("there is no copy to begin with")
		}
		refused := func(what string, r connector.Result, code connector.Code) {
			t.Helper()
			if r.Error == nil || r.Error.Code != code || len(r.Data) > 0 {
				t.Errorf("%s: %s %+v %s", what, r.Status, r.Error, r.Data)
			}
		}
		c.denied = true
		refused("policy", c.get(id, 3600), connector.CodePermissionDenied)
		c.denied, c.unconsented = false, true
		refused("consent", c.get(id, 3600), connector.CodeConsentRequired)
		c.unconsented = false
		for name, who := range map[string]connector.Caller{
			"another principal":           {Tenant: "acme", Principal: "bob"},
			"another principal, by id":    {Tenant: "acme", Principal: "bob", Connection: conn.ID},
			"another tenant's connection": {Tenant: "globex", Principal: "alice", Connection: conn.ID},
		} {
			refused(name, call(t, c.h, who, "tickets.get", map[string]any{"id": id, "max_age_seconds": 3600}), connector.CodeConnectionRequired)
		}

		// The mirror's own fetch asks the provider, however fresh the copy is.
		r, _ := c.h.Runtime("sandbox")
		asked := len(c.org.Requests())
		if _, err := tickets.Fetch(t.Context(), r, alice, id); err != nil || len(c.org.Requests()) != asked+1 {
			t.Errorf("a fetch: %v, %d requests", err, len(c.org.Requests())-asked)
		}

		first := call(t, c.h, alice, "tickets.search", map[string]any{"query": "kept", "page_size": 1, "cursor": nil})
		if first.NextCursor == nil {
			t.Fatalf("no second page: %s %+v", first.Status, first.Error)
		}
		// Narrowed: what is outside is absent, and what is inside is not known any
		// more, because it was fetched under the wider grant.
		narrow := c.reconnect(conn.ID, "orders")
		if narrow.ID != conn.ID {
			t.Fatalf("another connection: %s, %s", narrow.ID, conn.ID)
		}
		refused("outside the grant", c.get(other, 3600), connector.CodeNotFound)
		if r := c.get(id, 3600); !live(r) {
			t.Errorf("inside the grant: %s %+v", r.Status, r.Provenance)
		}
		refused("a cursor of the wider grant", call(t, c.h, alice, "tickets.search", map[string]any{"query": "kept", "page_size": 1, "cursor": *first.NextCursor}), connector.CodeCursorInvalid)
		c.follow(narrow)
		if r := c.get(id, 3600); !copied(r) {
			t.Errorf("inside, fetched anew: %s %+v", r.Status, r.Provenance)
		}
		refused("outside, fetched anew", c.get(other, 3600), connector.CodeNotFound)

		if _, err := c.h.Credentials.Disconnect(t.Context(), alice, conn.ID, "the test is over"); err != nil {
			t.Fatal(err)
		}
		refused("disconnected", c.get(id, 3600), connector.CodeConnectionRequired)
	})
}

// A search says what the copies are worth, and its own coverage only what the
// provider answered.
// Guarantee: RUN4
func TestASearchSaysWhatTheCopiesAreWorth(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		c.ticket("orders", "kept")
		search := func(what string, want *connector.CopyState) {
			t.Helper()
			asked := len(c.org.Requests())
			r := call(t, c.h, alice, "tickets.search", map[string]any{"query": "kept", "page_size": 50, "cursor": nil})
			if r.Provenance == nil {
				t.Fatalf("%s: %+v", what, r.Error)
			}
			if diff := cmp.Diff(want, r.Provenance.Copies); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
			if r.Status != connector.StatusSuccess || !r.Coverage.Complete || len(r.Coverage.Missing) > 0 || len(c.org.Requests()) != asked+1 {
				t.Errorf("%s: %s %+v, %d requests", what, r.Status, r.Coverage, len(c.org.Requests())-asked)
			}
		}
		search("not followed", nil)
		if err := c.h.Follow(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		c.settle()
		search("followed, not yet swept", &connector.CopyState{State: connector.CopiesUnknown})
		if err := c.h.Mirror.Reconcile(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		search("swept, not yet fetched", &connector.CopyState{State: connector.CopiesPartial, Reasons: []string{"backlog"}})
		c.settle()
		search("fetched", &connector.CopyState{State: connector.CopiesComplete})
		narrow := c.reconnect(conn.ID, "orders")
		search("another grant", &connector.CopyState{State: connector.CopiesUnknown})
		c.follow(narrow)
		search("fetched under it", &connector.CopyState{State: connector.CopiesComplete})
	})
}

// What a connection has stored goes with it, with the next periodic work.
// Guarantee: TIX8
func TestADisconnectIsForgotten(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		c := openCopying(t, d)
		conn := connect(t, c.h, c.org)
		c.ticket("orders", "kept")
		c.follow(conn)
		rows := func() (n int64) {
			t.Helper()
			if err := c.h.DB.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM mirror_object`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if _, err := c.h.Tick(t.Context()); err != nil || rows() == 0 {
			t.Fatalf("%d rows, %v", rows(), err)
		}
		// The provider refuses to revoke: the copies do not wait for it.
		if err := c.org.AddRule(sandbox.Rule{Match: sandbox.Match{Path: "/oauth/revoke"}, Effect: sandbox.Effect{Kind: "status", Status: http.StatusServiceUnavailable}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.h.Credentials.Disconnect(t.Context(), alice, conn.ID, "no longer"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.h.Tick(t.Context()); err != nil || rows() != 0 {
			t.Errorf("%d rows are left, %v", rows(), err)
		}
		conn.AuthzVersion++
		if v, err := c.h.Mirror.Coverage(t.Context(), conn); err != nil || v.State != mirror.Forgotten {
			t.Errorf("coverage %+v, %v", v, err)
		}
	})
}
