package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A lane is what the calls of one connection share, so that one of them can't
// starve its siblings and one tenant can't stop another.
type lane struct {
	slots   chan struct{}
	waiting atomic.Int32
	queue   int32
	limiter *rate.Limiter
	used    atomic.Int64 // unix nanoseconds
	routes  routes

	mu     sync.Mutex // guards budget, 0 <= budget <= most
	budget int
	most   int
}

func newLane(l Limits) *lane {
	return &lane{
		slots: make(chan struct{}, l.Concurrency), queue: int32(l.Queue),
		limiter: rate.NewLimiter(rate.Limit(l.Rate), l.Burst),
		budget:  l.RetryBudget, most: l.RetryBudget,
	}
}

func (l *lane) touch(now time.Time) { l.used.Store(now.UnixNano()) }

func (l *lane) idleSince(now time.Time) time.Duration {
	if len(l.slots) > 0 || l.waiting.Load() > 0 {
		return 0
	}
	return now.Sub(time.Unix(0, l.used.Load()))
}

// enter waits for a slot and for the rate, and says how long that took. On nil
// the caller owes a leave.
func (l *lane) enter(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var waited time.Duration
	select {
	case l.slots <- struct{}{}:
	default:
		if l.waiting.Add(1) > l.queue {
			l.waiting.Add(-1)
			return 0, connector.Fail(connector.CodeOverloaded, "")
		}
		start := time.Now()
		select {
		case l.slots <- struct{}{}:
			l.waiting.Add(-1)
			waited = time.Since(start)
		case <-ctx.Done():
			l.waiting.Add(-1)
			return 0, ctx.Err()
		}
	}
	delay, err := l.pace(ctx)
	if err != nil {
		l.leave()
	}
	return waited + delay, err
}

func (l *lane) leave() { <-l.slots }

// pace is rate.Limiter.Wait with an error that says how long to wait, in place
// of one that is neither the context's nor typed.
func (l *lane) pace(ctx context.Context) (time.Duration, error) {
	if l.limiter.Allow() {
		return 0, nil
	}
	r := l.limiter.Reserve()
	delay := r.Delay()
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		r.Cancel()
		e := connector.Fail(connector.CodeOverloaded, "this connection makes more calls than its rate allows")
		e.RetryAfter = delay
		return 0, e
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return delay, nil
	case <-ctx.Done():
		r.Cancel()
		return 0, ctx.Err()
	}
}

// spend takes tokens for one more attempt. When there are too few, many calls
// of this connection have failed lately, and retries would only add to it.
func (l *lane) spend(tokens int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.budget < tokens {
		return false
	}
	l.budget -= tokens
	return true
}

// earn gives one token back for a call that went well.
func (l *lane) earn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget = min(l.budget+1, l.most)
}
