package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/operations"
)

// keepCalls is how many calls stay to be looked at.
const keepCalls = 200

// A call is one that was made here, with its place in the record of the wire.
type call struct {
	N         int
	At        time.Time
	Tool      string
	Arguments json.RawMessage
	Intent    string
	Result    connector.Result
	from, to  int
}

// execute makes a call and keeps it.
func (s *server) execute(ctx context.Context, tool, intent string, arguments json.RawMessage) int {
	s.runtime.RLock()
	defer s.runtime.RUnlock()
	c := &call{At: time.Now(), Tool: tool, Arguments: arguments, Intent: intent, from: len(s.bench.Proxy.Seen())}
	c.Result = s.bench.Runtime().Execute(ctx, s.bench.Caller, connector.Call{Tool: tool, Arguments: arguments, Intent: intent})
	c.to = len(s.bench.Proxy.Seen())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	c.N = s.count
	s.calls = append(s.calls, c)
	if len(s.calls) > keepCalls {
		s.calls = slices.Delete(s.calls, 0, len(s.calls)-keepCalls)
	}
	return c.N
}

func (s *server) definition(name string) (connector.Definition, bool) {
	for _, d := range s.bench.Connector.Definitions() {
		if d.Name == name {
			return d, true
		}
	}
	return connector.Definition{}, false
}

// toolView is a form, empty or as it was sent.
type toolView struct {
	connector.Definition
	Fields []*field
	Raw    string // the same as JSON
	Intent string
}

func view(d connector.Definition, c *call) (v toolView, rest []string) {
	v = toolView{Definition: d, Raw: "{}"}
	var faults []connector.Fault
	if c != nil {
		v.Raw, v.Intent = string(c.Arguments), c.Intent
		if c.Result.Error != nil {
			faults = c.Result.Error.Faults
		}
	}
	v.Fields, rest = form(d.InputSchema, json.RawMessage(v.Raw), faults)
	return v, rest
}

func (s *server) toolPage(w http.ResponseWriter, r *http.Request) {
	d, ok := s.definition(r.PathValue("tool"))
	if !ok {
		s.absent(w, r)
		return
	}
	v, _ := view(d, nil)
	s.render(w, http.StatusOK, "tool", page{Title: d.Title}, v)
}

// run makes a call of a filled form, or of the JSON beside it.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	d, ok := s.definition(r.PathValue("tool"))
	if !ok {
		s.absent(w, r)
		return
	}
	raw := json.RawMessage(r.PostForm.Get("json"))
	if !r.PostForm.Has("json") {
		v, _ := view(d, nil)
		raw = arguments(v.Fields, r.PostForm)
	}
	s.called(w, r, s.execute(r.Context(), d.Name, r.PostForm.Get("intent"), raw))
}

// called leads to the call, so that a page that is loaded again calls nothing.
func (s *server) called(w http.ResponseWriter, r *http.Request, n int) {
	http.Redirect(w, r, "/calls/"+strconv.Itoa(n), http.StatusSeeOther)
}

// find is the call that an address names, or nil.
func (s *server) find(r *http.Request) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strconv.Itoa(c.N) == r.PathValue("n") {
			return c
		}
	}
	return nil
}

// callView is what became of a call.
type callView struct {
	toolView
	Call      *call
	Wrong     []*field // those with faults
	Rest      []string // faults that belong to no field
	Data      string
	Envelope  string
	Operation *writeView
	Wire      []exchange
}

func (s *server) callPage(w http.ResponseWriter, r *http.Request) {
	c := s.find(r)
	if c == nil {
		s.absent(w, r)
		return
	}
	d, _ := s.definition(c.Tool)
	v := callView{Call: c, Data: pretty(c.Result.Data), Envelope: pretty(compact(c.Result)), Wire: s.exchanges(c.from, c.to)}
	v.toolView, v.Rest = view(d, c)
	v.Wrong = wrong(v.Fields)
	status := http.StatusOK
	if id := c.Result.Effect.Operation; id != "" {
		detail, err := s.bench.Ledger.Operation(r.Context(), s.bench.Caller.Tenant, string(id))
		if err == nil {
			v.Operation, err = newWriteView(detail)
		}
		if err != nil {
			s.fail(w, err)
			return
		}
	}
	if e := c.Result.Error; e != nil && len(e.Faults) > 0 {
		status = http.StatusUnprocessableEntity
	}
	s.render(w, status, "call", page{Title: d.Title + ": " + statusText(c.Result)}, v)
}

// nextPage asks the same with the cursor of the answer.
func (s *server) nextPage(w http.ResponseWriter, r *http.Request) {
	c := s.find(r)
	if c == nil || c.Result.NextCursor == nil {
		s.absent(w, r)
		return
	}
	var same map[string]json.RawMessage
	if err := json.Unmarshal(c.Arguments, &same); err != nil {
		s.fail(w, err)
		return
	}
	same["cursor"] = json.RawMessage(compact(*c.Result.NextCursor))
	s.called(w, r, s.execute(r.Context(), c.Tool, "", json.RawMessage(compact(same))))
}

func pretty[T ~string | ~[]byte](raw T) string {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if len(raw) == 0 || d.Decode(&v) != nil {
		return string(raw)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // it was JSON
	return strings.TrimSuffix(b.String(), "\n")
}

func statusText(r connector.Result) string {
	switch {
	case r.Error == nil:
		return string(r.Status)
	case r.Error.Code == connector.CodeApprovalRequired && r.Pending != nil:
		return "waits for an approval"
	}
	return r.Error.Code.String()
}

// fail is what the house itself could not do.
func (s *server) fail(w http.ResponseWriter, err error) {
	e := connector.AsError(err)
	s.refuse(w, e.Code.HTTPStatus(), "That did not work", e.Report().Message)
}

// homeView is the connector at a glance.
type homeView struct {
	Connector connector.Connector
	Provider  string
	Tools     []connector.Definition
	Calls     []*call // newest first
	Unknown   []operations.Line
}

func (s *server) home(w http.ResponseWriter, r *http.Request) {
	unknown, err := s.bench.Ledger.Operations(r.Context(), s.bench.Caller.Tenant, operations.Filter{Limit: 20}, connector.StateUnknown, connector.StateUnresolved)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.mu.Lock()
	calls := slices.Clone(s.calls[max(0, len(s.calls)-10):])
	s.mu.Unlock()
	slices.Reverse(calls)
	c := s.bench.Connector
	s.render(w, http.StatusOK, "home", page{Title: fmt.Sprintf("%s %s", c.ID, c.Version)},
		homeView{c, s.bench.Provider, c.Definitions(), calls, unknown})
}

// toolPath is where the form of a tool is.
func toolPath(name string) string { return "/tools/" + url.PathEscape(name) }
