package gitea_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// fixture answers in the shapes that contracttests/gitea has seen a Gitea 1.26
// answer in. It is none: it has no users, no rights and no index, and exists to
// put the driver in front of states that a real one is rarely in.
type fixture struct {
	*httptest.Server

	mu       sync.Mutex
	pageSize int // ceiling of a page
	open     bool
	repos    []string
	issues   map[string][]issue // by repository, newest first
	labels   map[string][]string
	seen     []string // method, path and query
	bodies   []string // of creates
	before   func(w http.ResponseWriter, r *http.Request) bool
	after    func(w http.ResponseWriter, made *issue) bool // after a create; true: the answer is lost
}

type user struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Email string `json:"email"`
}

type label struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type issue struct {
	ID          int64     `json:"id"`
	Number      int64     `json:"number"`
	User        *user     `json:"user"`
	Title       string    `json:"title"`
	Body        string    `json:"body"`
	Labels      []label   `json:"labels"`
	State       string    `json:"state"`
	PullRequest *struct{} `json:"pull_request"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
	Repository  any       `json:"repository"`
	Version     int       `json:"content_version"`
}

var (
	ana = &user{2, "ana", "ana@mail.example"}
	ben = &user{3, "ben", "ben@mail.example"}
	day = time.Date(2026, 5, 7, 15, 0, 30, 0, time.FixedZone("", 3*3600))
)

func newFixture(t *testing.T, repos ...string) *fixture {
	f := &fixture{pageSize: 50, repos: repos, issues: map[string][]issue{}, labels: map[string][]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// add puts an issue of ana's in front.
func (f *fixture) add(repo string, edit func(*issue)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(repo, edit)
}

func (f *fixture) put(repo string, edit func(*issue)) *issue {
	n := int64(len(f.issues[repo]) + 1)
	i := issue{ID: 1000 + n, Number: n, User: ana, Title: fmt.Sprintf("Issue %d", n), State: "open", Labels: []label{}, Created: day, Updated: day,
		Repository: map[string]any{"id": 1, "name": repo[strings.Index(repo, "/")+1:], "owner": repo[:strings.Index(repo, "/")], "full_name": repo}}
	if edit != nil {
		edit(&i)
	}
	f.issues[repo] = append([]issue{i}, f.issues[repo]...)
	return &f.issues[repo][0]
}

func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r.Method+" "+r.URL.Path+"?"+r.URL.Query().Encode())
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	if f.before != nil && f.before(w, r) {
		return
	}
	path, api := strings.CutPrefix(r.URL.Path, "/api/v1")
	switch {
	case r.URL.Path == "/login/oauth/access_token":
		f.answer(w, 200, map[string]any{"access_token": "fixture-access", "refresh_token": "fixture-refresh", "token_type": "bearer", "expires_in": 3600})
	case !api || r.Header.Get("Authorization") != "Bearer fixture-access":
		f.answer(w, 401, map[string]string{"message": "invalid username, password or token"})
	case path == "/user":
		f.answer(w, 200, ana)
	case path == "/user/repos":
		page(f, w, r, f.repos, func(name string) any {
			return map[string]any{"full_name": name, "permissions": map[string]bool{"pull": true}}
		})
	case path == "/notifications/new" && f.open:
		f.answer(w, 200, map[string]int{"new": 0})
	case path == "/notifications/new":
		f.answer(w, 403, map[string]string{"message": "token does not have at least one of required scope(s), required=[read:notification], token scope=write:issue,read:repository,read:user"})
	default:
		f.repository(w, r, strings.TrimPrefix(path, "/repos/"))
	}
}

func (f *fixture) repository(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.SplitN(path, "/", 4)
	if len(parts) < 3 || !slices.Contains(f.repos, parts[0]+"/"+parts[1]) {
		f.answer(w, 404, map[string]any{"errors": nil, "message": "not found"})
		return
	}
	repo := parts[0] + "/" + parts[1]
	number := ""
	if len(parts) == 4 {
		number = parts[3]
	}
	switch {
	case parts[2] == "labels":
		page(f, w, r, f.labels[repo], func(name string) any {
			return label{int64(100 + slices.Index(f.labels[repo], name)), name}
		})
	case number != "":
		for _, i := range f.issues[repo] {
			if strconv.FormatInt(i.Number, 10) == number {
				f.answer(w, 200, i)
				return
			}
		}
		f.answer(w, 404, map[string]any{"errors": nil, "message": "not found"})
	case r.Method == http.MethodPost:
		f.create(w, r, repo)
	default:
		state, found := r.URL.Query().Get("state"), []issue{}
		for _, i := range f.issues[repo] {
			// type=issues is not obeyed: what the driver does with pull requests shows then.
			if state == "all" || i.State == state {
				found = append(found, i)
			}
		}
		page(f, w, r, found, func(i issue) any { return i })
	}
}

func (f *fixture) create(w http.ResponseWriter, r *http.Request, repo string) {
	var in struct {
		Title  string  `json:"title"`
		Body   string  `json:"body"`
		Labels []int64 `json:"labels"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		f.answer(w, 422, map[string]string{"message": "[]: " + err.Error()})
		return
	}
	made := f.put(repo, func(i *issue) {
		i.Title, i.Body = in.Title, in.Body
		for _, id := range in.Labels {
			i.Labels = append(i.Labels, label{id, f.labels[repo][id-100]})
		}
	})
	f.bodies = append(f.bodies, in.Body)
	if f.after == nil || !f.after(w, made) {
		f.answer(w, 201, made)
	}
}

