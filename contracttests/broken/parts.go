package broken

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

// parts are installations whose framework breaks the promise: the connector in
// them is honest.
func parts() []Connector {
	return []Connector{
		sending("E4", "sends a write again when its answer is lost", func(send doing) doing {
			return func(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
				resp, err := send(ctx, c, class, r)
				if class == connector.ClassWrite && err != nil && resp.Status == 0 && connector.AsError(err).Effect == connector.DispositionUnknown {
					return send(ctx, c, class, r)
				}
				return resp, err
			}
		}),
		sending("E4", "calls a write whose answer is lost a failed one", func(send doing) doing {
			return func(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
				resp, err := send(ctx, c, class, r)
				if class == connector.ClassWrite && err != nil && resp.Status == 0 {
					err = &connector.Error{Code: connector.CodeUnavailable, Effect: connector.DispositionNotApplied, Err: err}
				}
				return resp, err
			}
		}),
		sending("E6", "does not know that nothing left", func(send doing) doing {
			return func(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
				resp, err := send(ctx, c, class, r)
				if class == connector.ClassWrite && err != nil {
					err = &connector.Error{Code: connector.CodeOutcomeUnknown, Effect: connector.DispositionUnknown, Err: err}
				}
				return resp, err
			}
		}),
		sending("C8", "reports the last attempt only", func(send doing) doing {
			return func(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
				resp, err := send(ctx, c, class, r)
				resp.Attempts = resp.Attempts[max(0, len(resp.Attempts)-1):]
				return resp, err
			}
		}),
		sending("C2", "follows a redirect wherever it leads", func(send doing) doing {
			return func(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
				resp, err := send(ctx, c, class, r)
				if to := resp.Header.Get("Location"); to != "" && class == connector.ClassRead {
					visit(ctx, to)
				}
				return resp, err
			}
		}),
		edited("B2", "lends out connections without a look at their scopes", func(s *kit.Subject) {
			s.Parts = func(c *connector.Config) { c.Connections = lenient{c.Connections} }
		}),
		edited("D4", "hands out the provider's position in clear", func(s *kit.Subject) {
			s.Parts = func(c *connector.Config) { c.Cursors = clear{} }
		}),
		ledger("E2", "takes one approval for any payload", func(o connector.Operations) connector.Operations { return &anyPayload{Operations: o} }),
		ledger("E3", "takes one person's approval for another's", func(o connector.Operations) connector.Operations { return &anybody{Operations: o} }),
		ledger("E9", "lets everybody send who comes while one sends", func(o connector.Operations) connector.Operations { return &shared{Operations: o} }),
		ledger("E13", "forgets which intent a write was for", func(o connector.Operations) connector.Operations { return &forgetful{Operations: o} }),
	}
}

type doing func(context.Context, connector.Connection, connector.Class, connector.Request) (connector.Response, error)

// Do makes a function a transport.
func (d doing) Do(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	return d(ctx, c, class, r)
}

func sending(check, name string, wrap func(doing) doing) Connector {
	return edited(check, name, func(s *kit.Subject) {
		s.Parts = func(c *connector.Config) { c.Transport = wrap(c.Transport.Do) }
	})
}

// ledger wraps the ledger once for all checks of a run.
func ledger(check, name string, wrap func(connector.Operations) connector.Operations) Connector {
	return edited(check, name, func(s *kit.Subject) {
		var wrapped connector.Operations
		s.Parts = func(c *connector.Config) {
			if wrapped == nil {
				wrapped = wrap(c.Operations)
			}
			c.Operations = wrapped
		}
	})
}

// visit asks an address that a provider named.
func visit(ctx context.Context, address string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return
	}
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// lenient ignores the scopes that a call needs.
type lenient struct{ connector.Connections }

func (l lenient) Resolve(ctx context.Context, caller connector.Caller, provider string, _ []string) (connector.Connection, error) {
	return l.Connections.Resolve(ctx, caller, provider, nil)
}

