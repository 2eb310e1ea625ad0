package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: NET7
func TestSlotsAndQueueOfAConnection(t *testing.T) {
	inside, open := make(chan struct{}, 8), make(chan struct{})
	s := serve(t, func(_ int, _ seen, c net.Conn) bool {
		inside <- struct{}{}
		<-open
		return say(c, 200, `{}`)
	})
	p := quick(Loopback("org", s.url))
	p.Limits.Concurrency, p.Limits.Queue = 2, 1
	tr := newTransport(t, p)
	ep, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			_, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/"))
			errs <- err
		})
	}
	<-inside
	<-inside
	for l := ep.lane(alice); l.waiting.Load() != 1; {
		time.Sleep(time.Millisecond)
	}
	_, err = tr.Do(t.Context(), alice, connector.ClassWrite, write("/", "{}"))
	if connector.CodeOf(err) != connector.CodeOverloaded || effect(err) != connector.DispositionNotApplied {
		t.Errorf("the fourth call: %v, want OVERLOADED, not_applied", err)
	}
	// Another connection of the same profile does not feel it.
	bob := alice
	bob.ID = "conn-2"
	wg.Go(func() {
		if _, err := tr.Do(t.Context(), bob, connector.ClassRead, read("/")); err != nil {
			t.Error(err)
		}
	})
	<-inside
	close(open)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if n := len(s.requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// S11: the limiter's own error is not the context's.
func TestLaneWaitsNoLongerThanTheDeadline_S11(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(Limits{Concurrency: 1, Rate: 1, Burst: 1, Queue: 1, RetryBudget: 5})
		if _, err := l.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with the slot taken: %v", err)
		}
		l.leave()
		// The rate gives one a second.
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for i, want := range []time.Duration{0, time.Second, time.Second} {
			waited, err := l.enter(ctx)
			if err != nil || waited != want {
				t.Errorf("call %d waited %v, %v; want %v", i, waited, err, want)
			}
			l.leave()
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.enter(ctx)
		e := connector.AsError(err)
		if e == nil || e.Code != connector.CodeOverloaded || e.RetryAfter <= 0 || e.RetryAfter > time.Second {
			t.Errorf("over the rate: %v, want OVERLOADED with a time", err)
		}
		if n := len(l.slots); n != 0 {
			t.Errorf("%d slots are lost", n)
		}
	})
}

func TestIdleLanesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ep, err := newEndpoint(Profile{Name: "org", BaseURL: "https://api.example.com"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		busy := alice
		busy.ID = "busy"
		if _, err := ep.lane(busy).enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			c := alice
			c.ID = connector.ConnectionID(fmt.Sprint(i))
			ep.lane(c)
		}
		time.Sleep(11 * time.Minute)
		ep.lane(alice)
		if n := len(ep.lanes); n != 2 {
			t.Errorf("%d lanes, want the busy one and the new one", n)
		}
	})
}

// Guarantee: NET6
func TestRetryBudgetStopsStorms(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		if strings.HasSuffix(r.target, "/good") {
			return say(c, 200, `{}`)
		}
		return say(c, 503, `{}`)
	})
	p := quick(Loopback("org", s.url))
	p.Limits.RetryBudget = 12
	tr := newTransport(t, p)
	do := func(path string) connector.Response {
		t.Helper()
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read(path))
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if n := len(do("/bad").Attempts); n != 3 {
		t.Errorf("first call: %d attempts, want 3", n)
	}
	resp := do("/bad")
	if len(resp.Attempts) != 1 || !strings.Contains(resp.Attempts[0].Stop, stopBudget) {
		t.Errorf("second call: %+v, want one attempt and a word on the budget", resp.Attempts)
	}
	for range 3 {
		do("/good")
	}
	if n := len(do("/bad").Attempts); n != 2 {
		t.Errorf("after three good calls: %d attempts, want 2", n)
	}
}

