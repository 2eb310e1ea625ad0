package fault_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/google/go-cmp/cmp"
)

// What the client reads, what the upstream did and what the record says, for every action
// that ends the connection.
func TestCuts(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rule     fault.Rule
		request  string
		want     string // every byte that the client gets
		tickets  int
		upstream []int
		status   int
	}{
		{name: "before forwarding", rule: fault.Rule{Action: fault.CutBefore}, request: post},
		{name: "T02 answer lost after the commit", rule: fault.Rule{Action: fault.LoseAnswer}, request: post, tickets: 1, upstream: []int{201}},
		{
			name: "T02 response header only", rule: fault.Rule{Action: fault.CutAfterHeaders}, request: post, tickets: 1, upstream: []int{201}, status: 201,
			want: "HTTP/1.1 201 Created\r\nDate: D\r\nX-Request-Id: up\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 8\r\nConnection: close\r\n\r\n",
		},
		{
			name: "T23 half a body", rule: fault.Rule{Action: fault.HalfBody}, request: get, upstream: []int{200}, status: 200,
			want: "HTTP/1.1 200 OK\r\nDate: D\r\nX-Request-Id: up\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 10\r\nConnection: close\r\n\r\n01234",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newLedger(t)
			p := start(t, up.URL)
			p.Next(tc.rule)

			got, err := toEnd(t, p, tc.request)
			if err != nil {
				t.Errorf("read error %v, want an orderly close", err)
			}
			if diff := cmp.Diff(sortedHeader(tc.want), sortedHeader(got)); diff != "" {
				t.Errorf("client read (-want +got):\n%s", diff)
			}
			if up.count() != tc.tickets {
				t.Errorf("upstream holds %d tickets, want %d", up.count(), tc.tickets)
			}
			e := only(t, p)
			if !cmp.Equal(e.Upstream, tc.upstream) || e.Status != tc.status || !e.Done || e.Err != nil || e.Action != tc.rule.Action {
				t.Errorf("recorded %+v", e)
			}
			if p.Unspent() != 0 {
				t.Error("the rule is still waiting")
			}
		})
	}
}

// sortedHeader makes two renderings of an answer comparable: the date's value and the
// order of the headers carry no meaning here.
func sortedHeader(s string) []string {
	head, body, ok := strings.Cut(s, "\r\n\r\n")
	if !ok {
		return []string{s}
	}
	m := map[string]bool{}
	for line := range strings.SplitSeq(head, "\r\n") {
		if strings.HasPrefix(line, "Date: ") {
			line = "Date: D"
		}
		m[line] = true
	}
	return append(sortedKeys(m), "body "+body)
}

func TestResetIsSeenAsReset(t *testing.T) {
	p := start(t, newLedger(t).URL)
	p.Next(fault.Rule{Action: fault.LoseAnswer, Reset: true})
	got, err := toEnd(t, p, post)
	if got != "" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %q, %v; want nothing and a reset", got, err)
	}
}

func TestDuplicateReachesUpstreamTwice(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	p.Next(fault.Rule{Action: fault.Duplicate})
	conn := dial(t, p)
	write(t, conn, post)

	status, body := one(t, bufio.NewReader(conn), "POST")
	if status != 201 || body != `{"id":1}` {
		t.Errorf("client got %d %s, want the first answer", status, body)
	}
	if up.count() != 2 {
		t.Errorf("upstream holds %d tickets, want 2", up.count())
	}
	if e := only(t, p); !cmp.Equal(e.Upstream, []int{201, 201}) || e.Status != 201 {
		t.Errorf("recorded %+v", e)
	}
	if saw := up.saw(); saw[0] != saw[1] {
		t.Errorf("the copies differ: %q", saw)
	}
}

func TestReplaceKeepsTheEffect(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	p.Next(fault.Rule{
		Action: fault.Replace, Status: 502, Body: []byte("<html>bad gateway"),
		Header: http.Header{"content-type": {"text/html"}, "Retry-After": {"30"}},
	})
	conn := dial(t, p)
	write(t, conn, post)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 502 || string(body) != "<html>bad gateway" || resp.Header.Get("Content-Type") != "text/html" ||
		resp.Header.Get("Retry-After") != "30" || resp.Header.Get("X-Request-Id") != "up" {
		t.Errorf("client got %d %v %s", resp.StatusCode, resp.Header, body)
	}
	if e := only(t, p); up.count() != 1 || !cmp.Equal(e.Upstream, []int{201}) || e.Status != 502 {
		t.Errorf("%d tickets, recorded %+v", up.count(), e)
	}
}

