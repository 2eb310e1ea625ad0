package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A notebook is an Observer and a log that write one line for each event.
type notebook struct {
	mu    sync.Mutex
	lines []string
	raw   bytes.Buffer
}

func (n *notebook) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notebook) Attempted(_ context.Context, a Attempted) {
	statuses := []int{}
	for _, r := range a.Rows {
		statuses = append(statuses, r.Status)
	}
	n.add("attempt %s %s %s code %d, %v", a.Profile, a.Method, a.Scheme, a.Code, statuses)
	if a.Host == "" || a.Port == 0 || a.Ended.Before(a.Rows[0].Started) {
		n.add("a hole in %+v", a)
	}
}

func (n *notebook) Called(_ context.Context, c Called) {
	n.add("call %s %s write %t attempts %d status %d code %d", c.Profile, c.Method, c.Write, c.Attempts, c.Status, c.Code)
}

// Write takes JSON log lines, and keeps those about requests as they are.
func (n *notebook) Write(p []byte) (int, error) {
	n.mu.Lock()
	n.raw.Write(p)
	n.mu.Unlock()
	var line map[string]any
	if err := json.Unmarshal(p, &line); err != nil {
		return 0, err
	}
	text := fmt.Sprintf("log %s", line["msg"])
	for _, key := range []string{"profile", "connection", "method", "status", "attempts", "reason", "from", "to"} {
		if v, ok := line[key]; ok {
			text += fmt.Sprintf(" %s=%v", key, v)
		}
	}
	if line["msg"] != "provider request" {
		n.add("%s", text)
	}
	return len(p), nil
}

func (n *notebook) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func observed(t *testing.T, p Profile) (*Transport, *notebook) {
	t.Helper()
	n := &notebook{}
	tr, err := New(Config{Profiles: Static{"org": p}, Credentials: &tokens{}, Observer: n,
		Logger: slog.New(slog.NewJSONHandler(n, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	tr.firstWait = 2 * time.Millisecond
	t.Cleanup(tr.Close)
	return tr, n
}

func expect(t *testing.T, n *notebook, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.taken()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Guarantee: NET11
func TestEachAttemptAndEachCallIsObserved(t *testing.T) {
	s := serve(t, func(n int, _ seen, c net.Conn) bool {
		if n == 0 {
			return say(c, 503, `{}`)
		}
		return say(c, 200, `{}`)
	})
	tr, n := observed(t, quick(Loopback("", s.url)))
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a")); err != nil {
		t.Fatal(err)
	}
	expect(t, n, "attempt org GET http code 0, [503]", "attempt org GET http code 0, [200]",
		"log request repeated profile=org connection=conn-1 method=GET status=200 attempts=2", "call org GET write false attempts 2 status 200 code 0")
	if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/a", "{}")); err != nil {
		t.Fatal(err)
	}
	expect(t, n, "attempt org POST http code 0, [200]", "call org POST write true attempts 1 status 200 code 0")
	if _, err := tr.Exchange(t.Context(), "org", Exchange{URL: s.url + "/token", Form: url.Values{"code": {canary}}}); err != nil {
		t.Fatal(err)
	}
	expect(t, n, "attempt org POST http code 0, [200]")
}

// Guarantees: NET10, NET11
func TestRefusalsWaitsAndLossesAreLogged(t *testing.T) {
	s := serve(t, func(i int, got seen, c net.Conn) bool {
		switch {
		case strings.HasPrefix(got.target, "/wait"):
			return say(c, 429, `{}`, "Retry-After: 90")
		case strings.HasPrefix(got.target, "/away"):
			return say(c, 302, ``, "Location: https://elsewhere.example/?t="+canary)
		}
		return reset(c)
	})
	tr, n := observed(t, quick(Loopback("", s.url)))
	r := read("/away")
	r.Query = url.Values{"q": {canary}}
	tr.Do(t.Context(), alice, connector.ClassRead, r)
	expect(t, n, "attempt org GET http code 0, [302]",
		"log egress refused profile=org connection=conn-1 method=GET reason=a redirect to another origin", "call org GET write false attempts 1 status 302 code 20")
	tr.Do(t.Context(), alice, connector.ClassRead, read("/a/../b"))
	expect(t, n, "log egress refused profile=org connection=conn-1 method=GET reason=the path: it has a dot segment or an empty one",
		"call org GET write false attempts 0 status 0 code 20")
	tr.Do(t.Context(), alice, connector.ClassWrite, write("/lost", `{"b":"`+canary+`"}`))
	expect(t, n, "attempt org POST http code 17, [0]", "call org POST write true attempts 1 status 0 code 23")
	tr.Do(t.Context(), alice, connector.ClassWrite, write("/wait", "{}"))
	if got := n.taken(); len(got) < 3 || got[len(got)-2] != "log provider held back profile=org connection=conn-1 method=POST status=429" {
		t.Errorf("events %q", got)
	}
	other := alice
	other.Profile = "nowhere"
	tr.Do(t.Context(), other, connector.ClassRead, read("/"))
	expect(t, n, "log egress refused profile=nowhere connection=conn-1 method=GET reason=there is no endpoint profile of that name",
		"call nowhere GET write false attempts 0 status 0 code 20")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.raw.Len() == 0 || strings.Contains(n.raw.String(), canary) {
		t.Errorf("the log has a secret, or nothing: %s", n.raw.String())
	}
}

// Guarantee: NET7
func TestChangesOfTheBreakerAreLoggedOnce(t *testing.T) {
	s := serve(t, always(http.StatusInternalServerError, `{}`))
	tr, n := observed(t, quick(Loopback("", s.url)))
	for range 12 {
		tr.Do(t.Context(), alice, connector.ClassWrite, write("/a", "{}"))
	}
	changes := 0
	for _, line := range n.taken() {
		if strings.HasPrefix(line, "log breaker") {
			changes++
			if line != "log breaker changed profile=org from=closed to=open" {
				t.Error(line)
			}
		}
	}
	if changes != 1 {
		t.Errorf("%d lines about the breaker, want 1", changes)
	}
}

// Whoever has no observer pays nothing for those who have.
func TestNobodyWatchingCostsNoMemory(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/a")); err != nil {
		t.Fatal(err)
	}
	e, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	ctx, r, rows := t.Context(), read("/a"), []connector.Attempt{{N: 1, Status: 200}}
	resp := connector.Response{Status: 200, Attempts: rows}
	to := &url.URL{Scheme: e.base.scheme, Host: e.base.urlHost}
	if n := testing.AllocsPerRun(100, func() {
		tr.attempted(ctx, e, to, http.MethodGet, rows, nil)
		tr.called(ctx, alice, connector.ClassRead, r, resp, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
