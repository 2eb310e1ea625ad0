package credentials

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

const childProcesses = 4

// A setting is one way in which a renewal can go wrong, and what it may cost.
type setting struct {
	name        string
	small       bool // also in a normal run
	connections int
	order       childOrder // what every process does
	behaviour   sandbox.Behaviour
	outage      time.Duration // of the database, from the first answer to a refresh
	// lost is what no client could have kept: answers that were lost, and
	// claims that processes held when they crashed.
	lost func(held, fired int) int
	// refreshes is how many the provider must have seen. Zero: any number.
	refreshes int
}

func none(int, int) int { return 0 }

// settings of research M3. The times are such that a loaded machine does not
// make one setting into another.
func settings() []setting {
	usual := childOrder{Goroutines: 6, For: 5 * time.Second, Lease: 5 * time.Second, HTTPTimeout: 3 * time.Second, Guard: time.Second}
	tight := usual
	tight.For, tight.Lease, tight.HTTPTimeout, tight.Guard = 6*time.Second, 1600*time.Millisecond, 900*time.Millisecond, 500*time.Millisecond
	with := func(o childOrder, change func(*childOrder)) childOrder { change(&o); return o }
	grace := func(ms int) sandbox.Switches {
		return sandbox.Switches{ExpiresIn: json.RawMessage("1"), GraceMS: ms}
	}
	lose := []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token", Grant: "refresh_token", Probability: 0.05, Seed: 7},
		Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}}}
	crash := with(tight, func(o *childOrder) { o.CrashAt = 2 })
	return []setting{
		{name: "normal", small: true, connections: 6, order: usual, behaviour: sandbox.Behaviour{Switches: grace(0)}, lost: none},
		{name: "slow server, lease longer than the timeout", connections: 6,
			order: with(usual, func(o *childOrder) {
				o.For, o.Lease, o.HTTPTimeout = 7*time.Second, 4500*time.Millisecond, 2500*time.Millisecond
			}),
			// Longer than the answer takes, or no token would ever be fit for use.
			behaviour: sandbox.Behaviour{Switches: sandbox.Switches{ExpiresIn: json.RawMessage("4")},
				Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token", Grant: "refresh_token"}, Effect: sandbox.Effect{Kind: "delay", DelayMS: 1200}}}}, lost: none},
		{name: "holder paused past its lease before sending", connections: 6,
			order:     with(tight, func(o *childOrder) { o.For, o.PauseAt, o.Pause = 8*time.Second, 2, 5*time.Second }),
			behaviour: sandbox.Behaviour{Switches: grace(0)}, lost: none},
		{name: "crash between answer and commit, grace 0", small: true, connections: 6, order: crash,
			behaviour: sandbox.Behaviour{Switches: grace(0)}, lost: func(held, _ int) int { return held }},
		{name: "crash between answer and commit, grace 5 s", connections: 6, order: crash,
			behaviour: sandbox.Behaviour{Switches: grace(5000)}, lost: none},
		{name: "5 % of answers lost, grace 0", connections: 6, order: usual,
			behaviour: sandbox.Behaviour{Switches: grace(0), Rules: lose}, lost: func(_, fired int) int { return fired }},
		{name: "5 % of answers lost, grace 5 s", connections: 6, order: usual,
			behaviour: sandbox.Behaviour{Switches: grace(5000), Rules: lose}, lost: none},
		{name: "database away at the commit", connections: 6, order: with(tight, func(o *childOrder) { o.For = 4 * time.Second }),
			behaviour: sandbox.Behaviour{Switches: grace(0)}, outage: time.Second, lost: none},
		{name: "database away for longer than two leases", connections: 6, order: with(tight, func(o *childOrder) { o.For = 12 * time.Second }),
			behaviour: sandbox.Behaviour{Switches: grace(0)}, outage: 9 * time.Second, lost: none},
		{name: "200 goroutines in each process, one expired token", small: true, connections: 1,
			order: childOrder{Goroutines: 200, Calls: 1, Lease: 30 * time.Second, HTTPTimeout: 10 * time.Second, Guard: 5 * time.Second},
			lost:  none, refreshes: 1},
	}
}

// Guarantee: CRE6 (C01, C02, C05, C07, C08, C09; threats T7, T8; research M3):
// several processes share connections at a server that rotates refresh tokens
// and ends a grant when a spent one comes back. DRAWBRIDGE_HARNESS=full runs
// every setting in full size.
func TestRefreshHarness(t *testing.T) {
	full := os.Getenv("DRAWBRIDGE_HARNESS") == "full"
	for _, s := range settings() {
		if !full {
			if !s.small {
				continue
			}
			s.connections = min(s.connections, 2)
			s.order.Goroutines = min(s.order.Goroutines, 50)
			if s.order.Calls == 0 {
				s.order.Goroutines = 2
				s.order.For = time.Second
				s.order.CrashAt = min(s.order.CrashAt, 1)
			}
		}
		t.Run(s.name, func(t *testing.T) {
			if !full {
				t.Parallel()
			}
			storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
				h := newHarness(t, d, s)
				h.small = !full
				h.run()
				if full {
					fmt.Println(h.figure())
				} else {
					t.Log(h.figure())
				}
			})
		})
	}
}

