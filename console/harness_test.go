package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	acmeAlice   = connector.Caller{Tenant: "acme", Principal: "alice"}
	acmeBob     = connector.Caller{Tenant: "acme", Principal: "bob"}
	globexAlice = connector.Caller{Tenant: "globex", Principal: "alice"}
)

// desk is the whole product with its pages over a sandbox organisation.
type desk struct {
	t       testing.TB
	org     *sandbox.Server
	host    *host.Host
	runtime *connector.Runtime
	db      *store.DB
	console *Console
	server  *httptest.Server
}

// newDesk opens everything on a database of its own. change may alter the
// configuration of the pages.
func newDesk(t testing.TB, d storetest.Database, change ...func(*Config)) *desk {
	t.Helper()
	return newDeskOf(t, d, func(*host.Instance) {}, func(*host.Config) {}, change...)
}

// newDeskOf is newDesk with changes to the ticket system and to what is below the pages.
func newDeskOf(t testing.TB, d storetest.Database, instance func(*host.Instance), below func(*host.Config), change ...func(*Config)) *desk {
	t.Helper()
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	if err := org.RegisterClient(sandbox.Client{ID: "pages", RedirectURIs: []string{"http://127.0.0.1/callback/sandbox"}}); err != nil {
		t.Fatal(err)
	}
	i := host.Instance{Name: "sandbox", Driver: "sandbox", URL: org.URL(), ClientID: "pages", Private: host.Loopback(org.URL()),
		Scopes: []string{"tickets:read", "tickets:write", "profile:read", "offline_access"}, MoreScopes: []string{"webhooks:manage"}}
	instance(&i)
	hosted := host.Config{Data: t.TempDir(), Database: d.URL, Policy: host.Local{}, Consent: host.Local{}, Instances: []host.Instance{i}}
	below(&hosted)
	h, err := host.Open(t.Context(), hosted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	k := &desk{t: t, org: org, host: h, db: d.Open(Migrations())}
	k.runtime, _ = h.Runtime("sandbox")
	k.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.console.Handler().ServeHTTP(w, r) }))
	k.server.Start()
	t.Cleanup(k.server.Close)
	config := Config{
		DB: k.db, Keys: h.Keys, Credentials: h.Credentials, Ledger: h.Ledger, LookUp: h.Settle,
		Identify: func(provider string) credentials.Identify {
			r, ok := h.Runtime(provider)
			if !ok {
				return nil
			}
			return r.Identify
		},
		Providers: func() []Provider {
			return []Provider{{Name: "sandbox", Title: "Sandbox", Host: strings.TrimPrefix(org.URL(), "http://"), Scopes: []Scope{
				{Name: "tickets:read", Reason: "to find tickets for you"}, {Name: "tickets:write", Reason: "to create the tickets that you approve"},
				{Name: "profile:read", Reason: "to show which account it is"}, {Name: "offline_access", Reason: "to stay connected"},
				{Name: "webhooks:manage", Reason: "to be told of changes", Extra: true},
			}}}
		},
		BaseURL: k.server.URL, Local: acmeAlice,
	}
	for _, f := range change {
		f(&config)
	}
	if k.console, err = New(config); err != nil {
		t.Fatal(err)
	}
	return k
}

// each runs a story on both engines.
func each(t *testing.T, fn func(t *testing.T, k *desk)) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		fn(t, newDesk(t, d))
	})
}

// browser is one person's browser: it keeps cookies and goes where it is sent only
// within the pages.
type browser struct {
	k      *desk
	client *http.Client
}

// answer is what a browser got, after redirects.
type answer struct {
	status int
	body   string
	header http.Header
	url    *url.URL
}

func (k *desk) browser() *browser {
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	k.t.Cleanup(transport.CloseIdleConnections)
	return &browser{k, &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second}}
}

// as signs somebody in, through the door of the session itself.
func (k *desk) as(who connector.Caller) *browser {
	k.t.Helper()
	b := k.browser()
	w := httptest.NewRecorder()
	if err := k.console.signIn(k.t.Context(), w, nil, who, string(who.Principal)); err != nil {
		k.t.Fatal(err)
	}
	base, _ := url.Parse(k.server.URL)
	b.client.Jar.SetCookies(base, w.Result().Cookies())
	return b
}