// Guarantee: NET7
func TestBreakerOpensAndProbes_S5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{breaker: newBreaker("org")}
		fail := func() {
			t.Helper()
			done, err := e.allow(false)
			if err != nil {
				t.Fatal(err)
			}
			done(errFailing)
		}
		for range 20 { // what says nothing does not count
			done, err := e.allow(false)
			if err != nil {
				t.Fatal(err)
			}
			done(errSilent)
		}
		for range 9 {
			fail()
		}
		done, err := e.allow(true)
		if err != nil {
			t.Fatal("open after nine failures")
		}
		done(errFailing)
		_, err = e.allow(false)
		f := connector.AsError(err)
		if f == nil || f.Code != connector.CodeUnavailable || f.RetryAfter <= 0 || !f.Guessed {
			t.Fatalf("after ten failures: %v, want UNAVAILABLE with a guessed wait", err)
		}
		time.Sleep(openFor + time.Second)
		if _, err := e.allow(true); err == nil {
			t.Error("a write was the probe")
		}
		done, err = e.allow(false)
		if err != nil {
			t.Fatalf("no probe: %v", err)
		}
		if _, err := e.allow(false); err == nil {
			t.Error("two probes at once")
		}
		done(nil)
		if done, err := e.allow(true); err != nil {
			t.Errorf("closed again, and a write is refused: %v", err)
		} else {
			done(nil)
		}
	})
}

func TestVerdict(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	status := func(s int) connector.Response {
		return connector.Response{Status: s, Attempts: make([]connector.Attempt, 1)}
	}
	coded := func(c connector.Code) error { return &connector.Error{Code: c} }
	for _, c := range []struct {
		ctx  context.Context
		resp connector.Response
		err  error
		want error
	}{
		{t.Context(), status(200), nil, nil},
		{t.Context(), status(304), nil, nil},
		{t.Context(), status(404), nil, nil},
		{t.Context(), status(429), nil, errSilent},
		{t.Context(), status(500), nil, errFailing},
		{t.Context(), status(501), nil, nil},
		{t.Context(), status(503), nil, errFailing},
		{gone, status(503), nil, errSilent},
		{gone, status(0), coded(connector.CodeCanceled), errSilent},
		{t.Context(), status(0), coded(connector.CodeUnavailable), errFailing},
		{t.Context(), status(0), coded(connector.CodeDeadline), errFailing},
		{t.Context(), status(0), coded(connector.CodeOutcomeUnknown), errFailing},
		{t.Context(), connector.Response{}, coded(connector.CodeUnavailable), errSilent}, // no credential
		{t.Context(), status(200), coded(connector.CodeProviderContract), errSilent},
		{t.Context(), status(0), coded(connector.CodeEgressBlocked), errSilent},
		{t.Context(), status(0), coded(connector.CodeConnectionRequired), errSilent},
		{t.Context(), status(200), coded(connector.CodeTooLarge), errSilent},
	} {
		if got := verdict(c.ctx, c.resp, c.err); got != c.want {
			t.Errorf("%d, %v: got %v, want %v", c.resp.Status, c.err, got, c.want)
		}
	}
}

func TestBreakerHoldsCallsBack(t *testing.T) {
	s := serve(t, always(500, `{}`))
	p := quick(Loopback("org", s.url))
	p.Limits.RetryBudget = 1
	tr := newTransport(t, p)
	for range 10 {
		if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/", "{}")); err != nil {
			t.Fatal(err)
		}
	}
	_, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/", "{}"))
	if connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionNotApplied || len(s.requests()) != 10 {
		t.Errorf("%v after %d requests, want UNAVAILABLE, not_applied after 10", err, len(s.requests()))
	}
}

func TestPanicLeavesNothingTaken(t *testing.T) {
	tr := newTransport(t, quick(Loopback("org", serve(t, always(200, `{}`)).url)))
	good := tr.credentials
	tr.credentials = authorizer(func() (Credential, error) { panic("odd credential") })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		tr.Do(t.Context(), alice, connector.ClassRead, read("/"))
	}()
	ep, _ := tr.endpoint("org")
	counts := ep.breaker.Counts()
	if n, open := len(ep.lane(alice).slots), counts.Requests-counts.TotalExclusions; n != 0 || open != 0 {
		t.Errorf("%d slots and %d requests of the breaker are taken", n, open)
	}
	tr.credentials = good
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/")); err != nil {
		t.Error(err)
	}
}
