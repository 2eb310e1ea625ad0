package dev

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/operations"
)

// writeView is one write: what is or was sent, and what became of it.
type writeView struct {
	operations.Detail
	Sent    string // the bytes that an approval covers, as they go out
	Waits   bool   // for an approval
	Unknown bool
	Receipt *receipt
}

// receipt is what was proven, for people.
type receipt struct {
	Proof       connector.Proof    `json:"proof"`
	How         string             `json:"how"`
	ExternalID  string             `json:"external_id"`
	Differences []connector.Change `json:"differences"`
}

func newWriteView(d operations.Detail) (*writeView, error) {
	v := &writeView{Detail: d, Sent: sentText(d.Record.Request), Waits: d.State == connector.StateAwaitingApproval,
		Unknown: d.State == connector.StateUnknown || d.State == connector.StateUnresolved}
	if len(d.Record.Receipt) == 0 {
		return v, nil
	}
	v.Receipt = &receipt{}
	return v, json.Unmarshal(d.Record.Receipt, v.Receipt)
}

// sentText is a request with the headers that are part of what is approved.
func sentText(r connector.Request) string {
	var b strings.Builder
	target := r.Path
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	fmt.Fprintf(&b, "%s %s\n", r.Method, target)
	if r.ContentType != "" {
		fmt.Fprintf(&b, "Content-Type: %s\n", r.ContentType)
	}
	if r.DedupeHeader != "" {
		fmt.Fprintf(&b, "%s: %s\n", r.DedupeHeader, r.OperationID)
	}
	fmt.Fprintf(&b, "\n%s", r.Body)
	return b.String()
}

func (s *server) operations(w http.ResponseWriter, r *http.Request) {
	lines, err := s.bench.Ledger.Operations(r.Context(), s.bench.Caller.Tenant, operations.Filter{})
	if err != nil {
		s.fail(w, err)
		return
	}
	s.render(w, http.StatusOK, "operations", page{Title: "Writes and receipts"}, lines)
}

func (s *server) detail(r *http.Request) (operations.Detail, error) {
	return s.bench.Ledger.Operation(r.Context(), s.bench.Caller.Tenant, r.PathValue("id"))
}

func (s *server) operation(w http.ResponseWriter, r *http.Request) {
	d, err := s.detail(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	v, err := newWriteView(d)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.render(w, http.StatusOK, "operation", page{Title: d.Tool + ": " + stateText(d.State)}, v)
}

// approve approves, and makes the same call again, which sends.
func (s *server) approve(w http.ResponseWriter, r *http.Request) {
	d, err := s.detail(r)
	if err == nil {
		_, err = s.bench.Ledger.Approve(r.Context(), s.bench.Caller.Tenant, string(d.Approval), string(s.bench.Caller.Principal))
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.called(w, r, s.execute(r.Context(), d.Tool, s.intentOf(d), d.Record.Arguments))
}

// intentOf is what the call that proposed a write gave. The ledger has another word
// for none, which would stand in the form of the next call.
func (s *server) intentOf(d operations.Detail) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Result.Effect.Operation == d.ID {
			return c.Intent
		}
	}
	return d.Record.Intent
}

func (s *server) deny(w http.ResponseWriter, r *http.Request) {
	d, err := s.detail(r)
	if err == nil {
		_, err = s.bench.Ledger.Deny(r.Context(), s.bench.Caller.Tenant, string(d.Approval), string(s.bench.Caller.Principal), "")
	}
	s.done(w, r, err)
}

// look asks the provider what became of a write. A provider that can not be asked
// leaves it unknown, and the page says so.
func (s *server) look(w http.ResponseWriter, r *http.Request) {
	d, err := s.detail(r)
	if err == nil {
		s.runtime.RLock()
		_, err = s.bench.Runtime().Settle(r.Context(), s.bench.Caller.Tenant, d.ID)
		s.runtime.RUnlock()
	}
	s.done(w, r, err)
}

func (s *server) done(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.fail(w, err)
		return
	}
	http.Redirect(w, r, "/operations/"+r.PathValue("id"), http.StatusSeeOther)
}

func stateText(s connector.OperationState) string {
	switch s {
	case connector.StateAwaitingApproval:
		return "waits for an approval"
	case connector.StateUnknown:
		return "outcome unknown"
	case connector.StateUnresolved:
		return "outcome unknown; a person must decide"
	case connector.StateRejected:
		return "not done"
	case connector.StateNotSent:
		return "not sent"
	}
	return string(s)
}
