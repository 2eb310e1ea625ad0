package connector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// stages counts which part of the pipeline was reached how often.
type stages struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *stages) saw(stage string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[stage]++
}

func (s *stages) seen() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.count)
}

func (s *stages) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count = nil
}

// harness is a runtime whose services live in memory and whose provider is
// scripted. Fields may be changed before the first call.
type harness struct {
	*stages
	toy      *toy
	ledger   *ledger
	provider *provider
	cursors  *cursorBox
	auditor  *auditor
	log      *logBuffer
	config   connector.Config

	decision  connector.Decision
	policyErr error
	consent   bool
	consErr   error

	mu         sync.Mutex
	conn       connector.Connection
	resolveErr error
	currentErr error

	once sync.Once
	rt   *connector.Runtime
	t    testing.TB
}

var alice = connector.Caller{Tenant: "acme", Principal: "alice", Run: "run-1"}

func newHarness(t testing.TB) *harness {
	t.Helper()
	s := &stages{}
	h := &harness{
		t: t, stages: s, toy: newToy(s), ledger: newLedger(s), provider: &provider{stages: s},
		cursors: &cursorBox{stages: s}, auditor: &auditor{stages: s}, log: &logBuffer{},
		decision: connector.Decision{Allow: true, Version: "policy-7"}, consent: true,
		conn: connector.Connection{
			ID: "con-1", Tenant: "acme", Principal: "alice", Provider: "notes", Profile: "notes-eu",
			Account: connector.Account{Issuer: "https://id.example", Subject: "sub", Login: "alice"},
			Scopes:  []string{"notes"}, Resources: []string{"p1", "p2"}, AuthzVersion: 3,
		},
	}
	h.config = connector.Config{
		Policy: gates{h}, Consent: gates{h}, Connections: gates{h}, Transport: h.provider, Cursors: h.cursors,
		Operations: h.ledger, Auditor: h.auditor, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	return h
}

func (h *harness) runtime() *connector.Runtime {
	h.once.Do(func() {
		h.config.Connectors = append(h.config.Connectors, h.toy.connector(h.stages))
		rt, err := connector.New(h.config)
		if err != nil {
			h.t.Fatalf("New: %v", err)
		}
		h.rt = rt
	})
	return h.rt
}

func (h *harness) call(tool, arguments string) connector.Result {
	return h.execute(context.Background(), connector.Call{Tool: tool, Arguments: json.RawMessage(arguments)})
}

func (h *harness) execute(ctx context.Context, c connector.Call) connector.Result {
	return h.runtime().Execute(ctx, alice, c)
}

// create proposes, approves and executes a write, and forgets the stages
// before the last step.
func (h *harness) create(arguments string) connector.Result {
	h.t.Helper()
	h.approve(arguments)
	return h.call("desk.create", arguments)
}

// approve proposes a write and lets a person agree to it.
func (h *harness) approve(arguments string) connector.OperationID {
	h.t.Helper()
	proposed := h.call("desk.create", arguments)
	if proposed.Error == nil || proposed.Error.Code != connector.CodeApprovalRequired {
		h.t.Fatalf("proposal ended as %+v, want APPROVAL_REQUIRED", proposed)
	}
	h.ledger.approve(proposed.Effect.Operation)
	h.forget()
	return proposed.Effect.Operation
}

// changeConnection is what a person or the provider does to the connection.
func (h *harness) changeConnection(edit func(*connector.Connection)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	edit(&h.conn)
}

// gates answers for policy, consent and connections.
type gates struct{ h *harness }

func (g gates) Decide(_ context.Context, _ connector.Caller, _ connector.Action) (connector.Decision, error) {
	g.h.saw("policy")
	return g.h.decision, g.h.policyErr
}

func (g gates) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	g.h.saw("consent")
	return g.h.consent, g.h.consErr
}

func (g gates) Resolve(ctx context.Context, _ connector.Caller, _ string, _ []string) (connector.Connection, error) {
	g.h.saw("resolve")
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	c := g.h.conn
	c.Resources = slices.Clone(c.Resources)
	if g.h.resolveErr != nil {
		return connector.Connection{}, g.h.resolveErr
	}
	return c, ctx.Err()
}

func (g gates) Current(_ context.Context, c connector.Connection) error {
	g.h.saw("current")
	g.h.mu.Lock()
	defer g.h.mu.Unlock()
	if g.h.currentErr == nil && c.AuthzVersion != g.h.conn.AuthzVersion {
		return connector.Fail(connector.CodeConnectionRequired, "the authorization changed")
	}
	return g.h.currentErr
}

// cursorBox opens a cursor only under the binding that it was sealed for.
type cursorBox struct {
	stages *stages

	mu     sync.Mutex
	sealed map[string]sealedCursor
}

type sealedCursor struct {
	binding  string
	position []byte
}

func (b *cursorBox) Seal(binding connector.CursorBinding, position []byte) (string, error) {
	b.stages.saw("seal")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed == nil {
		b.sealed = map[string]sealedCursor{}
	}
	name := fmt.Sprintf("cursor-%d", len(b.sealed)+1)
	b.sealed[name] = sealedCursor{fmt.Sprintf("%#v", binding), bytes.Clone(position)}
	return name, nil
}

func (b *cursorBox) Open(binding connector.CursorBinding, cursor string) ([]byte, error) {
	b.stages.saw("open")
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.sealed[cursor]
	if !ok || s.binding != fmt.Sprintf("%#v", binding) {
		return nil, &connector.Error{Code: connector.CodeCursorInvalid}
	}
	return s.position, nil
}

type auditor struct {
	stages *stages

	mu      sync.Mutex
	records []connector.AuditRecord
	err     error
}

func (a *auditor) Record(ctx context.Context, r connector.AuditRecord) error {
	a.stages.saw("audit")
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	a.records = append(a.records, r)
	return a.err
}

func (a *auditor) last() connector.AuditRecord {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.records[len(a.records)-1]
}

// logBuffer is the operator's log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// code is the code of a result, or "" when it has no error.
func code(r connector.Result) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code.String()
}

func text(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return string(raw)
}
