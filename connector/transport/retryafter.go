package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what is believed: a day says enough.
const maxRetryAfter = 24 * time.Hour

// retryAfter is how long an answer asks to wait, from 0 (it doesn't say, or
// not in a way that can be believed) to a day. Retry-After wins; a quota that
// is used up counts with its reset time.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if lines := h["Retry-After"]; len(lines) == 1 { // two would be a list
		if d := waitOf(lines[0], h, now); d > 0 {
			return d
		}
	}
	for _, family := range [...][2]string{{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"}, {"Ratelimit-Remaining", "Ratelimit-Reset"}} {
		left, reset := h[family[0]], h[family[1]]
		if len(left) == 1 && len(reset) == 1 && strings.TrimSpace(left[0]) == "0" {
			if d := waitOf(reset[0], h, now); d > 0 {
				return d
			}
		}
	}
	return 0
}

// waitOf reads seconds (whole or decimal), seconds since 1970, the three date
// forms of RFC 9110 5.6.7, or RFC 3339.
func waitOf(v string, h http.Header, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" || len(v) > 64 {
		return 0
	}
	if strings.Trim(v, "0123456789.") == "" {
		whole, fraction, _ := strings.Cut(v, ".")
		if whole == "" || len(whole) > 10 || strings.Contains(fraction, ".") {
			return 0
		}
		seconds, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return 0
		}
		if seconds > 1e9 { // no one waits 30 years: a point in time
			return clampWait(time.Unix(int64(seconds), 0).Sub(now))
		}
		return clampWait(time.Duration(math.Ceil(min(seconds, 1e6))) * time.Second)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		if at, err = time.Parse(time.RFC3339, v); err != nil {
			return 0
		}
	}
	// The provider's own clock is the one that its date is about, unless it is
	// plainly wrong.
	if date := h["Date"]; len(date) == 1 {
		if there, err := http.ParseTime(date[0]); err == nil && there.Sub(now).Abs() < maxRetryAfter {
			now = there
		}
	}
	return clampWait(at.Sub(now))
}

func clampWait(d time.Duration) time.Duration { return max(0, min(d, maxRetryAfter)) }
