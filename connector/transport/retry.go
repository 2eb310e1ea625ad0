package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	maxReads  = 3               // attempts of a read that fails
	maxHops   = 3               // redirects of a read
	maxInline = 5 * time.Second // what is waited inside a call; more is the caller's business
	spare     = 250 * time.Millisecond
	maxWait   = 4 * time.Second
	firstWait = 250 * time.Millisecond
)

// Why an attempt was the last one, or was followed by another.
const (
	stopReplayed  = "repeated by the connection pool"
	stopDone      = ""
	stopSent      = "may have been received"
	stopAttempts  = "no attempts left"
	stopBudget    = "retry budget is spent"
	stopTooLong   = "asked to wait too long"
	stopDeadline  = "no time left"
	stopEnded     = "the call ended"
	stopPermanent = "would not change"
)

// check is the policy of the attempt loop; go-retryablehttp's own would send a
// POST five times. It decides the wait as well, because only here the deadline
// is known. It never returns an error: that would hide the answer.
func (c *call) check(ctx context.Context, resp *http.Response, err error) (again bool, _ error) {
	again, stop := c.decide(ctx, resp, err)
	if n := len(c.attempts); n > 0 && stop != stopDone && c.fresh {
		c.attempts[n-1].Stop = join(c.attempts[n-1].Stop, stop)
	}
	c.fresh = false
	return again, nil
}

func (c *call) decide(ctx context.Context, resp *http.Response, err error) (again bool, stop string) {
	switch {
	case ctx.Err() != nil:
		return false, stopEnded
	case err == nil && resp.StatusCode == http.StatusUnauthorized && !c.write && c.rejected == 0 && c.version != 0:
		// Once: the version we sent is reported, and a new one asked for.
		c.rejected, c.wait = c.version, 0
		return true, stopDone
	case err == nil && c.refetch:
		// Once, and without a condition: see keep.
		c.refetch, c.unconditional, c.wait = false, true, 0
		return true, stopDone
	case err == nil && (c.write || !transient(resp.StatusCode)):
		return false, stopDone
	case err != nil && !mayPass(err):
		return false, stopPermanent
	case c.write && wrote(c.attempts):
		return false, stopSent
	}
	limit, cost := maxReads, 5
	var cut *bodyFault
	if c.write || errors.As(err, &cut) {
		limit = 2
	}
	if isTimeout(err) {
		cost = 10
	}
	if c.failed++; c.failed >= limit {
		return false, stopAttempts
	}
	c.wait = jitter(c.t.firstWait, c.failed-1)
	if err == nil && c.answer.wait > 0 {
		c.wait = c.answer.wait
	}
	if c.wait > maxInline {
		return false, stopTooLong
	}
	if deadline, ok := ctx.Deadline(); ok && c.wait > time.Until(deadline)-spare {
		return false, stopDeadline
	}
	if !c.lane.spend(cost) {
		return false, stopBudget
	}
	return true, stopDone
}

// backoff hands on what check decided.
func (c *call) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return c.wait }

// transient statuses of a read are worth asking again.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// jitter is full jitter on a doubling ceiling, with a floor so that a provider
// that says 0 seconds does not get a hot loop.
func jitter(first time.Duration, n int) time.Duration {
	ceiling := min(first<<n, maxWait)
	return ceiling/8 + rand.N(ceiling-ceiling/8)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