// clear cursors are bound to nothing.
type clear struct{}

func (clear) Seal(_ connector.CursorBinding, position []byte) (string, error) {
	return base64.RawURLEncoding.EncodeToString(position), nil
}

func (clear) Open(_ connector.CursorBinding, cursor string) ([]byte, error) {
	position, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, connector.Fail(connector.CodeCursorInvalid, "")
	}
	return position, nil
}

// remembering keeps the last proposal of each key.
type remembering struct {
	mu  sync.Mutex
	ids map[string]connector.OperationID
}

func (r *remembering) keep(key string, id connector.OperationID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids == nil {
		r.ids = map[string]connector.OperationID{}
	}
	r.ids[key] = id
}

func (r *remembering) last(key string) connector.OperationID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[key]
}

// approved is an operation if it waits to be sent.
func approved(ctx context.Context, o connector.Operations, tenant connector.TenantID, id connector.OperationID) (connector.OperationRecord, bool) {
	if id == "" {
		return connector.OperationRecord{}, false
	}
	rec, err := o.Get(ctx, tenant, id)
	return rec, err == nil && rec.State == connector.StateApproved
}

type anyPayload struct {
	connector.Operations
	proposed remembering
}

func (o *anyPayload) Find(ctx context.Context, id connector.WriteIdentity) (connector.OperationRecord, bool, error) {
	rec, found, err := o.Operations.Find(ctx, id)
	digest, plain := strings.CutPrefix(id.Intent, "args:")
	if err != nil || found || !plain {
		return rec, found, err
	}
	rec, found = approved(ctx, o.Operations, id.Tenant, o.proposed.last(string(id.Connection)))
	rec.ArgsDigest = digest
	return rec, found, nil
}

func (o *anyPayload) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	rec, err := o.Operations.Propose(ctx, p)
	o.proposed.keep(string(p.Connection), rec.ID)
	return rec, err
}

type anybody struct {
	connector.Operations
	proposed remembering
}

func (o *anybody) Find(ctx context.Context, id connector.WriteIdentity) (connector.OperationRecord, bool, error) {
	rec, found, err := o.Operations.Find(ctx, id)
	if err != nil || found {
		return rec, found, err
	}
	rec, found = approved(ctx, o.Operations, id.Tenant, o.proposed.last(id.Intent))
	return rec, found, nil
}

func (o *anybody) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	rec, err := o.Operations.Propose(ctx, p)
	o.proposed.keep(p.Intent, rec.ID)
	return rec, err
}

type shared struct {
	connector.Operations
	claims  sync.Map // by operation
	waiting sync.Map // by operation: closed when a second one has come
}

// together is how long the first waits for a second before it sends, so that
// those who are there at once do meet.
const together = 300 * time.Millisecond

func (o *shared) Dispatch(ctx context.Context, tenant connector.TenantID, id connector.OperationID, authz int64) (connector.Claim, error) {
	second := make(chan struct{})
	if first, later := o.waiting.LoadOrStore(id, second); !later {
		select {
		case <-second:
		case <-time.After(together):
		}
	} else if came := first.(chan struct{}); o.waiting.CompareAndSwap(id, came, make(chan struct{})) {
		close(came)
	}
	claim, err := o.Operations.Dispatch(ctx, tenant, id, authz)
	if err == nil {
		o.claims.Store(id, claim)
	} else if first, ok := o.claims.Load(id); ok {
		return first.(connector.Claim), nil
	}
	return claim, err
}

type forgetful struct{ connector.Operations }

func (o *forgetful) Find(ctx context.Context, id connector.WriteIdentity) (connector.OperationRecord, bool, error) {
	if !strings.HasPrefix(id.Intent, "args:") {
		return connector.OperationRecord{}, false, nil
	}
	return o.Operations.Find(ctx, id)
}

func (o *forgetful) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	if !strings.HasPrefix(p.Intent, "args:") {
		p.Intent += rand.Text()
	}
	return o.Operations.Propose(ctx, p)
}
