package deployments

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/surface"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
)

// What the connector asks for and returns is in testdata/contract. The tests below
// have a provider of their own.
func TestContract(t *testing.T) {
	const one = `{"id": "d1", "service": "api", "version": "v42", "environment": "staging", "state": "queued", "secrets": "hunter2"}`
	staging := []string{"staging"}
	kit.Run(t, kit.Subject{
		Connector: New(), LockFile: surface.FileName,
		Fixed: []kit.Case{
			{Name: "whose account", Answers: []kit.Answer{{Body: `{"id": "u1", "login": "rita", "environments": [{"id": "staging", "name": "Staging"}]}`}}},
			{Name: "two pages", Tool: "deployments.list", Arguments: inEnvironment{"staging"}, Resources: staging, Answers: []kit.Answer{
				{Body: `{"items": [` + one + `], "next": "d1", "complete": true}`}, {Body: `{"items": [], "complete": true}`}}},
			{Name: "rate limit", Tool: "deployments.list", Arguments: inEnvironment{"staging"}, Resources: staging, Answers: []kit.Answer{
				{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"17"}}}}},
			{Name: "get", Tool: "deployments.get", Arguments: byID{"d1"}, Resources: staging, Answers: []kit.Answer{{Body: one}}},
			{Name: "get outside of the grant", Tool: "deployments.get", Arguments: byID{"d1"}, Resources: []string{"production"}, Answers: []kit.Answer{{Body: one}}},
			{Name: "start", Tool: "deployments.start", Arguments: start, Resources: staging, Answers: []kit.Answer{{Status: http.StatusCreated, Body: one}, {Body: one}}},
			{Name: "start elsewhere", Tool: "deployments.start", Arguments: start, Resources: []string{"production"}},
		},
	})
}

