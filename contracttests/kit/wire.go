package kit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// wireChecks break the answers themselves.
var wireChecks = []check{
	{"C2", "NET3", "A redirect to another host is not followed, and no credential goes there.", "", []string{"R0"}, redirectElsewhere},
	{"C4", "NET8", "An answer that was cut off is a failure, not a short answer.", "", []string{"D0"}, cutOff},
	{"C5", "NET8", "A page for people in place of an answer is a failure.", "", []string{"D0"}, pageForPeople},
	{"C7", "NET7", "A rate limit is RATE_LIMITED with the time that the provider asked for, in seconds or as a date.", "", []string{"R0"}, rateLimit},
	{"C8", "NET6", "The attempts that a result reports are the requests that the provider saw.", "", []string{"R0"}, attemptsCounted},
	{"G3", "RUN9", "A caller who gives up gets an answer while the provider still thinks.", "", []string{"R0"}, cancelStops},
}

func redirectElsewhere(t *trial) {
	var visits, tokens atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		if r.Header.Get("Authorization") != "" {
			tokens.Add(1)
		}
		fmt.Fprintln(w, `{}`)
	}))
	defer elsewhere.Close()
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	t.onReads(fault.Rule{Action: fault.Redirect, Status: http.StatusFound, Location: elsewhere.URL + "/taken", Times: fault.Forever})
	r := a.read(id)
	if len(r.Data) > 0 || r.Error == nil {
		t.errorf("answered %s", says(r))
	}
	if n := visits.Load(); n > 0 {
		t.errorf("the other host was asked %d times, %d of them with a credential", n, tokens.Load())
	}
}

func cutOff(t *trial) {
	t.seed(0, t.marker, "there")
	a := t.owner()
	for _, action := range []fault.Action{fault.HalfBody, fault.CutAfterHeaders} {
		t.house.proxy.Clear()
		t.onReads(fault.Rule{Action: action, Times: fault.Forever})
		t.fails(action.String(), a.list(t.marker, 10, nil))
	}
}

func pageForPeople(t *trial) {
	t.seed(0, t.marker, "there")
	a := t.owner()
	t.onReads(fault.Rule{Action: fault.Answer, Status: http.StatusOK, Times: fault.Forever, Header: http.Header{"Content-Type": {"text/html"}},
		Body: []byte("<!DOCTYPE html><title>Sign in</title><p>The service is asleep.</p>")})
	t.fails("an HTML page", a.list(t.marker, 10, nil))
}

func rateLimit(t *trial) {
	id := t.seed(0, t.marker, "there")
	for _, c := range [][2]string{{"in seconds", "120"}, {"as a date", time.Now().Add(120 * time.Second).UTC().Format(http.TimeFormat)}} {
		name, value := c[0], c[1]
		t.must(t.house.fresh())
		a := t.owner1(name)
		t.onReads(fault.Rule{Action: fault.Answer, Status: http.StatusTooManyRequests, Times: fault.Forever, Header: http.Header{"Retry-After": {value}}})
		r := a.read(id)
		if code(r) != connector.CodeRateLimited {
			t.errorf("%s: answered %s", name, says(r))
		} else if s := r.Error.RetryAfter; s < 60 || s > 125 {
			t.errorf("%s: the caller is told to wait %g s, the provider asked for 120", name, s)
		}
	}
}

// attemptsCounted looks at reads that work, are tried again, and fail.
func attemptsCounted(t *trial) {
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	for _, c := range []struct {
		name string
		rule *fault.Rule
	}{
		{"an answer", nil},
		{"503 once", &fault.Rule{Action: fault.Answer, Status: http.StatusServiceUnavailable}},
		{"refused", &fault.Rule{Action: fault.Answer, Status: http.StatusBadRequest, Times: fault.Forever}},
	} {
		t.house.proxy.Clear()
		if c.rule != nil {
			t.onReads(*c.rule)
		}
		before := t.asked()
		r := a.read(id)
		if seen := t.asked() - before; seen != len(r.Attempts) {
			t.errorf("%s: the result reports %d attempts, the provider saw %d requests", c.name, len(r.Attempts), seen)
		}
	}
}

func nothingEchoed(t *trial) {
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	secret := "tok_" + t.marker + "_echoed"
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError} {
		t.house.proxy.Clear()
		t.on(fault.Rule{Action: fault.Answer, Status: status, Times: fault.Forever,
			Body: []byte(`{"error":"` + secret + `","message":"bearer ` + secret + ` is not welcome"}`)})
		a.read(id)
		if t.subject.List.Tool != "" {
			a.list(t.marker, 2, nil)
		}
	}
	secrets := append(t.tokens(), secret)
	if n := leaks(strings.Join(t.results, "\n"), secrets); n > 0 {
		t.errorf("%d credentials or echoes are in results", n)
	}
	if n := leaks(t.house.logs.String(), secrets); n > 0 {
		t.errorf("%d credentials or echoes are in the log", n)
	}
}

// giveUp is how long a call may go on after its caller has gone. It bounds a
// failing run; a passing one does not wait for it.
const giveUp = 3 * time.Second

func cancelStops(t *trial) {
	id := t.seed(0, t.marker, "there")
	a := t.owner()
	held := make(chan struct{})
	t.onReads(fault.Rule{Action: fault.DelayAnswer, Release: held, Times: fault.Forever})
	before := t.asked()
	whole := a.ctx
	ctx, cancel := context.WithCancel(whole)
	a.trial = &trial{runner: t.runner, ctx: ctx, out: t.out, marker: t.marker}
	done := make(chan connector.Result, 1)
	go func() { done <- a.read(id) }()
	err := t.house.proxy.Await(whole, func(seen []fault.Exchange) bool { return len(seen) > before })
	cancel()
	select {
	case r := <-done:
		close(held)
		if r.Error == nil || code(r) != connector.CodeCanceled {
			t.errorf("answered %s", says(r))
		}
	case <-time.After(giveUp):
		t.errorf("the call still waits %s after its caller has gone", giveUp)
		close(held)
		<-done
	}
	t.must(err)
}
