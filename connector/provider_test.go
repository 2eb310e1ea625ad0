package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// provider is a small ticket desk behind connector.Transport. Its list of
// applied writes is the oracle: what a result claims is compared with it.
type provider struct {
	stages *stages

	mu      sync.Mutex
	notes   []stored
	sent    []connector.Request // every write that arrived, applied or not
	onWrite func(ctx context.Context, apply func() connector.Response) (connector.Response, error)
	onRead  func(ctx context.Context, r connector.Request) (connector.Response, error)
}

type stored struct {
	note
	operation connector.OperationID
}

func (p *provider) Do(ctx context.Context, _ connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	if err := ctx.Err(); err != nil {
		return connector.Response{}, &connector.Error{Code: connector.CodeOf(err), Err: err}
	}
	p.mu.Lock()
	onWrite, onRead := p.onWrite, p.onRead
	if class == connector.ClassWrite {
		p.sent = append(p.sent, r)
	}
	p.mu.Unlock()
	if class == connector.ClassRead {
		p.stages.saw("transport.read")
		if onRead != nil {
			return onRead(ctx, r)
		}
		return p.read(r), nil
	}
	p.stages.saw("transport.write")
	apply := func() connector.Response { return p.apply(r) }
	if onWrite != nil {
		return onWrite(ctx, apply)
	}
	return apply(), nil
}

func (p *provider) apply(r connector.Request) connector.Response {
	var n note
	if err := json.Unmarshal(r.Body, &n); err != nil {
		return answer(http.StatusBadRequest, "{}")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n.ID = fmt.Sprintf("n%d", len(p.notes)+1)
	p.notes = append(p.notes, stored{n, r.OperationID})
	return document(http.StatusCreated, n)
}

func (p *provider) read(r connector.Request) connector.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.notes {
		if r.Path == "/notes/"+n.ID || r.Path == "/operations/"+string(n.operation) {
			return document(http.StatusOK, n.note)
		}
	}
	return answer(http.StatusNotFound, `{"message":"no such note"}`)
}

// seed puts a note there that no call made.
func (p *provider) seed(title string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := fmt.Sprintf("n%d", len(p.notes)+1)
	p.notes = append(p.notes, stored{note: note{ID: id, Title: title}})
	return id
}

// applied counts the writes that really happened.
func (p *provider) applied() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.notes {
		if s.operation != "" {
			n++
		}
	}
	return n
}

func (p *provider) writes() []connector.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *provider) script(f func(ctx context.Context, apply func() connector.Response) (connector.Response, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onWrite = f
}

func (p *provider) scriptReads(f func(ctx context.Context, r connector.Request) (connector.Response, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRead = f
}

func answer(status int, body string) connector.Response {
	return connector.Response{
		Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body),
		RequestID: fmt.Sprintf("req-%d", status), FetchedAt: time.Now(),
		Attempts: []connector.Attempt{{N: 1, WroteRequest: true, Status: status}},
	}
}

func document(status int, v any) connector.Response {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return answer(status, string(raw))
}

// lost answers a write whose answer never came back.
func lost(apply bool) func(context.Context, func() connector.Response) (connector.Response, error) {
	return func(_ context.Context, write func() connector.Response) (connector.Response, error) {
		if apply {
			write()
		}
		return connector.Response{}, &connector.Error{Code: connector.CodeUnavailable, Effect: connector.DispositionUnknown}
	}
}