// harness is the parent: authorization server, database and what happens to both.
type harness struct {
	*bench
	setting     setting
	connections []connector.Connection
	callers     []connector.Caller
	database    string // as the processes open it
	cut         func(time.Duration)
	rotated     atomic.Int32

	small               bool
	crashes, lost, sent int
	limit               int
	held                int // claims of those who crashed
	results             childResult
	took                time.Duration
}

func newHarness(t *testing.T, d storetest.Database, s setting) *harness {
	t.Helper()
	h := &harness{setting: s, database: d.URL}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	org, err := sandbox.New(sandbox.Config{BaseURL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h.between(org.Handler())}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-served; org.Close() })
	h.bench = &bench{t: t, org: org, d: d, ring: newRing(t), db: d.Open(Migrations()), log: &lockedBuffer{}}
	if s.outage > 0 {
		h.database, h.cut = outages(t, d)
	}
	return h
}

// between cuts the database off when the server has rotated and its answer has
// not left yet.
func (h *harness) between(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.cut == nil || r.URL.Path != "/oauth/token" || h.rotated.Load() < 0 {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&cutting{ResponseWriter: w, first: func() {
			if h.rotated.Add(1) == 3 { // not the very first: others are mid-way too
				h.cut(h.setting.outage)
			}
		}}, r)
	})
}

type cutting struct {
	http.ResponseWriter
	first func()
}

