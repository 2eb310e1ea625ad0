package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func limited(t testing.TB, url string, cooldowns Cooldowns) *Transport {
	t.Helper()
	tr, err := New(Config{Profiles: Static{"org": quick(Loopback("org", url))}, Credentials: &tokens{}, Cooldowns: cooldowns})
	if err != nil {
		t.Fatal(err)
	}
	tr.firstWait = 2 * time.Millisecond
	t.Cleanup(tr.Close)
	return tr
}

// Guarantee: NET6
func TestRunningCooldownSendsNothing_G22(t *testing.T) {
	s := serve(t, always(429, `{}`, "Retry-After: 3600"))
	shared := new(InProcess)
	tr := limited(t, s.url, shared)
	if resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil || resp.Status != 429 {
		t.Fatalf("status %d, %v", resp.Status, err)
	}
	// Another process that shares the cooldowns is as good as this one.
	for i, tr := range []*Transport{tr, limited(t, s.url, shared)} {
		for _, class := range []connector.Class{connector.ClassRead, connector.ClassWrite} {
			r := read("/other")
			if class == connector.ClassWrite {
				r = write("/t", "{}")
			}
			resp, err := tr.Do(t.Context(), alice, class, r)
			e := connector.AsError(err)
			if e == nil || e.Code != connector.CodeRateLimited || e.RetryAfter < 59*time.Minute || e.RetryAfter > time.Hour || e.Guessed || len(resp.Attempts) != 0 {
				t.Errorf("transport %d, class %d: %v (%+v) after %d attempts", i, class, err, e, len(resp.Attempts))
			}
			if class == connector.ClassWrite && effect(err) != connector.DispositionNotApplied {
				t.Errorf("effect %v", effect(err))
			}
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	// One tenant, or one connection, does not stop another.
	for _, c := range []connector.Connection{
		{ID: "conn-2", Tenant: "acme", Principal: "alice", Profile: "org"}, {ID: "conn-1", Tenant: "globex", Principal: "alice", Profile: "org"},
	} {
		if resp, err := tr.Do(t.Context(), c, connector.ClassRead, read("/t")); err != nil || resp.Status != 429 {
			t.Errorf("%s of %s: %d, %v", c.ID, c.Tenant, resp.Status, err)
		}
	}
}

// Guarantee: NET7
func TestCooldownIsForItsDimension(t *testing.T) {
	s := serve(t, func(_ int, r seen, c net.Conn) bool {
		switch {
		case strings.HasPrefix(r.target, "/search"), strings.HasPrefix(r.target, "/lookup"):
			return say(c, 429, `{}`, "X-RateLimit-Resource: search", "X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 30", "Retry-After: 600")
		case r.method == "POST":
			return say(c, 200, `{}`)
		}
		return say(c, 200, `{}`, "X-RateLimit-Resource: core", "X-RateLimit-Remaining: 10")
	})
	shared := new(InProcess)
	old, fresh := limited(t, s.url, shared), limited(t, s.url, shared)
	get := func(tr *Transport, path string) (int, error) {
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read(path))
		return resp.Status, err
	}
	bob := alice
	bob.ID = "conn-2" // teaches this process nothing about alice's connection
	if _, err := old.Do(t.Context(), bob, connector.ClassRead, read("/lookup/x")); err != nil {
		t.Fatal(err)
	}
	if status, err := get(old, "/search/a"); err != nil || status != 429 {
		t.Fatalf("%d, %v", status, err)
	}
	for _, tr := range []*Transport{old, fresh} {
		if _, err := get(tr, "/search/b"); connector.CodeOf(err) != connector.CodeRateLimited {
			t.Errorf("the same group: %v, want RATE_LIMITED", err)
		}
		if status, err := get(tr, "/repos/a"); err != nil || status != 200 {
			t.Errorf("another dimension: %d, %v", status, err)
		}
		if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/tickets", "{}")); err != nil {
			t.Errorf("a write of another dimension: %v", err)
		}
	}
}

// A route that is known to count against a used up dimension is held back,
// whichever route used it up.
func TestLearntDimension(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		if n == 0 {
			return say(c, 200, `{}`, "X-RateLimit-Resource: core", "X-RateLimit-Remaining: 1")
		}
		return say(c, 200, `{}`, "X-RateLimit-Resource: core", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 600")
	})
	tr := limited(t, s.url, nil)
	for _, path := range []string{"/a/1", "/b/1"} {
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read(path)); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a/2"))
	if connector.CodeOf(err) != connector.CodeRateLimited || len(resp.Attempts) != 0 || len(s.requests()) != 2 {
		t.Errorf("%v after %d requests, want RATE_LIMITED without a third one", err, len(s.requests()))
	}
}

