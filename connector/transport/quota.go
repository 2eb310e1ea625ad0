package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// maxQuotas bounds what one answer can make us remember.
const maxQuotas = 8

// quotas reads what an answer says about limits, whether it refuses or not:
//
//   - RateLimit and RateLimit-Policy, draft-ietf-httpapi-ratelimit-headers-12;
//   - the older triples of limit, remaining and reset in their four spellings,
//     where X-RateLimit-Resource names the dimension;
//   - Retry-After of an answer that refuses, which wins over every reset time.
//
// What can't be read is left out: a wrong wait is worse than none.
func quotas(status int, h http.Header, now time.Time) []connector.Quota {
	refused := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == http.StatusForbidden
	spoken := refused && len(h["Retry-After"]) == 1
	for name := range h {
		if strings.HasPrefix(name, "X-Rate") || strings.HasPrefix(name, "Ratelimit") {
			spoken = true
			break
		}
	}
	if !spoken {
		return nil
	}
	list := named(h, now)
	for i := range families {
		if q, ok := families[i].read(h, now); ok && len(list) < maxQuotas {
			list = append(list, q)
		}
	}
	if refused {
		list = askedToWait(list, h, now)
	}
	return list
}

// askedToWait puts Retry-After on the limits that are used up. When none is
// known to be, it is about a limit of its own: GitHub's secondary ones answer
// with thousands remaining.
func askedToWait(list []connector.Quota, h http.Header, now time.Time) []connector.Quota {
	lines := h["Retry-After"]
	if len(lines) != 1 {
		return list
	}
	wait := waitOf(lines[0], h, now)
	if wait <= 0 {
		return list
	}
	found := false
	for i := range list {
		if exhausted(list[i]) {
			list[i].RetryAfter, list[i].ResetAt, found = wait, now.Add(wait), true
		}
	}
	if !found {
		q := connector.Quota{RetryAfter: wait, ResetAt: now.Add(wait)}
		list = append(list, said(q, now))
	}
	return list
}

func exhausted(q connector.Quota) bool { return q.Remaining != nil && *q.Remaining == 0 }

func said(q connector.Quota, now time.Time) connector.Quota {
	q.Source, q.ObservedAt, q.Authoritative = connector.QuotaFromHeader, now, true
	return q
}

// A family is one spelling of the older headers.
type family struct {
	limit, remaining, reset string
	dimension               string // when no header names it
}

var families = [...]family{
	{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", ""},
	{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", ""},
	{"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", ""},
	{"X-Ratelimit-Requests-Limit", "X-Ratelimit-Requests-Remaining", "X-Ratelimit-Requests-Reset", "requests"},
	{"X-Ratelimit-Complexity-Limit", "X-Ratelimit-Complexity-Remaining", "X-Ratelimit-Complexity-Reset", "complexity"},
}

func (f *family) read(h http.Header, now time.Time) (connector.Quota, bool) {
	q := connector.Quota{Dimension: f.dimension, Limit: count(h[f.limit]), Remaining: count(h[f.remaining])}
	if q.Limit == nil && q.Remaining == nil {
		return q, false
	}
	if lines := h["X-Ratelimit-Resource"]; f.dimension == "" && len(lines) == 1 {
		q.Dimension = dimension(lines[0])
	}
	if lines := h[f.reset]; len(lines) == 1 {
		q.ResetAt = resetOf(lines[0], h, now)
	}
	return said(q, now), true
}

// count reads a number of requests. Some providers append the window, as in
// "100, 100;w=60": the first number is the one that counts.
func count(lines []string) *int64 {
	if len(lines) != 1 {
		return nil
	}
	v, _, _ := strings.Cut(lines[0], ",")
	v, _, _ = strings.Cut(v, ";")
	n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 63)
	if err != nil {
		return nil
	}
	return new(int64(n))
}

// resetOf reads a reset time: seconds from now or since 1970, milliseconds
// since 1970, an HTTP date, or an ISO 8601 time with or without seconds. Zero:
// it can't be read, or is further away than anyone should plan for.
func resetOf(v string, h http.Header, now time.Time) time.Time {
	v = strings.TrimSpace(v)
	if len(v) >= 12 && len(v) <= 14 && strings.Trim(v, "0123456789") == "" {
		ms, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return time.Time{}
		}
		return plausible(time.UnixMilli(ms), now)
	}
	if at, err := time.Parse("2006-01-02T15:04Z07:00", v); err == nil {
		return plausible(at, now)
	}
	if strings.Trim(v, "0123456789.") == "" && len(v) > 0 && len(v) <= 11 {
		seconds, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil:
			return time.Time{}
		case seconds > 1e9:
			return plausible(time.Unix(int64(seconds), 0), now)
		}
		return plausible(now.Add(time.Duration(math.Ceil(seconds))*time.Second), now)
	}
	if wait := waitOf(v, h, now); wait > 0 {
		return plausible(now.Add(wait), now)
	}
	return time.Time{}
}

// plausible keeps times that are not long over and not years away. A window of
// a month exists; a wait of a month does not, see maxRetryAfter.
func plausible(at, now time.Time) time.Time {
	if d := at.Sub(now); d < -time.Hour || d > 32*24*time.Hour {
		return time.Time{}
	}
	return at
}

// dimension makes a foreign name fit for keys, records and metrics.
func dimension(s string) string {
	s = clean(s)
	return s[:min(len(s), 64)]
}

// limits reads an answer's header for what the provider asks of us.
func (a *answer) limits() {
	a.wait, a.quota = retryAfter(a.header, a.at), quotas(a.status, a.header, a.at)
	if a.wait == 0 {
		for _, q := range a.quota {
			a.wait = max(a.wait, pause(q))
		}
	}
}

// pause is how long an exhausted limit asks to stay away.
func pause(q connector.Quota) time.Duration {
	switch {
	case q.RetryAfter > 0:
		return min(q.RetryAfter, maxRetryAfter)
	case exhausted(q) && q.ResetAt.After(q.ObservedAt):
		return min(q.ResetAt.Sub(q.ObservedAt), maxRetryAfter)
	}
	return 0
}
