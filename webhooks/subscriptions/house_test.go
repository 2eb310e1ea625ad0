package subscriptions

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a model of one behind a ledger: what it has, what it is asked, and
// what a person let pass.
type provider struct {
	mu    sync.Mutex
	ways  Ways
	gone  bool // the connection
	down  error
	hooks []Hook
	made  map[string]Hook // by intent, as the ledger keeps it
	asked []string        // intents that wait for a person
	ok    map[string]bool // intents that a person approved
	lost  bool            // answers do not come back
	life  time.Duration
	now   func() time.Time
	sent  int // writes
	lists int
	fails []Failed
}

const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func (p *provider) Ways(name string) (Ways, bool) { return p.ways, name == "model" }

func (p *provider) Connection(_ context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return connector.Connection{}, connector.Fail(connector.CodeConnectionRequired, "")
	}
	return conn(tenant, id), nil
}

func conn(tenant connector.TenantID, id connector.ConnectionID) connector.Connection {
	return connector.Connection{ID: id, Tenant: tenant, Principal: "alice", Provider: "model", Resources: []string{"orders"}}
}

func (p *provider) Hooks(context.Context, connector.Connection, string) ([]Hook, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
	if p.down != nil {
		return nil, p.down
	}
	list := slices.Clone(p.hooks)
	for i := range list {
		list[i].SigningKey = ""
	}
	return list, nil
}

// write is one write under an intent: proposed, then approved, then sent once.
func (p *provider) write(intent string, send func() (Hook, bool)) (Hook, connector.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, done := p.made[intent]; done {
		return h, connector.Result{Status: connector.StatusSuccess, Replayed: true, Effect: connector.EffectReport{Disposition: connector.DispositionApplied}}
	}
	fault := func(code connector.Code, d connector.Disposition) connector.Result {
		return connector.Result{Status: connector.StatusError, Error: &connector.ErrorReport{Code: code}, Effect: connector.EffectReport{Disposition: d}}
	}
	if !p.ok[intent] {
		p.asked = append(p.asked, intent)
		r := fault(connector.CodeApprovalRequired, connector.DispositionNone)
		r.Pending = &connector.Pending{Approval: connector.ApprovalID("apr " + intent)}
		return Hook{}, r
	}
	p.sent++
	h, ok := send()
	if !ok {
		return Hook{}, fault(connector.CodeNotFound, connector.DispositionNotApplied)
	}
	p.made[intent] = h
	if p.lost {
		h.SigningKey = "" // as it is found again
		p.made[intent] = h
		return Hook{}, fault(connector.CodeOutcomeUnknown, connector.DispositionUnknown)
	}
	return h, connector.Result{Status: connector.StatusSuccess, Effect: connector.EffectReport{Disposition: connector.DispositionApplied}}
}

func (p *provider) Make(_ context.Context, _ connector.Connection, intent string, d Draft) (Hook, connector.Result) {
	return p.write(intent, func() (Hook, bool) {
		h := Hook{ID: strconv.Itoa(p.sent), Address: d.Address}
		if p.ways.MakesKey {
			h.SigningKey = key
		}
		if p.life > 0 {
			h.ExpiresAt = p.now().Add(p.life)
		}
		p.hooks = append(p.hooks, h)
		return h, true
	})
}

func (p *provider) Renew(_ context.Context, _ connector.Connection, intent, _ string, h Hook) (Hook, connector.Result) {
	return p.write(intent, func() (Hook, bool) {
		for i := range p.hooks {
			if p.hooks[i].ID == h.ID {
				p.hooks[i].ExpiresAt = p.now().Add(p.life)
				return p.hooks[i], true
			}
		}
		return Hook{}, false
	})
}

func (p *provider) Failures(_ context.Context, _ connector.Connection, _, _, after string) (Failures, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, _ := strconv.Atoi(after)
	if n == len(p.fails) {
		return Failures{After: after}, nil
	}
	return Failures{Deliveries: p.fails[n : n+1], After: strconv.Itoa(n + 1), More: n+1 < len(p.fails)}, nil
}

// approve has a person approve everything that waits.
func (p *provider) approve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, intent := range p.asked {
		p.ok[intent] = true
	}
	p.asked = nil
}