func (b *browser) do(r *http.Request) answer {
	b.k.t.Helper()
	resp, err := b.client.Do(r)
	if err != nil {
		b.k.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.k.t.Fatal(err)
	}
	return answer{resp.StatusCode, string(body), resp.Header, resp.Request.URL}
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.k.t.Helper()
	address := path
	if strings.HasPrefix(path, "/") {
		address = b.k.server.URL + path
	}
	r, err := http.NewRequestWithContext(b.k.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.k.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (b *browser) get(path string) answer {
	b.k.t.Helper()
	return b.do(b.request(http.MethodGet, path, nil))
}

// post sends a form with the session's token.
func (b *browser) post(path string, form url.Values) answer {
	b.k.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	form.Set("csrf", b.csrf())
	return b.do(b.request(http.MethodPost, path, form))
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func (b *browser) csrf() string {
	b.k.t.Helper()
	found := csrfField.FindStringSubmatch(b.get("/").body)
	if found == nil {
		b.k.t.Fatal("the page has no CSRF token")
	}
	return found[1]
}

var onward = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]+)"`)

// leave reads where a page sends the browser by itself.
func (a answer) leave(t testing.TB) string {
	t.Helper()
	found := onward.FindStringSubmatch(a.body)
	if found == nil {
		t.Fatalf("the page (%d) does not lead on:\n%s", a.status, a.body)
	}
	return html.UnescapeString(found[1])
}

// atProvider walks the provider's pages and returns the path of the way back.
func (k *desk) atProvider(address, login string, allow bool) string {
	k.t.Helper()
	var password string
	for _, u := range k.org.Users() {
		if u.Login == login {
			password = u.Password
		}
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	back, err := sandbox.Login(k.t.Context(), &http.Client{Transport: transport, Timeout: 10 * time.Second}, address, login, password, allow)
	if err != nil {
		k.t.Fatal(err)
	}
	return back.RequestURI()
}

// connect makes a connection through the pages and returns its id.
func (b *browser) connect(login string) connector.ConnectionID {
	b.k.t.Helper()
	a := b.post("/connect", url.Values{"provider": {"sandbox"}})
	done := b.get(b.k.atProvider(a.leave(b.k.t), login, true))
	if done.status != http.StatusOK || !strings.HasSuffix(done.url.Path, "/connected") {
		b.k.t.Fatalf("connecting ended with %d at %s:\n%s", done.status, done.url.Path, done.body)
	}
	return connector.ConnectionID(strings.Split(done.url.Path, "/")[2])
}

// propose lets an agent ask for a ticket and returns the pending approval.
func (k *desk) propose(who connector.Caller, draft tickets.Draft) *connector.Pending {
	k.t.Helper()
	r := k.create(who, draft)
	if r.Pending == nil {
		k.t.Fatalf("the call answered %s, want a pending approval", r.Status)
	}
	return r.Pending
}

func (k *desk) create(who connector.Caller, draft tickets.Draft) connector.Result {
	k.t.Helper()
	raw, err := json.Marshal(draft)
	if err != nil {
		k.t.Fatal(err)
	}
	return k.runtime.Execute(k.t.Context(), who, connector.Call{Tool: "tickets.create", Arguments: raw})
}

var draft = tickets.Draft{Project: "orders", Title: "Checkout times out", Body: "Since noon.", Severity: "high"}

var tag = regexp.MustCompile(`<[^>]*>`)

// shows checks for text, or for markup.
func shows(t testing.TB, a answer, status int, texts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status is %d, want %d; page:\n%s", a.status, status, a.body)
	}
	markup := html.UnescapeString(a.body)
	plain := html.UnescapeString(tag.ReplaceAllString(a.body, ""))
	for _, text := range texts {
		if !strings.Contains(plain, text) && !strings.Contains(markup, text) {
			t.Errorf("the page does not show %q:\n%s", text, a.body)
		}
	}
}

// rows are those of a table, of all tenants, as text.
func (k *desk) rows(table string) []string {
	k.t.Helper()
	var all []string
	err := k.db.ViewFor(k.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		rows, err := tx.Query(k.t.Context(), `SELECT * FROM `+table)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			cells, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range cells {
				into[i] = &cells[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			var row strings.Builder
			for _, cell := range cells {
				if b, ok := cell.([]byte); ok {
					cell = string(b)
				}
				fmt.Fprintf(&row, "%v|", cell)
			}
			all = append(all, row.String())
		}
		return rows.Err()
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return all
}

// exec changes the database behind the pages' back.
func (k *desk) exec(query string, args ...any) {
	k.t.Helper()
	err := k.db.UpdateFor(k.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(context.WithoutCancel(k.t.Context()), query, args...)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// sqlite is for what does not depend on the engine.
func sqlite(t testing.TB, change ...func(*Config)) *desk {
	t.Helper()
	return newDesk(t, storetest.SQLite(t), change...)
}

// fakeDeliveries keeps what was asked of it.
type fakeDeliveries struct {
	mu    sync.Mutex
	moved []string
}

func (f *fakeDeliveries) Deliveries(_ context.Context, who connector.Caller) ([]Delivery, error) {
	if who != acmeAlice {
		return nil, nil
	}
	return []Delivery{{ID: "dlv_1", Provider: "sandbox", Kind: "ticket.changed", Resource: "orders/7", State: "parked", Parked: true, Problem: "the handler failed", Attempts: 3, ReceivedAt: time.Now()}}, nil
}

func (f *fakeDeliveries) Delivery(ctx context.Context, who connector.Caller, id string) (Delivery, error) {
	all, _ := f.Deliveries(ctx, who)
	if len(all) == 0 || all[0].ID != id {
		return Delivery{}, connector.Fail(connector.CodeNotFound, "no such delivery")
	}
	return all[0], nil
}

func (f *fakeDeliveries) move(ctx context.Context, who connector.Caller, id, what string) error {
	if _, err := f.Delivery(ctx, who, id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = append(f.moved, what+" "+id)
	return nil
}

func (f *fakeDeliveries) Replay(ctx context.Context, who connector.Caller, id string) error {
	return f.move(ctx, who, id, "replay")
}

func (f *fakeDeliveries) Unpark(ctx context.Context, who connector.Caller, id string) error {
	return f.move(ctx, who, id, "unpark")
}

func filterOf(who connector.Caller) operations.Filter {
	return operations.Filter{Principal: who.Principal}
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func newGet(t testing.TB) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
}
