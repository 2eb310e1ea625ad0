package edge

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// maxBuckets bounds what is remembered of callers. The one that was idle longest goes
// first; its bucket was full again.
const maxBuckets = 20_000

// rates are token buckets of principals, tenants, and principals' tools.
type rates struct {
	limits Limits
	now    func() time.Time

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *bucket, the most recently used in front
}

type bucket struct {
	key     string
	limiter *rate.Limiter
}

func newRates(l Limits) *rates {
	return &rates{limits: l, now: time.Now, byKey: map[string]*list.Element{}, order: list.New()}
}

// take takes one from each bucket, or none and says how long to wait.
func (r *rates) take(c connector.Caller, tool string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	limiters := []*rate.Limiter{
		r.bucket(key("tenant", string(c.Tenant)), r.limits.Tenant),
		r.bucket(key("principal", string(c.Tenant), string(c.Principal)), r.limits.Principal),
	}
	wait := longest(now, limiters)
	if wait == 0 && tool != "" {
		// Only now: names of tools are the caller's choice, and a flood of them must
		// not push out the buckets of others.
		limiters = append(limiters, r.bucket(key("tool", string(c.Tenant), string(c.Principal), tool), r.limits.Tool))
		wait = longest(now, limiters)
	}
	if wait > 0 {
		return wait
	}
	for _, l := range limiters {
		l.AllowN(now, 1)
	}
	return 0
}

// longest is how long it takes until each has one.
func longest(now time.Time, limiters []*rate.Limiter) (wait time.Duration) {
	for _, l := range limiters {
		if missing := 1 - l.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(missing/float64(l.Limit())*float64(time.Second)), time.Millisecond)
		}
	}
	return wait
}

func key(parts ...string) string { return strings.Join(parts, "\x00") }

func (r *rates) bucket(key string, perSecond float64) *rate.Limiter {
	if e, ok := r.byKey[key]; ok {
		r.order.MoveToFront(e)
		return e.Value.(*bucket).limiter
	}
	b := &bucket{key, rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))}
	r.byKey[key] = r.order.PushFront(b)
	for r.order.Len() > maxBuckets {
		last := r.order.Back()
		delete(r.byKey, r.order.Remove(last).(*bucket).key)
	}
	return b.limiter
}