func (p *provider) do(f func(*provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// house is a service over a model.
type house struct {
	t   *testing.T
	p   *provider
	db  *store.DB
	box *inbox.Inbox
	s   *Service
	req Request
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

var theirKey = Ways{Scheme: "standard", MakesKey: true, Renews: true, ListsFailures: true}

func each(t *testing.T, ways Ways, fn func(t *testing.T, h *house)) {
	t.Helper()
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(t, open(t, d, ways)) })
}

func open(t *testing.T, d storetest.Database, ways Ways) *house {
	t.Helper()
	h := &house{t: t, db: d.Open(webhooks.Migrations(), inbox.Migrations(), Migrations()), p: &provider{ways: ways, made: map[string]Hook{}, ok: map[string]bool{}}}
	var err error
	h.box, err = inbox.New(inbox.Config{DB: h.db, Sealer: ring()})
	must(t, err)
	hooks, err := webhooks.New(webhooks.Config{DB: h.db, Keys: ring(), Inbox: h.box, Connection: h.p.Connection, Decoders: map[string]webhooks.Decoder{},
		Apply: func(context.Context, inbox.Lease) error { return nil }})
	must(t, err)
	h.s, err = New(Config{DB: h.db, Keys: ring(), Webhooks: hooks, Providers: h.p})
	must(t, err)
	h.p.now = func() time.Time { return time.Now().Add(h.s.skew) }
	c := conn("acme", "c1")
	h.req = Request{Connection: c, Subscriber: c, Origin: "https://bridge.example.org"}
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// subscribe wants a code, zero for success.
func (h *house) subscribe(want connector.Code) Subscription {
	h.t.Helper()
	v, r, err := h.s.Subscribe(h.t.Context(), h.req)
	code := connector.CodeOf(err)
	if r.Error != nil {
		code = r.Error.Code
	}
	if code != want {
		h.t.Fatalf("subscribed with %s (%v), want %s", code, err, want)
	}
	return v
}

// active is a subscription that was approved and made.
func (h *house) active() Subscription {
	h.t.Helper()
	h.subscribe(connector.CodeApprovalRequired)
	h.p.approve()
	v := h.subscribe(0)
	if v.State != Active {
		h.t.Fatalf("subscribed: %+v", v)
	}
	return v
}

// after moves the clock, has the keeper look, and returns the subscription.
func (h *house) after(d time.Duration) Subscription {
	h.t.Helper()
	h.s.skew += d
	must(h.t, h.s.Tick(h.t.Context()))
	return h.only()
}

func (h *house) only() Subscription {
	h.t.Helper()
	all, err := h.s.List(h.t.Context(), "acme", "")
	must(h.t, err)
	all = slices.DeleteFunc(all, func(v Subscription) bool { return v.State == Ended })
	if len(all) != 1 {
		h.t.Fatalf("%d subscriptions", len(all))
	}
	return all[0]
}

// post is the provider's own delivery to the address that it was told.
func (h *house) post(want int, header http.Header) {
	h.t.Helper()
	address := ""
	h.p.do(func(p *provider) { address = p.hooks[len(p.hooks)-1].Address })
	path, ok := strings.CutPrefix(address, h.req.Origin)
	if !ok {
		h.t.Fatalf("the address is elsewhere")
	}
	req := httptest.NewRequestWithContext(h.t.Context(), http.MethodPost, path, strings.NewReader("{}"))
	maps.Copy(req.Header, header)
	w := httptest.NewRecorder()
	h.s.c.Webhooks.Handler().ServeHTTP(w, req)
	if w.Code != want {
		h.t.Errorf("a delivery: %d, want %d", w.Code, want)
	}
}

func (h *house) records() []inbox.Record {
	h.t.Helper()
	all, err := h.box.List(h.t.Context(), inbox.Filter{Tenant: "acme"})
	must(h.t, err)
	slices.SortFunc(all, func(a, b inbox.Record) int { return cmp.Compare(a.DeliveryID, b.DeliveryID) })
	return all
}

func (h *house) exec(query string, args ...any) {
	h.t.Helper()
	must(h.t, h.db.UpdateFor(h.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(h.t.Context(), query, args...)
		return err
	}))
}
