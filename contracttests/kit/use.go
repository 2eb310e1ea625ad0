package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// account is a caller with a connection of its own in one check.
type account struct {
	*trial
	caller     connector.Caller
	connection connector.Connection
}

// connect makes a caller with a new connection; one name in one check is one
// principal.
func (t *trial) connect(name string, who Person, w Wish) *account {
	a, err := t.tryConnect(name, who, w)
	if errors.Is(err, ErrNoPerson) {
		t.notClaimed("the provider has no account for the %s", name)
	}
	if err != nil {
		t.fatalf("%s can't be connected: %v", name, err)
	}
	return a
}

func (t *trial) tryConnect(name string, who Person, w Wish) (*account, error) {
	a := &account{trial: t, caller: connector.Caller{Tenant: map[Person]connector.TenantID{Owner: "one", Stranger: "two"}[who],
		Principal: connector.PrincipalID(fmt.Sprintf("%s-%d", name, t.n))}}
	w.Provider, w.Identify = t.subject.Connector.Provider, t.house.runtime.Identify
	if w.Scopes == nil {
		w.Scopes = t.subject.Connector.Auth.Scopes
	}
	var err error
	a.connection, err = t.house.provider.Connect(t.ctx, t.house.credentials, a.caller, who, w)
	return a, err
}

// owner is the usual caller.
func (t *trial) owner() *account { return t.connect("owner", Owner, Wish{}) }

// seed plants an object behind the connector's back.
func (t *trial) seed(container int, title, body string) string {
	id, err := t.house.provider.Seed(t.ctx, Object{Container: t.container(container), Title: title, Body: body})
	t.must(err)
	return id
}

func (t *trial) container(i int) string { return t.house.facts.Containers[i] }

// call runs one tool. What every result must keep is checked elsewhere, over all
// that was collected here.
func (a *account) call(tool string, arguments any, intent string) connector.Result {
	raw, err := json.Marshal(arguments)
	a.must(err)
	r := a.house.runtime.Execute(a.ctx, a.caller, connector.Call{Tool: tool, Arguments: raw, Intent: intent})
	wire, err := json.Marshal(r)
	a.must(err)
	a.keep(string(wire))
	return r
}

func (a *account) read(id string) connector.Result {
	return a.call(a.subject.Read.Tool, a.subject.Read.Arguments(id, a.container(0)), "")
}

// list asks for one page.
func (a *account) list(text string, size int, cursor *string) connector.Result {
	raw, err := json.Marshal(a.subject.List.Arguments(text, a.container(0)))
	a.must(err)
	arguments := map[string]json.RawMessage{}
	a.must(json.Unmarshal(raw, &arguments))
	arguments["page_size"], _ = json.Marshal(size)
	arguments["cursor"], _ = json.Marshal(cursor)
	return a.call(a.subject.List.Tool, arguments, "")
}

// items are the elements of a page, whatever they look like.
func items(r connector.Result) []json.RawMessage {
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	_ = json.Unmarshal(r.Data, &page) // no data is no items
	return page.Items
}

// walkLimit is more pages than any walk of this kit has.
const walkLimit = 40

// walk turns all pages of a list.
func (a *account) walk(text string, size int) (pages []connector.Result, all []json.RawMessage) {
	var cursor *string
	for range walkLimit {
		r := a.list(text, size, cursor)
		pages, all = append(pages, r), append(all, items(r)...)
		if r.NextCursor == nil {
			break
		}
		cursor = r.NextCursor
	}
	return pages, all
}

func (a *account) write(marker string) connector.Result { return a.writeAs(marker, "") }

func (a *account) writeAs(marker, intent string) connector.Result {
	return a.call(a.subject.Write.Tool, a.subject.Write.Arguments(marker, a.container(0)), intent)
}

// approved proposes and has a person approve.
func (a *account) approved(marker string) *connector.Pending {
	r := a.write(marker)
	if r.Pending == nil {
		a.fatalf("a proposal answered %s, with nothing to approve", says(r))
	}
	_, err := a.house.ledger.Approve(a.ctx, a.caller.Tenant, string(r.Pending.Approval), "maria")
	a.must(err)
	return r.Pending
}

// says is a result in the words that a caller decides by.
func says(r connector.Result) string {
	s := string(r.Status)
	if r.Error != nil {
		s += " " + r.Error.Code.String()
	}
	if !r.Coverage.Complete {
		s += fmt.Sprintf(" incomplete %v", r.Coverage.Missing)
	}
	return s + " effect " + r.Effect.Disposition.String()
}

func code(r connector.Result) connector.Code {
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}

// looked is the result of a read that was answered.
func looked(r connector.Result) bool {
	return r.Status == connector.StatusSuccess || r.Status == connector.StatusPartial
}

// counts asks the provider's own books and the wire how often something was
// made and asked for.
func (t *trial) counts(what, marker string, made, sent int) {
	t.must(t.house.proxy.Settled(t.ctx))
	n, err := t.house.provider.Count(t.ctx, marker)
	t.must(err)
	if n != made {
		t.errorf("%s: the provider holds %d, want %d", what, n, made)
	}
	if got := len(t.sent(marker)); got != sent {
		t.errorf("%s: %d requests to change something came, want %d", what, got, sent)
	}
}

// sent are the requests other than reads that carried a marker.
func (t *trial) sent(marker string) (out []fault.Exchange) {
	for _, e := range t.house.proxy.Seen() {
		if !reads(e.Method) && (bytes.Contains(e.Body, []byte(marker)) || strings.Contains(e.Target, marker)) {
			out = append(out, e)
		}
	}
	return out
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// onReads and onWrites put one fault in front of everything of a kind.
func (t *trial) onReads(r fault.Rule) {
	r.Match = func(q *http.Request) bool { return reads(q.Method) }
	t.on(r)
}

func (t *trial) onWrites(r fault.Rule) {
	r.Match = func(q *http.Request) bool { return !reads(q.Method) }
	t.on(r)
}

// on gives made-up answers the type that the provider's have: a check of the
// body must not be passed by a check of the header.
func (t *trial) on(r fault.Rule) {
	if r.Action == fault.Answer && r.Header.Get("Content-Type") == "" {
		r.Header = r.Header.Clone()
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Content-Type", "application/json")
	}
	t.house.proxy.Next(r)
}

// replay gives recorded answers again, in their order, so many times.
func (t *trial) replay(answers []connector.Response, times int) {
	for range times {
		for _, a := range answers {
			t.onReads(fault.Rule{Action: fault.Answer, Status: a.Status, Header: a.Header, Body: a.Body})
		}
	}
}

// asked is how many requests have come so far.
func (t *trial) asked() int { return len(t.house.proxy.Seen()) }

// keep collects what callers were told; calls may run side by side.
func (r *runner) keep(wire string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, wire)
}

// leaks names the secrets that stand in a text, without showing them.
func leaks(text string, secrets []string) (n int) {
	for _, s := range secrets {
		if s != "" && strings.Contains(text, s) {
			n++
		}
	}
	return n
}

// tokens are the credentials that went over the wire so far.
func (t *trial) tokens() (out []string) {
	for _, e := range t.house.proxy.Seen() {
		for name, values := range e.Header {
			sign := t.house.facts.SignIn
			if name != "Authorization" && (sign.Header == "" || name != http.CanonicalHeaderKey(sign.Header)) {
				continue
			}
			for _, v := range values {
				secret := v[strings.LastIndex(v, " ")+1:]
				if len(secret) >= 8 && !slices.Contains(out, secret) {
					out = append(out, secret)
				}
			}
		}
	}
	return out
}
