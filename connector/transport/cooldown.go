package transport

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Cooldowns remember until when a provider asked to be left alone. Several
// processes that share an implementation honour what any of them was told.
//
// A key is tenant, connection and dimension, each escaped by url.PathEscape and
// joined by slashes, so what precedes the first slash is the tenant. Until is
// the zero time, or one in the past, when nothing runs; it is asked before
// every attempt and must be cheap. Extend never shortens. Both must be safe for
// concurrent use.
//
// An error of either is logged and the request goes out: the provider still
// refuses by itself what it does not want, whereas a broken table that stopped
// every read would be an outage of our own making.
type Cooldowns interface {
	Until(ctx context.Context, key string) (time.Time, error)
	Extend(ctx context.Context, key string, until time.Time) error
}

// cooldownPatience is how long a call waits for Extend.
const cooldownPatience = time.Second

// InProcess is a Cooldowns for a single process. The zero value is ready.
type InProcess struct {
	mu    sync.RWMutex // guards until
	until map[string]time.Time
}

// maxCooldowns bounds the memory that providers with many names can take.
const maxCooldowns = 4096

// Until returns the end of a cooldown, or the zero time. It never fails.
func (p *InProcess) Until(_ context.Context, key string) (time.Time, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.until[key], nil
}

// Extend moves the end of a cooldown to a later time. It never fails.
func (p *InProcess) Extend(_ context.Context, key string, until time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	if until.After(p.until[key]) {
		p.until[key] = until
	}
	if len(p.until) > maxCooldowns {
		p.shrink()
	}
	return nil
}

// shrink forgets what is over, and then what is over soonest.
func (p *InProcess) shrink() {
	ends := make([]time.Time, 0, len(p.until))
	for _, at := range p.until {
		ends = append(ends, at)
	}
	slices.SortFunc(ends, time.Time.Compare)
	cut := ends[len(ends)/4]
	if now := time.Now(); cut.Before(now) {
		cut = now
	}
	for key, at := range p.until {
		if !at.After(cut) {
			delete(p.until, key)
		}
	}
}

// A route is a group of requests that count against the same limits, as far as
// can be told before one is sent: those of one class whose paths start alike.
// Which dimensions a route has is learnt from answers. A cooldown is kept under
// the dimension, for other routes of this process that count against it, and
// under the route, for a process that has not learnt anything yet.
type route struct {
	whole, own string // keys

	mu      sync.Mutex // guards learnt
	learnt  []string   // keys; replaced, never changed
	prefix  string     // of keys
	ignored bool       // too many routes: only the whole connection is looked at
}

// maxRoutes and maxLearnt bound what a connection remembers.
const (
	maxRoutes = 64
	maxLearnt = 4
)

// routes are the routes of one connection.
type routes struct {
	prefix string

	mu    sync.Mutex // guards known
	known map[string]*route
}

func (r *routes) find(write bool, path string) *route {
	group, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	class := "r:"
	if write {
		class = "w:"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if write { // two maps would cost more than one longer key
		group = "/" + group
	}
	if at := r.known[group]; at != nil {
		return at
	}
	at := &route{whole: r.prefix, prefix: r.prefix}
	if len(r.known) >= maxRoutes || len(group) > 64 {
		at.own, at.ignored = at.whole, true
		return at
	}
	at.own = r.prefix + class + url.PathEscape(strings.TrimPrefix(group, "/"))
	if r.known == nil {
		r.known = map[string]*route{}
	}
	r.known[strings.Clone(group)] = at
	return at
}

func (r *route) dimensions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.learnt
}

// key of a dimension. It can't be one of a route: a colon is escaped there.
func (r *route) key(dimension string) string {
	return r.prefix + strings.ReplaceAll(url.PathEscape(dimension), ":", "%3A")
}

func (r *route) learn(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ignored && len(r.learnt) < maxLearnt && !slices.Contains(r.learnt, key) {
		r.learnt = append(slices.Clone(r.learnt), key)
	}
}

func keyPrefix(conn connector.Connection) string {
	return url.PathEscape(string(conn.Tenant)) + "/" + url.PathEscape(string(conn.ID)) + "/"
}

// running is the latest end of the cooldowns that an attempt falls under.
func (c *call) running(ctx context.Context) (until time.Time) {
	ask := func(key string) {
		at, err := c.t.cooldowns.Until(ctx, key)
		if err != nil {
			c.t.log.LogAttrs(ctx, slog.LevelWarn, "cooldowns can't be read", slog.String("cause", err.Error()))
		} else if at.After(until) {
			until = at
		}
	}
	ask(c.route.whole)
	if c.route.own != c.route.whole {
		ask(c.route.own)
	}
	for _, key := range c.route.dimensions() {
		ask(key)
	}
	return until
}

// cool honours a running cooldown: it waits when the caller would not mind, and
// answers RATE_LIMITED, with nothing sent, when it would take longer.
func (c *call) cool(ctx context.Context) error {
	var waited time.Duration
	for {
		until := c.running(ctx)
		if until.IsZero() {
			return nil
		}
		wait := time.Until(until)
		if wait <= 0 {
			return nil
		}
		deadline, ok := ctx.Deadline()
		if waited+wait > maxInline || ok && wait > time.Until(deadline)-spare {
			e := connector.Fail(connector.CodeRateLimited, "")
			e.RetryAfter = wait
			return e
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		waited += wait
		c.wait += wait
	}
}

// heed keeps what an answer asks for. It is written even if the caller has
// gone: the others should not have to find out for themselves.
func (c *call) heed(ctx context.Context) {
	for _, q := range c.answer.quota {
		key := c.route.whole
		if q.Dimension != "" {
			key = c.route.key(q.Dimension)
			c.route.learn(key)
		}
		if wait := pause(q); wait > 0 {
			c.extend(ctx, key, wait)
			if key != c.route.whole {
				c.extend(ctx, c.route.own, wait)
			}
		}
	}
}

func (c *call) extend(ctx context.Context, key string, wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cooldownPatience)
	defer cancel()
	if err := c.t.cooldowns.Extend(ctx, key, c.answer.at.Add(wait)); err != nil {
		c.t.log.LogAttrs(ctx, slog.LevelWarn, "a cooldown can't be kept", slog.String("cause", err.Error()))
	}
}
