package transport

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// headers reads "Name: value" lines.
func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

// Guarantee: NET7
func TestQuotaForms_G22_G23_T21(t *testing.T) {
	in := func(d time.Duration) time.Time { return noon.Add(d) }
	n := func(v int64) *int64 { return &v }
	type q = connector.Quota
	for name, c := range map[string]struct {
		status int
		h      http.Header
		want   []q
	}{
		"nothing":               {200, headers("Content-Type: application/json"), nil},
		"GitHub":                {200, headers("X-RateLimit-Limit: 5000", "X-RateLimit-Remaining: 4999", "X-RateLimit-Reset: 1796040090", "X-RateLimit-Resource: core", "X-RateLimit-Used: 1"), []q{{Dimension: "core", Limit: n(5000), Remaining: n(4999), ResetAt: in(90 * time.Second)}}},
		"GitHub, used up":       {403, headers("X-RateLimit-Limit: 30", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1796040090", "X-RateLimit-Resource: search"), []q{{Dimension: "search", Limit: n(30), Remaining: n(0), ResetAt: in(90 * time.Second)}}},
		"seconds from now":      {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 30"), []q{{Limit: n(10), Remaining: n(1), ResetAt: in(30 * time.Second)}}},
		"ISO time":              {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 2026-11-30T12:05:00Z"), []q{{Limit: n(10), Remaining: n(1), ResetAt: in(5 * time.Minute)}}},
		"ISO, no seconds":       {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 2026-11-30T13:05+01:00"), []q{{Limit: n(10), Remaining: n(1), ResetAt: in(5 * time.Minute)}}},
		"HTTP date":             {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: Mon, 30 Nov 2026 12:01:00 GMT"), []q{{Limit: n(10), Remaining: n(1), ResetAt: in(time.Minute)}}},
		"milliseconds":          {200, headers("X-RateLimit-Requests-Limit: 1500", "X-RateLimit-Requests-Remaining: 1499", "X-RateLimit-Requests-Reset: 1796040030000"), []q{{Dimension: "requests", Limit: n(1500), Remaining: n(1499), ResetAt: in(30 * time.Second)}}},
		"two dimensions":        {200, headers("X-RateLimit-Requests-Remaining: 9", "X-RateLimit-Complexity-Remaining: 0"), []q{{Dimension: "requests", Remaining: n(9)}, {Dimension: "complexity", Remaining: n(0)}}},
		"hyphens":               {200, headers("X-Rate-Limit-Limit: 600", "X-Rate-Limit-Remaining: 599", "X-Rate-Limit-Reset: 1796040090"), []q{{Limit: n(600), Remaining: n(599), ResetAt: in(90 * time.Second)}}},
		"old IETF":              {200, headers("RateLimit-Limit: 100, 100;w=60", "RateLimit-Remaining: 7", "RateLimit-Reset: 7"), []q{{Limit: n(100), Remaining: n(7), ResetAt: in(7 * time.Second)}}},
		"reset far away":        {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 9999999999"), []q{{Limit: n(10), Remaining: n(1)}}},
		"reset long over":       {200, headers("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1743442808"), []q{{Limit: n(10), Remaining: n(0)}}},
		"garbage":               {200, headers("X-RateLimit-Limit: many", "X-RateLimit-Remaining: -1", "X-RateLimit-Reset: soon"), nil},
		"overflow":              {200, headers("X-RateLimit-Limit: 99999999999999999999", "X-RateLimit-Remaining: 3"), []q{{Remaining: n(3)}}},
		"two lines":             {200, headers("X-RateLimit-Limit: 1", "X-RateLimit-Limit: 2"), nil},
		"only limit":            {200, headers("X-RateLimit-Limit: 60"), []q{{Limit: n(60)}}},
		"a dirty name":          {200, headers("X-RateLimit-Limit: 60", "X-RateLimit-Resource: a b\x7f\xff"+strings.Repeat("c", 100)), []q{{Dimension: "ab" + strings.Repeat("c", 62), Limit: n(60)}}},
		"draft 12":              {200, headers(`RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400`, `RateLimit: "burst";r=50;t=30`), []q{{Dimension: "burst", Limit: n(100), Remaining: n(50), ResetAt: in(30 * time.Second)}, {Dimension: "daily", Limit: n(1000)}}},
		"draft 12, lines":       {200, headers(`RateLimit: "a";r=1`, `RateLimit: "b";r=2;t=5`), []q{{Dimension: "a", Remaining: n(1)}, {Dimension: "b", Remaining: n(2), ResetAt: in(5 * time.Second)}}},
		"draft 12, key":         {200, headers(`RateLimit-Policy: "peruser";q=100;qu="requests";w=60;pk=:cHNzaDE=:`, `RateLimit: "peruser";r=1;t=2;pk=:cHNzaDE=:`), []q{{Dimension: "peruser/cHNzaDE=", Limit: n(100), Remaining: n(1), ResetAt: in(2 * time.Second)}}},
		"draft 12, escapes":     {200, headers(`RateLimit: "a\"b\\c" ; r=1`), nil},
		"draft 12, escaped":     {200, headers(`RateLimit: "a\"b\\c"; r=1`), []q{{Dimension: `a"b\c`, Remaining: n(1)}}},
		"draft 12, token":       {200, headers(`RateLimit: default;r=50;t=30`), []q{{Dimension: "default", Remaining: n(50), ResetAt: in(30 * time.Second)}}},
		"draft 12, no r":        {200, headers(`RateLimit: "a";t=30`), nil},
		"draft 12, negative":    {200, headers(`RateLimit: "a";r=-1`), nil},
		"draft 12, decimal":     {200, headers(`RateLimit: "a";r=1.5`), nil},
		"draft 12, 16 digits":   {200, headers(`RateLimit: "a";r=1234567890123456`), nil},
		"draft 12, far t":       {200, headers(`RateLimit: "a";r=1;t=999999999999999`), []q{{Dimension: "a", Remaining: n(1)}}},
		"draft 12, cut":         {200, headers(`RateLimit: "a;r=1`), nil},
		"draft 12, comma":       {200, headers(`RateLimit: "a";r=1,`), nil},
		"draft 12, bad key":     {200, headers(`RateLimit: "a";r=1;pk=:!:`), nil},
		"draft 12, open key":    {200, headers(`RateLimit: "a";r=1;pk=:abc`), nil},
		"draft 12, one bad":     {200, headers(`RateLimit: "a";r=1, ;r=2`), nil},
		"draft 12, too many":    {200, headers(`RateLimit: ` + strings.TrimSuffix(strings.Repeat(`"a";r=1,`, maxQuotas+1), ",")), nil},
		"draft 12, refused":     {429, headers(`RateLimit: "a";r=0;t=30, "b";r=9;t=5`), []q{{Dimension: "a", Remaining: n(0), ResetAt: in(30 * time.Second)}, {Dimension: "b", Remaining: n(9), ResetAt: in(5 * time.Second)}}},
		"Retry-After wins":      {429, headers(`RateLimit: "a";r=0;t=30`, "Retry-After: 90"), []q{{Dimension: "a", Remaining: n(0), ResetAt: in(90 * time.Second), RetryAfter: 90 * time.Second}}},
		"Retry-After alone":     {429, headers("Retry-After: 5"), []q{{ResetAt: in(5 * time.Second), RetryAfter: 5 * time.Second}}},
		"down for a while":      {503, headers("Retry-After: 5"), []q{{ResetAt: in(5 * time.Second), RetryAfter: 5 * time.Second}}},
		"GitHub, secondary G24": {403, headers("X-RateLimit-Remaining: 4000", "X-RateLimit-Resource: core", "Retry-After: 60"), []q{{Dimension: "core", Remaining: n(4000)}, {ResetAt: in(time.Minute), RetryAfter: time.Minute}}},
		"Retry-After, odd":      {429, headers("Retry-After: -5"), nil},
		"accepted, poll":        {202, headers("Retry-After: 5"), nil},
		"moved":                 {301, headers("Retry-After: 5"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.want {
				c.want[i].Source, c.want[i].ObservedAt, c.want[i].Authoritative = connector.QuotaFromHeader, noon, true
			}
			if diff := cmp.Diff(c.want, quotas(c.status, c.h, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzQuota(f *testing.F) {
	for _, s := range []string{`"burst";r=0;t=30`, `"a";q=1;pk=:YQ==:, b;r=2`, "100, 100;w=60", "1796040090", "2026-11-30T12:05Z", "-1", `"\`, ";;=", "1e309"} {
		f.Add(429, s, s, s, s)
		f.Add(200, s, "0", s, "5")
	}
	f.Fuzz(func(t *testing.T, status int, structured, number, reset, after string) {
		h := http.Header{"Ratelimit": {structured, structured}, "Ratelimit-Policy": {structured}, "X-Ratelimit-Limit": {number},
			"X-Ratelimit-Remaining": {number}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Resource": {structured}, "Retry-After": {after}}
		list := quotas(status, h, noon)
		if len(list) > 2*maxQuotas+1 {
			t.Errorf("%d quotas of one answer", len(list))
		}
		for _, q := range list {
			if q.Limit != nil && *q.Limit < 0 || q.Remaining != nil && *q.Remaining < 0 {
				t.Errorf("negative counts: %d, %d", *q.Limit, *q.Remaining)
			}
			if len(q.Dimension) > 64 || !printable(q.Dimension) {
				t.Errorf("dimension %q", q.Dimension)
			}
			if d := pause(q); d < 0 || d > maxRetryAfter {
				t.Errorf("a pause of %v", d)
			}
			if !q.ResetAt.IsZero() && (q.ResetAt.Before(noon.Add(-time.Hour)) || q.ResetAt.After(noon.Add(40*24*time.Hour))) {
				t.Errorf("reset at %v", q.ResetAt)
			}
			if !q.Authoritative || q.Source != connector.QuotaFromHeader || !q.ObservedAt.Equal(noon) {
				t.Errorf("%+v is not the header's word", q)
			}
		}
	})
}

// Guarantee: NET7
func TestQuotaIsHandedOut(t *testing.T) {
	for _, status := range []int{200, 404, 429} {
		s := serve(t, always(status, `{}`, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 59", "X-RateLimit-Resource: core"))
		tr := newTransport(t, quick(Loopback("org", s.url)))
		for _, do := range []func(context.Context) (connector.Response, error){
			func(ctx context.Context) (connector.Response, error) {
				return tr.Do(ctx, alice, connector.ClassRead, read("/t"))
			},
			func(ctx context.Context) (connector.Response, error) {
				return tr.Do(ctx, alice, connector.ClassWrite, write("/t", `{}`))
			},
			func(ctx context.Context) (connector.Response, error) {
				return tr.Exchange(ctx, "org", Exchange{URL: s.url + "/token"})
			},
		} {
			resp, err := do(t.Context())
			if err != nil || len(resp.Quota) != 1 || resp.Quota[0].Dimension != "core" || *resp.Quota[0].Remaining != 59 {
				t.Errorf("%d: %+v, %v", status, resp.Quota, err)
			}
		}
	}
}

func TestExhaustedQuotaIsAHint(t *testing.T) {
	a := answer{status: 429, header: headers(`RateLimit: "a";r=0;t=30, "b";r=0;t=60`), at: noon}
	if a.limits(); a.wait != time.Minute {
		t.Errorf("wait %v, want the longer one", a.wait)
	}
}
