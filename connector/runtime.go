package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is what a Runtime is made of. Zero durations and sizes mean the
// defaults below; they can be tightened, not switched off.
type Config struct {
	Connectors  []Connector
	Policy      Policy      // required: without an authorization there is nothing to run
	Consent     Consent     // required
	Connections Connections // required
	Transport   Transport   // required
	Cursors     Cursors     // required if a connector lists
	Operations  Operations  // required if a connector writes
	Auditor     Auditor     // required
	Logger      *slog.Logger
	Observer    Observer // nil: nobody looks

	ReadTimeout    time.Duration // 30 s
	WriteTimeout   time.Duration // 20 s, from dispatch
	MaxArguments   int           // 256 KiB
	MaxResultBytes int           // 1 MiB
}

// A Runtime executes calls. It is safe for concurrent use and holds no identity
// and no credential of any caller.
type Runtime struct {
	c          Config
	tools      map[string]*tool
	order      []string
	connectors map[string]Connector // by provider
	calls      callIDs
	dispatches sync.WaitGroup
}

type tool struct {
	op        Operation
	connector Connector
}

// New checks everything and reports all that is wrong at once.
func New(c Config) (*Runtime, error) {
	r := &Runtime{tools: map[string]*tool{}, connectors: map[string]Connector{}}
	c.ReadTimeout = orDefault(c.ReadTimeout, 30*time.Second)
	c.WriteTimeout = orDefault(c.WriteTimeout, 20*time.Second)
	c.MaxArguments = orDefault(c.MaxArguments, 256<<10)
	c.MaxResultBytes = orDefault(c.MaxResultBytes, 1<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r.c = c
	var faults []error
	require := func(missing bool, what string) {
		if missing {
			faults = append(faults, fmt.Errorf("config: %s is missing", what))
		}
	}
	require(c.Policy == nil, "Policy")
	require(c.Consent == nil, "Consent")
	require(c.Connections == nil, "Connections")
	require(c.Transport == nil, "Transport")
	require(c.Auditor == nil, "Auditor")
	for _, con := range c.Connectors {
		faults = append(faults, Lint(con))
		if _, twice := r.connectors[con.Provider]; twice {
			faults = append(faults, fmt.Errorf("provider %q has two connectors", con.Provider))
		}
		r.connectors[con.Provider] = con
		for _, op := range con.Operations {
			require(op.kind == kindList && c.Cursors == nil, "Cursors, which "+op.spec.Name+" needs,")
			require(op.kind == kindWrite && c.Operations == nil, "Operations, which "+op.spec.Name+" needs,")
			if _, twice := r.tools[op.spec.Name]; twice {
				faults = append(faults, fmt.Errorf("tool %q is registered twice", op.spec.Name))
			}
			r.tools[op.spec.Name] = &tool{op, con}
			r.order = append(r.order, op.spec.Name)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	slices.Sort(r.order)
	return r, nil
}

// Close waits for writes that are on their way. Calls after Close still run;
// the host stops sending them first.
func (r *Runtime) Close() { r.dispatches.Wait() }

// Tools returns the definitions that this caller may use, in a stable order.
// When Policy or Consent can't be consulted there is an error and no list.
func (r *Runtime) Tools(ctx context.Context, caller Caller) ([]Definition, error) {
	var visible []Definition
	for _, name := range r.order {
		t := r.tools[name]
		_, err := r.authorize(ctx, caller, t)
		switch CodeOf(err) {
		case 0:
			visible = append(visible, t.op.definition(t.connector))
		case CodePermissionDenied, CodeConsentRequired:
		default:
			return nil, err
		}
	}
	return visible, nil
}

// Identify reads which account a fresh connection to a provider stands for.
func (r *Runtime) Identify(ctx context.Context, conn Connection) (Identity, error) {
	c, ok := r.connectors[conn.Provider]
	if !ok {
		return Identity{}, Fail(CodeInternal, "no connector for this provider")
	}
	var id Identity
	err := guard(func() (err error) {
		id, err = c.Identify(ctx, r.access(c, conn))
		return err
	})
	return id, err
}

func (r *Runtime) access(c Connector, conn Connection) *Access {
	return &Access{conn: conn, transport: r.c.Transport, classify: c.Classify}
}

// authorize asks both gates. Only both together let a call through, and a gate
// that can't be asked is shut.
func (r *Runtime) authorize(ctx context.Context, caller Caller, t *tool) (Decision, error) {
	action := Action{
		Tool: t.op.spec.Name, Connector: t.connector.ID, Version: t.connector.Version,
		Provider: t.connector.Provider, Effect: t.op.spec.Effect, Sensitivity: t.op.spec.Sensitivity,
	}
	decision, err := r.c.Policy.Decide(ctx, caller, action)
	if err != nil {
		return Decision{}, shut(ctx, err, "the policy could not be consulted")
	}
	if !decision.Allow {
		return decision, Fail(CodePermissionDenied, "the policy does not allow this tool")
	}
	ok, err := r.c.Consent.Consented(ctx, caller, action)
	if err != nil {
		return decision, shut(ctx, err, "the host's consent could not be consulted")
	}
	if !ok {
		return decision, &Error{Code: CodeConsentRequired}
	}
	return decision, nil
}

// shut is the error of a gate that could not be asked. A caller who gave up is
// told so; nothing is wrong with the gate then.
func shut(ctx context.Context, err error, message string) error {
	if ctx.Err() != nil {
		return AsError(ctx.Err())
	}
	return &Error{Code: CodeUnavailable, Message: message, Err: err}
}

// Do is Execute for Go callers: typed input and output, the same pipeline. Out
// is the zero value unless the result carries data.
func Do[In, Out any](ctx context.Context, r *Runtime, caller Caller, tool string, in In) (Out, Result) {
	var out Out
	raw, err := encodeOutput(in)
	if err != nil {
		raw = nil // the schema refuses it below
	}
	result := r.Execute(ctx, caller, Call{Tool: tool, Arguments: raw})
	if len(result.Data) > 0 {
		if err := json.Unmarshal(result.Data, &out); err != nil {
			report := Fail(CodeInvalidInput, "the data does not fit the caller's type").Report()
			result.Status, result.Error = StatusError, &report
		}
	}
	return out, result
}

// guard runs author code. A panic becomes an error whose text has no values
// from the panic in it; the log gets the place, not the data.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Code: CodeInternal, Err: fmt.Errorf("panic of type %T in connector code%s", p, panicPlace())}
		}
	}()
	return f()
}

// callIDs remembers recent call ids of this process. It catches a host that
// runs one proposal twice; the ledger is what protects writes for good.
type callIDs struct {
	mu   sync.Mutex
	seen map[string]struct{}
	ring []string
	next int
}

const rememberedCalls = 8192

func (s *callIDs) first(caller Caller, id string) bool {
	key := strings.Join([]string{string(caller.Tenant), string(caller.Principal), caller.Run, id}, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen, s.ring = make(map[string]struct{}, rememberedCalls), make([]string, rememberedCalls)
	}
	if _, twice := s.seen[key]; twice {
		return false
	}
	delete(s.seen, s.ring[s.next])
	s.ring[s.next], s.next = key, (s.next+1)%rememberedCalls
	s.seen[key] = struct{}{}
	return true
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
