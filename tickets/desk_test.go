package tickets_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// desk is a whole installation in front of a sandbox organisation of its own.
type desk struct {
	t       *testing.T
	org     *sandbox.Server
	host    *host.Host
	runtime *connector.Runtime
	data    string

	posted, created int // before this part of the test
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	d := &desk{t: t, org: org, data: t.TempDir()}
	d.host, err = host.Open(t.Context(), host.Config{Data: d.data, Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.host.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	d.runtime, _ = d.host.Runtime("sandbox")
	return d
}

// timed is the sandbox's driver with another settle time.
type timed struct {
	sandboxorg.Driver
	settle time.Duration
}

func (t timed) Facts() tickets.Facts {
	f := t.Driver.Facts()
	f.Provider, f.Settle = "sandbox", t.settle
	return f
}

type noAudit struct{}

func (noAudit) Record(context.Context, connector.AuditRecord) error { return nil }

// retime puts a runtime with other times over the same ledger, connections and
// organisation, so that no test waits for a settle time or depends on one.
func (d *desk) retime(settle, write time.Duration) {
	d.t.Helper()
	d.mount(tickets.New(timed{settle: settle}), write)
}

// mount puts another connector over them. Zero: the usual time for a write.
func (d *desk) mount(c connector.Connector, write time.Duration) {
	d.t.Helper()
	ring, err := keys.OpenFile(filepath.Join(d.data, "keys.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		d.t.Fatal(err)
	}
	profile := transport.Loopback("sandbox", d.org.URL())
	profile.Limits.Rate = 1000
	tr, err := transport.New(transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: d.host.Credentials})
	if err != nil {
		d.t.Fatal(err)
	}
	d.runtime, err = connector.New(connector.Config{
		Connectors: []connector.Connector{c}, Policy: host.Local{}, Consent: host.Local{},
		Connections: d.host.Credentials, Transport: tr, Cursors: codec, Operations: d.host.Ledger, Auditor: noAudit{}, WriteTimeout: write,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		d.runtime.Close()
		tr.Close()
	})
}

func (d *desk) misbehave(rules ...sandbox.Rule) {
	d.t.Helper()
	if err := d.org.SetBehaviour(sandbox.Behaviour{Rules: rules}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) switches(s sandbox.Switches) {
	d.t.Helper()
	if err := d.org.SetBehaviour(sandbox.Behaviour{Switches: s}); err != nil {
		d.t.Fatal(err)
	}
}

// The routes that rules are written for.
var (
	onCreate = sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true}
	onList   = sandbox.Match{Method: "GET", Path: "/api/v1/tickets", Exact: true}
	onGet    = sandbox.Match{Method: "GET", Path: "/api/v1/tickets/"}
	onLookUp = sandbox.Match{Method: "GET", Path: "/api/v1/operations/"}
)

func rule(m sandbox.Match, e sandbox.Effect) sandbox.Rule { return sandbox.Rule{Match: m, Effect: e} }

// answers is a rule that puts an answer in place of the organisation's.
func answers(m sandbox.Match, status int, body string) sandbox.Rule {
	return rule(m, sandbox.Effect{Kind: "status", Status: status, Body: body})
}

// asked is how many requests for tickets and operations the provider has seen.
func (d *desk) asked() (n int) {
	for _, r := range d.org.Requests() {
		if strings.HasPrefix(r.Path, "/api/v1/tickets") || strings.HasPrefix(r.Path, "/api/v1/operations") {
			n++
		}
	}
	return n
}

// person is a principal with a connection.
type person struct {
	*desk
	caller     connector.Caller
	connection connector.Connection
}

// connect walks the sign-in and consent pages. Without projects the connection
// gets all that the account sees.
func (d *desk) connect(login string, projects ...string) *person {
	d.t.Helper()
	users := d.org.Users()
	user := users[slices.IndexFunc(users, func(u sandbox.User) bool { return u.Login == login })]
	p := &person{desk: d, caller: connector.Caller{Tenant: connector.TenantID(user.Organisation), Principal: connector.PrincipalID(login)}}
	begun, err := d.host.Credentials.Begin(d.t.Context(), p.caller, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: "the scripted browser of " + login, Resources: projects})
	if err != nil {
		d.t.Fatal(err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	back, err := sandbox.Login(d.t.Context(), browser, begun.URL, login, user.Password, true)
	if err != nil {
		d.t.Fatal(err)
	}
	p.connection, err = d.host.Credentials.Finish(d.t.Context(), p.caller, "the scripted browser of "+login, back.Query(), d.runtime.Identify)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// in is the same person in a part of the test, with books that start anew and
// a provider that behaves.
func (p *person) in(t *testing.T) *person {
	t.Helper()
	d := *p.desk
	d.t, d.posted, d.created = t, d.posts(), len(d.creates())
	d.misbehave()
	return &person{&d, p.caller, p.connection}
}

// titled makes a draft that no other part of the test has proposed.
func titled(t *testing.T) tickets.Draft {
	d := draft
	d.Title = t.Name()
	return d
}

// call runs one tool and checks what must hold for every result, whatever the
// provider did.
// Guarantee: RUN4, TIX2
func (p *person) call(tool string, arguments any) connector.Result {
	p.t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		p.t.Fatal(err)
	}
	r := p.runtime.Execute(p.t.Context(), p.caller, connector.Call{Tool: tool, Arguments: raw})
	failed := r.Status == connector.StatusError || r.Status == connector.StatusUnknown
	if failed != (r.Error != nil) || failed && len(r.Data) > 0 || r.Summary == "" || r.CallID == "" {
		p.t.Errorf("%s: the result contradicts itself: %+v", tool, r)
	}
	if r.Error != nil && strings.Contains(r.Error.Message, "output schema") {
		p.t.Errorf("%s made something that its own schema refuses", tool)
	}
	wire, err := json.Marshal(r)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, secret := range p.org.Canaries() {
		if strings.Contains(string(wire), secret) {
			p.t.Errorf("%s let a private note, a contact or a token out", tool)
		}
	}
	return r
}

func code(r connector.Result) connector.Code {
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}

// expect compares the three things that a caller decides by.
func (p *person) expect(what string, r connector.Result, status connector.Status, c connector.Code, effect connector.Disposition) {
	p.t.Helper()
	if r.Status != status || code(r) != c || r.Effect.Disposition != effect {
		p.t.Errorf("%s: %s %v %s, want %s %v %s", what, r.Status, code(r), r.Effect.Disposition, status, c, effect)
	}
}

type search struct {
	Query    string   `json:"query"`
	State    string   `json:"state,omitempty"`
	Projects []string `json:"projects,omitempty"`
	PageSize int      `json:"page_size"`
	Cursor   *string  `json:"cursor"`
}

func (p *person) search(q search) (connector.Result, []tickets.Ticket) {
	p.t.Helper()
	if q.PageSize == 0 {
		q.PageSize = 50
	}
	r := p.call("tickets.search", q)
	var found struct{ Items []tickets.Ticket }
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, &found); err != nil {
			p.t.Fatal(err)
		}
	}
	return r, found.Items
}

func ids(list []tickets.Ticket) (out []string) {
	for _, t := range list {
		out = append(out, t.ID)
	}
	slices.Sort(out)
	return out
}

func (p *person) get(id string) (connector.Result, tickets.Ticket) {
	p.t.Helper()
	r := p.call("tickets.get", map[string]string{"id": id})
	return r, ticketOf(p.t, r)
}

func ticketOf(t *testing.T, r connector.Result) (out tickets.Ticket) {
	t.Helper()
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// approved proposes a draft and has a person approve it.
func (p *person) approved(d tickets.Draft) connector.Pending {
	p.t.Helper()
	r := p.call("tickets.create", d)
	p.expect("proposal", r, connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	if r.Pending == nil {
		p.t.Fatal("nothing to approve")
	}
	if _, err := p.host.Ledger.Approve(p.t.Context(), p.caller.Tenant, string(r.Pending.Approval), "maria"); err != nil {
		p.t.Fatal(err)
	}
	return *r.Pending
}

// create proposes, approves and calls again.
func (p *person) create(d tickets.Draft) connector.Result {
	p.t.Helper()
	p.approved(d)
	return p.call("tickets.create", d)
}

func (p *person) record(id connector.OperationID) connector.OperationRecord {
	p.t.Helper()
	rec, err := p.host.Ledger.Get(p.t.Context(), p.caller.Tenant, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return rec
}

func (p *person) settle(id connector.OperationID) connector.OperationRecord {
	p.t.Helper()
	rec, err := p.runtime.Settle(p.t.Context(), p.caller.Tenant, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return rec
}

// creates are the tickets that were made over the API, and posts the requests
// that asked for one.
func (d *desk) creates() (out []sandbox.Write) {
	for _, w := range d.org.Ledger() {
		if w.Kind == "create" && w.Via == "api" {
			out = append(out, w)
		}
	}
	return out
}

// made is the last ticket that was created.
func (d *desk) made() sandbox.Write {
	d.t.Helper()
	all := d.creates()
	if len(all) == d.created {
		d.t.Fatal("the provider has made no ticket")
	}
	return all[len(all)-1]
}

func (d *desk) posts() int { return int(d.org.Hits("POST /api/v1/tickets")) }

// counts compares the provider's own books with what may have happened.
func (d *desk) counts(what string, posts, creates int) {
	d.t.Helper()
	if p, c := d.posts()-d.posted, len(d.creates())-d.created; p != posts || c != creates {
		d.t.Errorf("%s: the provider saw %d creates and made %d tickets, want %d and %d", what, p, c, posts, creates)
	}
}

var draft = tickets.Draft{Project: "web", Title: "Basket is empty after sign-in", Body: "Seen on two phones.", Severity: "medium",
	Labels: []string{"bug"}, Evidence: []string{"WEB-1"}}
