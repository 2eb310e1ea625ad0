package fault

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// An Exchange is the record of one request that reached the proxy. It is complete before
// the client sees the first byte of its answer, or the cut.
type Exchange struct {
	Method string
	Target string // the request line's target: path and query as sent
	Host   string // the Host header as sent

	// Header and Body are the request's, with credentials if it carried any. They are for
	// assertions; String leaves them out.
	Header http.Header
	Body   []byte

	Action   Action
	Upstream []int // one status for each answer read from the upstream, in order
	Status   int   // the status sent to the client; 0 when its connection was cut without one
	Done     bool  // false while the request is held or the upstream has not answered
	Err      error // why the upstream could not be asked, or nil
}

// String names the exchange without query, headers and body, so that a failing test does
// not print a credential.
func (e Exchange) String() string {
	path, _, _ := strings.Cut(e.Target, "?")
	return fmt.Sprintf("%s %s [%v] upstream %v, client %d", e.Method, path, e.Action, e.Upstream, e.Status)
}

// Seen returns every exchange so far, in order of arrival. The slice is the caller's.
func (p *Proxy) Seen() []Exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make([]Exchange, len(p.seen))
	for i, e := range p.seen {
		seen[i] = *e
	}
	return seen
}

// Await waits until cond holds for the exchanges so far, and is how a test waits for a
// request to arrive or an effect to happen without a clock. cond is called at every change
// of the record; it must not call the proxy.
func (p *Proxy) Await(ctx context.Context, cond func([]Exchange) bool) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if cond(p.Seen()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fault: awaited exchanges did not come: %w", ctx.Err())
		}
	}
}

// Settled waits until no exchange is under way, including those whose client has gone.
// After it returns nil, every effect that the proxy passed on has been answered upstream.
func (p *Proxy) Settled(ctx context.Context) error {
	return p.Await(ctx, func(seen []Exchange) bool {
		return !slices.ContainsFunc(seen, func(e Exchange) bool { return !e.Done })
	})
}

func (p *Proxy) arrive(e *Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, e)
	p.notify()
}

// update changes a recorded exchange under the lock that Seen reads it with.
func (p *Proxy) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.notify()
}

func (p *Proxy) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