// The size that the guide states.
func TestItIsAsShortAsStated(t *testing.T) {
	raw, err := os.ReadFile("deployments.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/writing-a-connector.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := fmt.Sprintf("two reads and a write, in %d lines", strings.Count(string(raw), "\n"))
	if !strings.Contains(string(guide), stated) {
		t.Errorf("docs/writing-a-connector.md does not say %q", stated)
	}
}

func TestIdentify(t *testing.T) {
	d := newDesk(t)
	id, err := d.runtime.Identify(t.Context(), connection(caller))
	if err != nil || id.Account.Login != "rita" || len(id.Resources) != 2 {
		t.Errorf("identity %+v, error %v", id, err)
	}
}

func TestListWalksPages(t *testing.T) {
	d := newDesk(t)
	d.provider.seed("staging", 3)
	type in struct {
		Environment string  `json:"environment"`
		PageSize    int     `json:"page_size"`
		Cursor      *string `json:"cursor"`
	}
	var seen []string
	ask := in{Environment: "staging", PageSize: 2}
	for range 3 {
		out, r := connector.Do[in, struct{ Items []Deployment }](t.Context(), d.runtime, caller, "deployments.list", ask)
		if r.Error != nil {
			t.Fatalf("%s %+v", r.Status, r.Error)
		}
		for _, item := range out.Items {
			seen = append(seen, item.ID)
		}
		if ask.Cursor = r.NextCursor; ask.Cursor == nil {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "d3 d2 d1" {
		t.Errorf("saw %s", got)
	}
}

// Outside the grant answers like absent, and a secret has no place to land in.
func TestGet(t *testing.T) {
	d := newDesk(t)
	d.provider.seed("staging", 1)
	d.provider.seed("production", 1)
	out, r := connector.Do[byID, Deployment](t.Context(), d.runtime, caller, "deployments.get", byID{"d1"})
	if r.Error != nil || out.Service != "api" || strings.Contains(string(r.Data), "hunter2") {
		t.Errorf("got %s, error %+v", r.Data, r.Error)
	}
	for _, id := range []string{"d2", "none"} {
		if _, r := connector.Do[byID, Deployment](t.Context(), d.runtime, caller, "deployments.get", byID{id}); r.Error == nil || r.Error.Code != connector.CodeNotFound {
			t.Errorf("%s ends as %s %+v", id, r.Status, r.Error)
		}
	}
}

var start = Start{"api", "v42", "staging"}

// Nothing is sent before a person agreed, and then it is sent once and read back.
func TestStartOnce(t *testing.T) {
	d := newDesk(t)
	asked := d.start(start)
	if asked.Pending == nil || len(d.provider.all) != 0 {
		t.Fatalf("proposed: %+v; the provider holds %d", asked, len(d.provider.all))
	}
	d.approve(asked)
	first, second := d.start(start), d.start(start)
	if first.Receipt == nil || first.Receipt.Proof() != connector.ProofVerified || !second.Replayed || len(d.provider.all) != 1 {
		t.Errorf("first %+v, second %+v; the provider holds %d", first, second, len(d.provider.all))
	}
}

func TestStartOutsideTheGrantIsNotEvenProposed(t *testing.T) {
	d := newDesk(t)
	r := d.start(Start{"api", "v42", "production"})
	if r.Error == nil || r.Error.Code != connector.CodeNotFound || r.Pending != nil {
		t.Errorf("ends as %s %+v", r.Status, r.Error)
	}
}

// The provider commits and its answer is lost: nobody sends it again.
func TestLostAnswer(t *testing.T) {
	d := newDesk(t)
	d.approve(d.start(start))
	d.provider.loseNext = true
	lost := d.start(start)
	if lost.Status != connector.StatusUnknown {
		t.Fatalf("a lost answer ends as %s %+v", lost.Status, lost.Error)
	}
	rec, err := d.runtime.Settle(t.Context(), caller.Tenant, lost.Effect.Operation)
	if err != nil || rec.State != connector.StateApplied || len(d.provider.all) != 1 {
		t.Errorf("settled as %q, %v; the provider holds %d", rec.State, err, len(d.provider.all))
	}
}

// What the provider stores otherwise than it was sent is in the receipt.
func TestReceiptSaysWhatDiffers(t *testing.T) {
	d := newDesk(t)
	d.provider.pins = "v41"
	d.approve(d.start(start))
	r := d.start(start)
	if r.Receipt == nil || len(r.Receipt.Differences()) != 1 || r.Receipt.Differences()[0].Stored != "v41" {
		t.Errorf("%+v", r)
	}
}

// desk is the connector in the real runtime, with the real transport and ledger,
// against a provider in this process.
type desk struct {
	t        *testing.T
	runtime  *connector.Runtime
	ledger   *operations.Ledger
	provider *provider
}

var caller = connector.Caller{Tenant: "acme", Principal: "alice"}

func newDesk(t *testing.T) *desk {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &provider{made: map[string]string{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	secret, err := keys.Generate()
	must(err)
	ring, err := keys.Parse(secret)
	must(err)
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "test.db"), Migrations: []store.Migrations{operations.Migrations()}})
	must(err)
	t.Cleanup(func() { db.Close() })
	ledger, err := operations.New(operations.Config{DB: db, Keys: ring})
	must(err)
	network, err := transport.New(transport.Config{Profiles: transport.Static{"test": transport.Loopback("test", server.URL)}, Credentials: house{}})
	must(err)
	t.Cleanup(network.Close)
	sealer, err := cursors.New(cursors.Config{Keys: ring})
	must(err)
	runtime, err := connector.New(connector.Config{Connectors: []connector.Connector{New()}, Policy: house{}, Consent: house{},
		Connections: house{}, Transport: network, Cursors: sealer, Operations: ledger, Auditor: house{}})
	must(err)
	t.Cleanup(runtime.Close)
	return &desk{t, runtime, ledger, p}
}

func (d *desk) start(in Start) connector.Result {
	_, r := connector.Do[Start, Deployment](d.t.Context(), d.runtime, caller, "deployments.start", in)
	return r
}

func (d *desk) approve(asked connector.Result) {
	d.t.Helper()
	if asked.Pending == nil {
		d.t.Fatalf("nothing waits for approval: %s %+v", asked.Status, asked.Error)
	}
	if _, err := d.ledger.Approve(d.t.Context(), caller.Tenant, string(asked.Pending.Approval), "maria"); err != nil {
		d.t.Fatal(err)
	}
}

// provider is the other side. It keeps what it made, by the key it came with.
type provider struct {
	mu       sync.Mutex
	all      []Deployment      // oldest first
	made     map[string]string // key to id
	pins     string            // a version that it stores whatever it is sent
	loseNext bool
}

func (p *provider) seed(environment string, n int) {
	for range n {
		p.add(Deployment{Service: "api", Version: "v1", Environment: environment, State: "done"})
	}
}

func (p *provider) add(d Deployment) Deployment {
	d.ID = fmt.Sprintf("d%d", len(p.all)+1)
	p.all = append(p.all, d)
	return d
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	byID := func(id string) (Deployment, bool) {
		i := slices.IndexFunc(p.all, func(d Deployment) bool { return d.ID == id })
		if i < 0 {
			return Deployment{}, false
		}
		return p.all[i], true
	}
	id, one := strings.CutPrefix(r.URL.Path, "/deployments/")
	switch {
	case r.Header.Get("Authorization") != "Bearer test-credential":
		answer(http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
	case r.URL.Path == "/me":
		answer(http.StatusOK, map[string]any{"id": "u1", "login": "rita", "environments": []map[string]string{{"id": "staging", "name": "Staging"}, {"id": "production", "name": "Production"}}})
	case one:
		d, ok := byID(id)
		if !ok {
			answer(http.StatusNotFound, map[string]string{"error": "not found"})
			return
		}
		answer(http.StatusOK, struct {
			Deployment
			Secrets string `json:"secrets"`
		}{d, "hunter2"})
	case r.Method == http.MethodPost:
		made, repeated := byID(p.made[r.Header.Get("Request-Key")])
		if !repeated {
			var d Deployment
			_ = json.NewDecoder(r.Body).Decode(&d)
			if d.State = "queued"; p.pins != "" {
				d.Version = p.pins
			}
			made = p.add(d)
			p.made[r.Header.Get("Request-Key")] = made.ID
		}
		if p.loseNext {
			p.loseNext = false
			panic(http.ErrAbortHandler)
		}
		answer(http.StatusCreated, made)
	default:
		p.list(answer, r.URL.Query())
	}
}

func (p *provider) list(answer func(int, any), q url.Values) {
	found := page{Items: []Deployment{}, Complete: true}
	limit, err := strconv.Atoi(q.Get("limit"))
	if err != nil {
		limit = 100
	}
	after := q.Get("after") == ""
	for _, d := range slices.Backward(p.all) {
		matches := d.Environment == q.Get("environment") && (q.Get("request_key") == "" || p.made[q.Get("request_key")] == d.ID)
		if matches && after && len(found.Items) == limit {
			found.Next = found.Items[limit-1].ID
			break
		}
		if matches && after {
			found.Items = append(found.Items, d)
		}
		after = after || d.ID == q.Get("after")
	}
	answer(http.StatusOK, found)
}

// house stands for what a host brings: it lets everything through, as one
// connection with one credential.
type house struct{}

func (house) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true}, nil
}

func (house) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

func (house) Resolve(_ context.Context, c connector.Caller, _ string, _ []string) (connector.Connection, error) {
	return connection(c), nil
}

// connection may touch staging and nothing else.
func connection(c connector.Caller) connector.Connection {
	return connector.Connection{ID: "con-1", Tenant: c.Tenant, Principal: c.Principal, Provider: "deployments", Profile: "test",
		Resources: []string{"staging"}, AuthzVersion: 1}
}

func (house) Current(context.Context, connector.Connection) error { return nil }

func (house) Record(context.Context, connector.AuditRecord) error { return nil }

func (house) Authorize(context.Context, connector.Connection, int64) (transport.Credential, error) {
	return credential{}, nil
}

type credential struct{}

func (credential) Apply(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer test-credential")
	return nil
}

func (credential) Version() int64 { return 1 }