func (f *fixture) answer(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func page[T any](f *fixture, w http.ResponseWriter, r *http.Request, all []T, show func(T) any) {
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	limit, n = min(limit, f.pageSize), max(n, 1)
	items := []any{}
	for i := (n - 1) * limit; i < min(n*limit, len(all)); i++ {
		items = append(items, show(all[i]))
	}
	w.Header().Set("X-Total-Count", strconv.Itoa(len(all)))
	f.answer(w, 200, items)
}

// asked returns and forgets the requests since the last time.
func (f *fixture) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := f.seen
	f.seen = nil
	return seen
}

func (f *fixture) change(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

// client is a principal at a host whose only provider is a fixture.
type client struct {
	t       *testing.T
	f       *fixture
	host    *host.Host
	runtime *connector.Runtime
	caller  connector.Caller
	conn    connector.Connection
}

func connect(t *testing.T, f *fixture, repos ...string) *client {
	t.Helper()
	c := newClient(t, f)
	c.signIn(repos...)
	return c
}

func newClient(t *testing.T, f *fixture) *client {
	t.Helper()
	h, err := host.Open(t.Context(), host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{}, Instances: []host.Instance{
		{Name: "gitea", Driver: "gitea", URL: f.URL, ClientID: "fixture", Private: host.Loopback(f.URL), Rate: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	c := &client{t: t, f: f, host: h, caller: connector.Caller{Tenant: "acme", Principal: "ana"}}
	c.runtime, _ = h.Runtime("gitea")
	return c
}

func (c *client) signIn(repos ...string) {
	c.t.Helper()
	if err := c.trySignIn(repos...); err != nil {
		c.t.Fatal(err)
	}
	c.f.asked()
}

func (c *client) trySignIn(repos ...string) error {
	c.t.Helper()
	const browser = "the scripted browser of ana"
	begun, err := c.host.Credentials.Begin(c.t.Context(), c.caller, credentials.BeginRequest{
		Provider: "gitea", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser, Resources: repos, Connection: c.conn.ID})
	if err != nil {
		c.t.Fatal(err)
	}
	u, err := url.Parse(begun.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	back := url.Values{"code": {"fixture-code"}, "state": {u.Query().Get("state")}}
	conn, err := c.host.Credentials.Finish(c.t.Context(), c.caller, browser, back, c.runtime.Identify)
	if err == nil {
		c.conn = conn
	}
	return err
}

// call runs one tool. No result may hold an address of a person or a token.
// Guarantee: TIX2
func (c *client) call(tool string, arguments any) connector.Result {
	c.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		c.t.Fatal(err)
	}
	r := c.runtime.Execute(context.Background(), c.caller, connector.Call{Tool: tool, Arguments: raw})
	if r.Error != nil && strings.Contains(r.Error.Message, "output schema") {
		c.t.Errorf("%s made something that its own schema refuses", tool)
	}
	wire, err := json.Marshal(r)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, secret := range []string{"mail.example", "fixture-access", "fixture-refresh"} {
		if strings.Contains(string(wire), secret) {
			c.t.Errorf("%s let %s out", tool, secret)
		}
	}
	return r
}

func (c *client) expect(what string, r connector.Result, status connector.Status, code connector.Code, effect connector.Disposition) {
	c.t.Helper()
	got := connector.Code(0)
	if r.Error != nil {
		got = r.Error.Code
	}
	if r.Status != status || got != code || r.Effect.Disposition != effect {
		c.t.Errorf("%s: %s %v %s, want %s %v %s", what, r.Status, got, r.Effect.Disposition, status, code, effect)
	}
}

// approved proposes a draft and has a person approve it.
func (c *client) approved(d tickets.Draft) *connector.Pending {
	c.t.Helper()
	r := c.call("tickets.create", d)
	if r.Pending == nil {
		c.t.Fatalf("nothing to approve: %+v", r.Error)
	}
	if _, err := c.host.Ledger.Approve(c.t.Context(), c.caller.Tenant, string(r.Pending.Approval), "maria"); err != nil {
		c.t.Fatal(err)
	}
	return r.Pending
}

func (c *client) settle(id connector.OperationID) connector.OperationRecord {
	c.t.Helper()
	rec, err := c.runtime.Settle(c.t.Context(), c.caller.Tenant, id)
	if err != nil {
		c.t.Fatal(err)
	}
	return rec
}

func missing(r connector.Result) (reasons []string) {
	for _, m := range r.Coverage.Missing {
		reasons = append(reasons, m.Reason)
	}
	return reasons
}
