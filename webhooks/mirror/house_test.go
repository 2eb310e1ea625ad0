package mirror

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

func TestMain(m *testing.M) {
	// Each check is dozens of commits that reach the disk.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// provider is a model of one: what it has, and what it is asked.
type provider struct {
	mu        sync.Mutex
	clock     time.Time
	authz     int64
	resources []string
	gone      bool // the connection gives no credential
	ended     bool // and never will again
	objects   map[string]thing
	page      int
	fetches   []string
	lists     []Query
	fetch     func(id string) (Object, State, error) // replaces the answer
	list      func(Query) (Page, error)
}

type thing struct {
	container string
	order     int64
	coarse    bool
	text      string
	changed   time.Time
	state     State
}

func (p *provider) set(id string, t thing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = p.clock.Add(time.Second)
	if t.container == "" {
		t.container = "orders"
	}
	if t.state == 0 {
		t.state = OK
	}
	if t.order == 0 {
		t.order = p.objects[id].order + 1
	}
	t.changed = p.clock
	p.objects[id] = t
}

func (p *provider) Connection(_ context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return connector.Connection{}, connector.Fail(connector.CodeConnectionRequired, "")
	}
	return connector.Connection{ID: id, Tenant: tenant, Provider: "model", Resources: p.resources, AuthzVersion: p.authz}, nil
}

func (p *provider) Ended(_ context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return connector.Connection{ID: id, Tenant: tenant, Provider: "model", AuthzVersion: p.authz}, p.ended, nil
}

func (p *provider) Fetch(_ context.Context, _ connector.Connection, id string) (Object, State, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetches = append(p.fetches, id)
	if p.fetch != nil {
		return p.fetch(id)
	}
	t, ok := p.objects[id]
	if !ok {
		return Object{}, NoAccess, nil
	}
	return Object{ID: id, Container: t.container, Version: strconv.FormatInt(t.order, 10), Order: t.order, Coarse: t.coarse, UpdatedAt: t.changed,
		Access: []string{t.container}, Data: []byte(t.text)}, t.state, nil
}

func (p *provider) List(_ context.Context, _ connector.Connection, q Query) (Page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists = append(p.lists, q)
	if p.list != nil {
		return p.list(q)
	}
	page := Page{Clock: p.clock}
	for id, t := range p.objects {
		if t.state == OK && slices.Contains(p.resources, t.container) && id > q.Cursor && !t.changed.Before(q.Since) {
			page.Entries = append(page.Entries, Entry{id, strconv.FormatInt(t.order, 10)})
		}
	}
	slices.SortFunc(page.Entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	if len(page.Entries) > p.page {
		page.Entries = page.Entries[:p.page]
		page.Next = page.Entries[p.page-1].ID
	}
	return page, nil
}

// house is a mirror over a model.
type house struct {
	t     testing.TB
	p     *provider
	db    *store.DB
	inbox *inbox.Inbox
	m     *Mirror
	conn  connector.Connection
}

func each(t *testing.T, fn func(t *testing.T, h *house)) {
	t.Helper()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(t, open(t, d, Config{})) })
}

var ring = sync.OnceValue(func() *keys.Ring {
	text, err := keys.Generate()
	if err != nil {
		panic(err)
	}
	r, err := keys.Parse(text)
	if err != nil {
		panic(err)
	}
	return r
})

func open(t testing.TB, d storetest.Database, c Config) *house {
	t.Helper()
	h := &house{t: t, db: d.Open(inbox.Migrations(), Migrations()),
		p: &provider{clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), authz: 1, resources: []string{"orders", "billing"}, objects: map[string]thing{}, page: 3}}
	var err error
	h.conn, err = h.p.Connection(t.Context(), "acme", "c1")
	must(t, err)
	h.inbox, err = inbox.New(inbox.Config{DB: h.db, Sealer: ring(), Reason: Reason})
	must(t, err)
	c.DB, c.Inbox, c.Source, c.Sealer = h.db, h.inbox, h.p, ring()
	h.m, err = New(c)
	must(t, err)
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mark announces changes, as a decoded delivery does.
func (h *house) mark(removes bool, ids ...string) {
	h.t.Helper()
	must(h.t, h.db.UpdateFor(h.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		return h.inbox.Mark(h.t.Context(), tx, marks(ObjectLane(h.conn, ""), ids, removes))
	}))
}

// claim takes one lane.
func (h *house) claim() inbox.Lease {
	h.t.Helper()
	leases, err := h.inbox.Claim(h.t.Context(), 1)
	must(h.t, err)
	if len(leases) != 1 {
		h.t.Fatalf("%d lanes are due, want one", len(leases))
	}
	return leases[0]
}

// drain applies until nothing is due.
func (h *house) drain() {
	h.t.Helper()
	for {
		leases, err := h.inbox.Claim(h.t.Context(), 8)
		must(h.t, err)
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			must(h.t, h.m.Apply(h.t.Context(), l))
		}
	}
}

// drainTwice is drain for fetches that a second one has to agree with, which the
// inbox would have after some seconds.
func (h *house) drainTwice() {
	h.t.Helper()
	for {
		leases, err := h.inbox.Claim(h.t.Context(), 8)
		must(h.t, err)
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			err := h.m.Apply(h.t.Context(), l)
			if errors.Is(err, ErrStale) {
				l.Attempts++
				err = h.m.Apply(h.t.Context(), l)
			}
			must(h.t, err)
		}
	}
}

// text is what the mirror serves of an object.
func (h *house) text(id string) (string, bool) {
	h.t.Helper()
	o, _, ok, err := h.m.Get(h.t.Context(), h.conn, id, time.Hour)
	must(h.t, err)
	return string(o.Data), ok
}

// shows compares the whole mirror with the model.
func (h *house) shows(t interface{ Errorf(string, ...any) }) {
	for id, want := range h.p.objects {
		got, ok := h.text(id)
		if ok != (want.state == OK) || ok && got != want.text {
			t.Errorf("%s: %q, %v; the provider has %q, state %d", id, got, ok, want.text, want.state)
		}
	}
	var live, there int
	must(h.t, h.db.QueryRowFor(h.t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM mirror_object WHERE connection = ? AND state = 1 AND denied = 0`, string(h.conn.ID)).Scan(&live))
	for _, o := range h.p.objects {
		if o.state == OK {
			there++
		}
	}
	if live != there {
		t.Errorf("%d objects, the provider has %d", live, there)
	}
}

func (h *house) fill(n int) {
	for i := range n {
		h.p.set(fmt.Sprintf("t%03d", i), thing{text: fmt.Sprintf("text %d", i)})
	}
}
