package transport

import (
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestRetryAfterForms_G22_G23_T21(t *testing.T) {
	one := func(v string) http.Header { return http.Header{"Retry-After": {v}} }
	quota := func(left, reset string) http.Header {
		return http.Header{"X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset}}
	}
	for name, c := range map[string]struct {
		h    http.Header
		want time.Duration
	}{
		"none":            {http.Header{}, 0},
		"seconds":         {one("120"), 2 * time.Minute},
		"spaces":          {one(" 120 "), 2 * time.Minute},
		"zero":            {one("0"), 0},
		"negative":        {one("-1"), 0},
		"decimal":         {one("1.5"), 2 * time.Second},
		"two dots":        {one("1.5.2"), 0},
		"dot":             {one("."), 0},
		"leading dot":     {one(".5"), 0},
		"NaN":             {one("NaN"), 0},
		"infinity":        {one("Inf"), 0},
		"exponent":        {one("1e3"), 0},
		"hex":             {one("0x10"), 0},
		"empty":           {one(""), 0},
		"words":           {one("soon"), 0},
		"list":            {one("120, 5"), 0},
		"a day":           {one("86400"), 24 * time.Hour},
		"over a day":      {one("86401"), 24 * time.Hour},
		"a billion":       {one("1000000000"), 24 * time.Hour},
		"overflow":        {one("9223372037"), 24 * time.Hour}, // read as the year 2262
		"30 digits":       {one("999999999999999999999999999999"), 0},
		"epoch, past":     {one("1743442808"), 0},
		"epoch, in 90 s":  {one("1796040090"), 90 * time.Second},
		"IMF date":        {one("Mon, 30 Nov 2026 12:01:00 GMT"), time.Minute},
		"IMF date, past":  {one("Mon, 30 Nov 2026 11:01:00 GMT"), 0},
		"RFC 850 date":    {one("Monday, 30-Nov-26 12:01:00 GMT"), time.Minute},
		"asctime date":    {one("Mon Nov 30 12:01:00 2026"), time.Minute},
		"year 9999":       {one("Fri, 31 Dec 9999 23:59:59 GMT"), 24 * time.Hour},
		"year 0":          {one("Sat, 01 Jan 0000 00:00:00 GMT"), 0},
		"two lines":       {http.Header{"Retry-After": {"1", "2"}}, 0},
		"their clock":     {http.Header{"Retry-After": {"Mon, 30 Nov 2026 11:01:00 GMT"}, "Date": {"Mon, 30 Nov 2026 11:00:00 GMT"}}, time.Minute},
		"no sane clock":   {http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:01:00 GMT"}, "Date": {"Thu, 01 Jan 1970 00:00:00 GMT"}}, time.Minute},
		"broken clock":    {http.Header{"Retry-After": {"Mon, 30 Nov 2026 12:01:00 GMT"}, "Date": {"now"}}, time.Minute},
		"quota, epoch":    {quota("0", "1796040090"), 90 * time.Second},
		"quota, seconds":  {quota("0", "30"), 30 * time.Second},
		"quota, ISO date": {quota("0", "2026-11-30T12:00:30Z"), 30 * time.Second},
		"quota left":      {quota("4000", "1796040090"), 0},
		"quota garbage":   {quota("0", "tomorrow"), 0},
		"quota, IETF":     {http.Header{"Ratelimit-Remaining": {"0"}, "Ratelimit-Reset": {"7"}}, 7 * time.Second},
		"both":            {http.Header{"Retry-After": {"5"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30"}}, 5 * time.Second},
		"first is broken": {http.Header{"Retry-After": {"-5"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"30"}}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(c.h, noon); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "1.5", "9223372037", "-9223372036854775808", "Mon, 30 Nov 2026 12:01:00 GMT", "2026-11-30T12:00:30+14:00", "1e309"} {
		f.Add(s, "0", s, "Mon, 30 Nov 2026 11:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, after, left, reset, date string) {
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Remaining": {left}, "X-Ratelimit-Reset": {reset}, "Date": {date}}
		if d := retryAfter(h, noon); d < 0 || d > maxRetryAfter {
			t.Errorf("%v is out of range", d)
		}
	})
}

// A provider that says 0 gets a jittered wait, never a hot loop (G23).
func TestJitter(t *testing.T) {
	for n := range 40 {
		for range 100 {
			d := jitter(firstWait, min(n, 20))
			if d < firstWait/8 || d >= maxWait {
				t.Fatalf("wait %d is %v", n, d)
			}
		}
	}
}
