package sandbox

import (
	"math"
	"strconv"
	"sync"
	"time"
)

// limiter counts API requests per account in fixed windows.
type limiter struct {
	mu     sync.Mutex
	limit  int // 0: unlimited
	window time.Duration
	start  time.Time
	used   map[string]int
}

func (l *limiter) set(limit int, window time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.window, l.start, l.used = limit, window, time.Time{}, nil
}

func (l *limiter) reset() { l.set(0, 0) }

// take counts one request and fills the headers; false means over the limit.
func (l *limiter) take(account string, a *answer) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	window := l.window
	if window <= 0 {
		window = time.Minute
	}
	at := time.Now()
	if at.Sub(l.start) >= window {
		l.start, l.used = at, make(map[string]int)
	}
	l.used[account]++
	limit := l.limit
	if limit <= 0 {
		limit = math.MaxInt32
	}
	left := limit - l.used[account]
	ends := l.start.Add(window)
	a.set("X-Ratelimit-Limit", strconv.Itoa(limit))
	a.set("X-Ratelimit-Remaining", strconv.Itoa(max(left, 0)))
	a.set("X-Ratelimit-Reset", strconv.FormatInt(ends.Unix()+1, 10))
	if left < 0 {
		wait := int(math.Ceil(ends.Sub(at).Seconds()))
		a.set("Retry-After", strconv.Itoa(max(wait, 1)))
		return false
	}
	return true
}