func (c *cutting) WriteHeader(status int) {
	if c.first != nil {
		c.first()
		c.first = nil
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *cutting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (h *harness) run() {
	began := time.Now()
	own := h.replica(func(c *Config) {
		c.Providers = []Provider{harnessProvider(h.org.URL(), h.org.Issuer())}
		c.HTTPTimeout, c.Lease, c.Guard = h.setting.order.HTTPTimeout, h.setting.order.Lease, h.setting.order.Guard
		c.RetryBase, c.RetryCap = 100*time.Millisecond, time.Second
	})
	h.rotated.Store(-1 << 20)
	for i := range h.setting.connections {
		caller := connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(fmt.Sprintf("p%d", i))}
		h.callers = append(h.callers, caller)
		h.connections = append(h.connections, own.connect(caller, "alice"))
	}
	h.behave(h.setting.behaviour)
	h.exec(`UPDATE cred_tokens SET access_exp = 1000`)
	h.rotated.Store(0)

	h.results.Codes = make(map[string]int)
	h.runChildren()
	h.settle(own)
	h.took = time.Since(began)
	h.judge(own)
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *lockedBuffer
}

func (h *harness) start(o childOrder) *child {
	t := h.t
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	c := &child{cmd: cmd, err: &lockedBuffer{}}
	cmd.Stderr = c.err
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(append(order, '\n')); err != nil {
		t.Fatal(err)
	}
	return c
}

// next reads a line; false means that the process is gone.
func (c *child) next() (string, bool) {
	line, err := c.out.ReadString('\n')
	return strings.TrimSpace(line), err == nil
}

func (h *harness) runChildren() {
	t := h.t
	text, err := h.ring.Export()
	if err != nil {
		t.Fatal(err)
	}
	order := h.setting.order
	order.Database, order.Keys, order.Server, order.Issuer, order.Connections = h.database, text, h.org.URL(), h.org.Issuer(), h.connections
	var running []*child
	for range childProcesses {
		running = append(running, h.start(order))
	}
	for _, c := range running {
		if line, ok := c.next(); !ok || line != "ready" {
			c.cmd.Wait()
			t.Fatalf("a process did not start: %q, %s", line, c.err)
		}
	}
	for _, c := range running { // all at once
		io.WriteString(c.in, "go\n")
	}
	for i := 0; i < len(running); i++ {
		c := running[i]
		line, ok := c.next()
		var held int
		if _, err := fmt.Sscanf(line, "holding %d", &held); err == nil {
			h.held += held
			ok = false
		}
		io.Copy(io.Discard, c.out)
		err := c.cmd.Wait()
		if !ok && order.CrashAt > 0 && i < childProcesses {
			h.crashes++ // killed by itself
			if h.small {
				continue
			}
			// Somebody starts it again.
			again := order
			again.CrashAt = 0
			next := h.start(again)
			if line, ok := next.next(); !ok || line != "ready" {
				next.cmd.Wait()
				t.Fatalf("a process did not start again: %q, %s", line, next.err)
			}
			io.WriteString(next.in, "go\n")
			running = append(running, next)
			continue
		}
		var r childResult
		if !ok || err != nil || json.Unmarshal([]byte(line), &r) != nil {
			t.Fatalf("process %d ended badly: %q, %v, %s", i, line, err, c.err)
		}
		h.results.Calls += r.Calls
		h.results.Unfit += r.Unfit
		for code, n := range r.Codes {
			h.results.Codes[code] += n
		}
	}
}

// settle asks for every connection until the answer is definite.
func (h *harness) settle(own *replica) {
	if h.small { // the holders are gone, so only the time of their leases is left to wait for
		h.exec(`UPDATE cred_tokens SET lease_exp = 1000 WHERE phase = 'claimed'`)
	}
	for _, c := range h.connections {
		for deadline := time.Now().Add(time.Minute); ; {
			_, err := own.Authorize(h.t.Context(), c, 0)
			if err == nil || connector.CodeOf(err) == connector.CodeConnectionRequired {
				break
			}
			if time.Now().After(deadline) {
				h.t.Fatalf("no definite answer within a minute: %v", err)
			}
			pause(h.t.Context(), 50*time.Millisecond)
		}
	}
}

func (h *harness) judge(own *replica) {
	t, s := h.t, h.setting
	fired := 0
	for _, n := range h.org.Fired() {
		fired += n
	}
	h.behave(sandbox.Behaviour{}) // long lifetimes: nothing is due any more
	stats := h.org.OAuthStats()
	for i, c := range h.connections {
		v, err := own.Show(t.Context(), h.callers[i], c.ID)
		if err != nil {
			t.Fatal(err)
		}
		switch v.Status {
		case StatusActive:
			// Not one that looks well and does not work.
			if status, err := own.get(c); status != http.StatusOK {
				t.Errorf("connection %d is active, but its token is refused: %d, %v", i, status, err)
			}
		case StatusReconnectRequired:
			h.lost++
			if v.Reason != ReasonLostRotation {
				t.Errorf("connection %d was lost for %q, want %q", i, v.Reason, ReasonLostRotation)
			}
		default:
			t.Errorf("connection %d is %q", i, v.Status)
		}
	}
	h.sent = stats.TokenRequests["refresh_token"]
	limit := s.lost(h.held, fired)
	h.limit = limit
	switch {
	case h.lost > limit:
		t.Errorf("%d of %d grants lost, want at most %d (%d crashes, %d answers lost)", h.lost, s.connections, limit, h.crashes, fired)
	case limit > 0 && h.crashes > 0 && h.lost == 0:
		t.Error("the crashes did not cost anything: the setting proves nothing")
	case stats.Families-stats.FamiliesAlive != h.lost:
		t.Errorf("the server ended %d grants, %d connections say so", stats.Families-stats.FamiliesAlive, h.lost)
	case s.order.CrashAt > 0 && h.crashes == 0:
		t.Error("no process crashed: the setting proves nothing")
	case s.outage > 0 && h.rotated.Load() < 3:
		t.Error("the database was never cut off: the setting proves nothing")
	}
	if s.refreshes > 0 && h.sent != s.refreshes {
		t.Errorf("the server saw %d refreshes, want %d", h.sent, s.refreshes)
	}
	// A dead grant is asked about once. A refusal that got lost is asked again.
	if refused := stats.Refused["invalid_grant"]; refused > h.lost+fired+h.held {
		t.Errorf("%d refusals for %d lost grants: somebody keeps asking", refused, h.lost)
	}
	if h.results.Unfit > 0 {
		t.Errorf("%d calls got a token that did not work", h.results.Unfit)
	}
	// In the small size the one that crashed can hold every claim for longer
	// than the others try.
	if h.results.Calls == 0 && h.lost < s.connections && !(h.small && h.held >= s.connections) {
		t.Error("no call succeeded: the setting proves nothing")
	}
	// No loop: those that are lost cause no further request.
	for _, c := range h.connections {
		own.Authorize(t.Context(), c, 0)
	}
	if after := h.org.OAuthStats().TokenRequests["refresh_token"]; h.lost > 0 && after > h.org.OAuthStats().Rotations+h.org.OAuthStats().GraceRefreshes+h.lost+fired+h.held {
		t.Errorf("%d refreshes for %d rotations and %d losses", after, h.org.OAuthStats().Rotations, h.lost)
	}
}

func (h *harness) figure() string {
	var codes []string
	for _, code := range slices.Sorted(maps.Keys(h.results.Codes)) {
		codes = append(codes, fmt.Sprintf("%s:%d", code, h.results.Codes[code]))
	}
	if codes == nil {
		codes = []string{"none"}
	}
	return fmt.Sprintf("figure: refresh %-50s %-10s families lost %d of %d (unavoidable: at most %d), crashes %d, refreshes %4d, calls %6d, others %s, %.1f s",
		h.setting.name, h.d.Engine, h.lost, h.setting.connections, min(h.limit, h.setting.connections), h.crashes, h.sent, h.results.Calls, strings.Join(codes, " "), h.took.Seconds())
}