// stubborn is a Cooldowns whose answers a test sets.
type stubborn struct {
	until  func() (time.Time, error)
	extend error
	keys   []string
}

func (s *stubborn) Until(_ context.Context, key string) (time.Time, error) {
	s.keys = append(s.keys, key)
	return s.until()
}
func (s *stubborn) Extend(context.Context, string, time.Time) error { return s.extend }

func coolCall(t *testing.T, c Cooldowns) *call {
	t.Helper()
	tr := limited(t, "http://127.0.0.1:1", c)
	got, err := tr.prepare(alice, connector.ClassRead, read("/t"))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestShortCooldownIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		end := start.Add(2 * time.Second)
		c := coolCall(t, &stubborn{until: func() (time.Time, error) { return end, nil }})
		if err := c.cool(t.Context()); err != nil || time.Since(start) != 2*time.Second || c.wait != 2*time.Second {
			t.Errorf("%v after %v, recorded %v; want 2s", err, time.Since(start), c.wait)
		}
		// One that others keep extending is not waited for for ever.
		start = time.Now()
		c = coolCall(t, &stubborn{until: func() (time.Time, error) { return time.Now().Add(2 * time.Second), nil }})
		err := c.cool(t.Context())
		if e := connector.AsError(err); e == nil || e.Code != connector.CodeRateLimited || e.RetryAfter != 2*time.Second || time.Since(start) > maxInline {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// Nor longer than the caller has.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if err := c.cool(ctx); connector.CodeOf(err) != connector.CodeRateLimited || time.Since(start) != 0 {
			t.Errorf("with a second left: %v after %v, want RATE_LIMITED at once", err, time.Since(start))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := c.cool(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	})
}

func TestBrokenCooldownsStopNothing(t *testing.T) {
	s := serve(t, always(429, `{}`, "Retry-After: 3600"))
	var logged bytes.Buffer
	broken := &stubborn{until: func() (time.Time, error) { return time.Now().Add(time.Hour), errors.New("no database") }, extend: errors.New("no database")}
	tr := limited(t, s.url, broken)
	tr.log = slog.New(slog.NewTextHandler(&logged, nil))
	for range 2 {
		if resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil || resp.Status != 429 {
			t.Errorf("%d, %v", resp.Status, err)
		}
	}
	if out := logged.String(); !strings.Contains(out, "can't be read") || !strings.Contains(out, "can't be kept") {
		t.Errorf("logged %s", out)
	}
}

func TestCooldownKeysNameTheTenantFirst(t *testing.T) {
	keys := &stubborn{until: func() (time.Time, error) { return time.Time{}, nil }}
	tr := limited(t, "http://127.0.0.1:1", keys)
	odd := connector.Connection{Tenant: "a/b", ID: "c/d:e", Profile: "org"}
	c, err := tr.prepare(odd, connector.ClassWrite, write("/x:y/z", ""))
	if err != nil {
		t.Fatal(err)
	}
	c.route.learn(c.route.key("w:x:y"))
	c.cool(t.Context())
	if got := fmt.Sprint(keys.keys); got != "[a%2Fb/c%2Fd:e/ a%2Fb/c%2Fd:e/w:x:y a%2Fb/c%2Fd:e/w%3Ax%3Ay]" {
		t.Errorf("keys %s", got)
	}
}

func TestRoutesAndCooldownsAreBounded(t *testing.T) {
	r := &routes{prefix: "t/c/"}
	for i := range 10 * maxRoutes {
		at := r.find(i%2 == 0, fmt.Sprintf("/%d/x", i))
		for d := range 10 {
			at.learn(at.key(fmt.Sprint(d)))
		}
		if n := len(at.dimensions()); n > maxLearnt {
			t.Fatalf("%d dimensions", n)
		}
	}
	if n := len(r.known); n > maxRoutes {
		t.Errorf("%d routes", n)
	}
	var p InProcess
	running := time.Now().Add(time.Hour)
	for i := range 3 * maxCooldowns {
		p.Extend(t.Context(), fmt.Sprint(i), running.Add(time.Duration(i)))
	}
	if n := len(p.until); n > maxCooldowns+1 {
		t.Errorf("%d cooldowns", n)
	}
	last := fmt.Sprint(3*maxCooldowns - 1)
	p.Extend(t.Context(), last, running.Add(-time.Minute))
	if at, _ := p.Until(t.Context(), last); at.Before(running) {
		t.Errorf("the longest was forgotten or shortened: %v", at)
	}
}