func TestReplaceWithAnEmptyBody(t *testing.T) {
	p := start(t, newLedger(t).URL)
	p.Next(fault.Rule{Action: fault.Replace, Body: []byte{}})
	conn := dial(t, p)
	write(t, conn, post)
	if status, body := one(t, bufio.NewReader(conn), "POST"); status != 201 || body != "" {
		t.Errorf("client got %d %q, want 201 and nothing", status, body)
	}
}

func TestAnswerAndRedirectNeverReachUpstream(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	p.Next(fault.Rule{Action: fault.Answer, Status: 429, Header: http.Header{"Retry-After": {"1"}}, Body: []byte("slow down")})
	p.Next(fault.Rule{Action: fault.Redirect, Location: "http://169.254.169.254/"})
	p.Next(fault.Rule{Action: fault.Redirect, Status: 301, Location: "/elsewhere"})
	conn := dial(t, p)
	in := bufio.NewReader(conn)

	write(t, conn, post)
	if status, body := one(t, in, "POST"); status != 429 || body != "slow down" {
		t.Errorf("got %d %q", status, body)
	}
	for _, want := range []struct {
		status   int
		location string
	}{{307, "http://169.254.169.254/"}, {301, "/elsewhere"}} {
		write(t, conn, post)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want.status || resp.Header.Get("Location") != want.location {
			t.Errorf("got %d %q, want %v", resp.StatusCode, resp.Header.Get("Location"), want)
		}
	}
	if saw := up.saw(); len(saw) != 0 {
		t.Errorf("upstream saw %q", saw)
	}
	for _, e := range p.Seen() {
		if e.Upstream != nil {
			t.Errorf("recorded %+v", e)
		}
	}
}

func TestLyingContentLength(t *testing.T) {
	p := start(t, newLedger(t).URL)
	p.Next(fault.Rule{Action: fault.Answer, Header: http.Header{"Content-Length": {"5000"}, "Connection": {"close"}}, Body: []byte("short")})
	got, _ := toEnd(t, p, "GET / HTTP/1.1\nHost: h\nConnection: close\n\n")
	if !strings.Contains(got, "Content-Length: 5000\r\n") || strings.Count(got, "Content-Length") != 1 || !strings.HasSuffix(got, "\r\n\r\nshort") {
		t.Errorf("client read %q", got)
	}
}

func TestDelayAnswerHoldsAfterTheEffect(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	release := make(chan struct{})
	p.Next(fault.Rule{Action: fault.DelayAnswer, Release: release})
	conn := dial(t, p)
	write(t, conn, post)
	await(t, p, func(seen []fault.Exchange) bool { return len(seen) == 1 && seen[0].Upstream != nil })
	if up.count() != 1 {
		t.Errorf("upstream holds %d tickets, want 1", up.count())
	}
	if e := only(t, p); e.Done || e.Status != 0 {
		t.Errorf("recorded %+v while the answer is held", e)
	}
	close(release)
	if status, _ := one(t, bufio.NewReader(conn), "POST"); status != 201 {
		t.Errorf("got %d", status)
	}
	if e := only(t, p); !e.Done || e.Status != 201 {
		t.Errorf("recorded %+v", e)
	}
}

// T04: the caller gives up, looks, finds nothing, and the ticket appears afterwards.
func TestDelayRequestCommitsAfterTheCallerLeft(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	release := make(chan struct{})
	p.Next(fault.Rule{Method: "POST", Action: fault.DelayRequest, Release: release})
	gone := dial(t, p)
	write(t, gone, post)
	await(t, p, func(seen []fault.Exchange) bool { return len(seen) == 1 })
	_ = gone.Close()

	look := dial(t, p)
	write(t, look, get)
	if status, _ := one(t, bufio.NewReader(look), "GET"); status != 200 || up.count() != 0 {
		t.Errorf("first look: %d with %d tickets, want none yet", status, up.count())
	}
	close(release)
	if err := p.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	if up.count() != 1 {
		t.Errorf("upstream holds %d tickets, want the late one", up.count())
	}
}

func TestDelayByTheClock(t *testing.T) {
	p := start(t, newLedger(t).URL)
	p.Next(fault.Rule{Action: fault.DelayAnswer, Delay: 20 * time.Millisecond})
	begin := time.Now()
	conn := dial(t, p)
	write(t, conn, get)
	one(t, bufio.NewReader(conn), "GET")
	if waited := time.Since(begin); waited < 20*time.Millisecond {
		t.Errorf("answered after %v, before the delay was over", waited)
	}
}
