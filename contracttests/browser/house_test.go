package browser

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

var alice = connector.Caller{Tenant: "acme", Principal: "alice"}

// house is the product with its pages. Its person is alice.
type house struct {
	t       *testing.T
	host    *host.Host
	runtime *connector.Runtime
	console *console.Console
	db      *store.DB
	base    string
	info    console.Provider
}

// newHouse opens the product over one ticket system.
func newHouse(t *testing.T, i host.Instance, info console.Provider) *house {
	t.Helper()
	chromium(t) // skips before anything is started
	d := storetest.SQLite(t)
	h, err := host.Open(t.Context(), host.Config{Data: t.TempDir(), Database: d.URL, Policy: host.Local{}, Consent: host.Local{}, Instances: []host.Instance{i}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	s := &house{t: t, host: h, db: d.Open(console.Migrations()), info: info}
	s.runtime, _ = h.Runtime(i.Name)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.console.Handler().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	s.base = server.URL
	s.console = s.pages(alice)
	return s
}

// pages are the same pages with another person who may sign in locally: on one
// database, so that both see what is there.
func (s *house) pages(who connector.Caller) *console.Console {
	s.t.Helper()
	c, err := console.New(console.Config{
		DB: s.db, Keys: s.host.Keys, Credentials: s.host.Credentials, Ledger: s.host.Ledger, LookUp: s.host.Settle, BaseURL: s.base, Local: who,
		Providers: func() []console.Provider { return []console.Provider{s.info} },
		Identify: func(provider string) credentials.Identify {
			r, ok := s.host.Runtime(provider)
			if !ok {
				return nil
			}
			return r.Identify
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// enter opens a browser and signs somebody in by the link that is made for them.
func (s *house) enter(who connector.Caller) *window {
	s.t.Helper()
	link, err := s.pages(who).LocalLink(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	w := newWindow(s.t, string(who.Principal))
	w.open(link)
	w.press("main button")
	w.await("nav")
	return w
}

// sandboxHouse is a house over the sandbox organisation, which is another site than
// the pages as far as a browser can tell.
func sandboxHouse(t *testing.T) (*house, *sandbox.Server) {
	t.Helper()
	chromium(t)
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1, Addr: "[::1]:0"})
	if err != nil {
		t.Logf("no IPv6 here; pages and provider are one site in this run: %v", err)
		if org, err = sandbox.Start(t.Context(), sandbox.Config{Seed: 1}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { org.Close() })
	if err := org.RegisterClient(sandbox.Client{ID: "pages", RedirectURIs: []string{"http://127.0.0.1/callback/sandbox"}}); err != nil {
		t.Fatal(err)
	}
	s := newHouse(t, host.Instance{Name: "sandbox", Driver: "sandbox", URL: org.URL(), ClientID: "pages", Private: host.Loopback(org.URL())},
		console.Provider{Name: "sandbox", Title: "Sandbox", Host: strings.TrimPrefix(org.URL(), "http://"), Scopes: []console.Scope{
			{Name: "tickets:read", Reason: "to find tickets for you"}, {Name: "tickets:write", Reason: "to create the tickets that you approve"},
			{Name: "profile:read", Reason: "to show which account it is"}, {Name: "offline_access", Reason: "to stay connected"},
		}})
	return s, org
}

// atSandbox signs in and allows on the provider's own pages.
func atSandbox(w *window, org *sandbox.Server, login string) {
	w.t.Helper()
	w.await(`form[data-form=login]`)
	for _, u := range org.Users() {
		if u.Login == login {
			w.write("#login", login)
			w.write("#password", u.Password)
		}
	}
	w.press("button[type=submit]")
	w.await(`form[data-form=consent]`)
	w.press("button[value=allow]")
}

// connected connects an account through the pages.
func connected(w *window, s *house, org *sandbox.Server) {
	w.t.Helper()
	w.open(s.base + "/connect?provider=sandbox")
	w.press("main button")
	atSandbox(w, org, "alice")
	w.await(".notice.good")
}

// propose lets an agent ask for a ticket.
func (s *house) create(d tickets.Draft) connector.Result {
	s.t.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.runtime.Execute(s.t.Context(), alice, connector.Call{Tool: "tickets.create", Arguments: raw})
}

func (s *house) propose(d tickets.Draft) string {
	s.t.Helper()
	r := s.create(d)
	if r.Pending == nil {
		s.t.Fatalf("the call answered %s %v, want a pending approval", r.Status, r.Error)
	}
	return s.console.ApprovalLink(string(r.Pending.Approval))
}
