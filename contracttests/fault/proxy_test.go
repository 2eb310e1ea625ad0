package fault_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/google/go-cmp/cmp"
)

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

func TestUntouchedExchangesAreTransparent(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	conn := dial(t, p)
	in := bufio.NewReader(conn)

	write(t, conn, "POST /a%2Fb/c?q=%20+&q=2 HTTP/1.1\nHost: tickets.test:81\nAuthorization: Bearer s\nContent-Type: application/json\nContent-Length: 2\n\n{}")
	if status, body := one(t, in, "POST"); status != 201 || body != `{"id":1}` {
		t.Errorf("got %d %q", status, body)
	}
	write(t, conn, "PUT /up HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nExpect: 100-continue\n\n3\nabc\n0\n\n")
	if status, _ := one(t, in, "PUT"); status != 100 {
		t.Errorf("got %d, want 100", status)
	}
	if status, _ := one(t, in, "PUT"); status != 200 {
		t.Errorf("got %d", status)
	}
	write(t, conn, "GET /chunked HTTP/1.1\nHost: h\n\n")
	if status, body := one(t, in, "GET"); status != 200 || body != "chunk one chunk two" {
		t.Errorf("got %d %q", status, body)
	}
	write(t, conn, "HEAD /x HTTP/1.1\nHost: h\n\n")
	if status, body := one(t, in, "HEAD"); status != 200 || body != "" {
		t.Errorf("got %d %q", status, body)
	}
	write(t, conn, "DELETE /gone HTTP/1.1\nHost: h\n\n")
	if status, body := one(t, in, "DELETE"); status != 204 || body != "" {
		t.Errorf("got %d %q", status, body)
	}
	want := []string{
		`POST /a%2Fb/c?q=%20+&q=2 host=tickets.test:81 agent="" auth="Bearer s" body="{}"`,
		`PUT /up host=h agent="" auth="" body="abc"`,
		`GET /chunked host=h agent="" auth="" body=""`,
		`HEAD /x host=h agent="" auth="" body=""`,
		`DELETE /gone host=h agent="" auth="" body=""`,
	}
	if diff := cmp.Diff(want, up.saw()); diff != "" {
		t.Errorf("upstream saw (-want +got):\n%s", diff)
	}
	var record []string
	for _, e := range p.Seen() {
		record = append(record, fmt.Sprintf("%v host=%s", e, e.Host))
	}
	wantRecord := []string{
		"POST /a%2Fb/c [pass] upstream [201], client 201 host=tickets.test:81",
		"PUT /up [pass] upstream [200], client 200 host=h",
		"GET /chunked [pass] upstream [200], client 200 host=h",
		"HEAD /x [pass] upstream [200], client 200 host=h",
		"DELETE /gone [pass] upstream [204], client 204 host=h",
	}
	if diff := cmp.Diff(wantRecord, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestRulesMatchInOrderAndRunOut(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	answer := func(r fault.Rule, status int) {
		r.Action, r.Status = fault.Answer, status
		p.Next(r)
	}
	answer(fault.Rule{Method: "POST", Path: "/api/"}, 500)
	answer(fault.Rule{Path: "/api/", Skip: 1, Times: 2}, 501)
	answer(fault.Rule{Match: func(r *http.Request) bool { return r.Header.Get("X-Page") == "2" }}, 502)
	p.Next(fault.Rule{Path: "/api/last"})
	answer(fault.Rule{Times: fault.Forever}, 503)

	conn := dial(t, p)
	in := bufio.NewReader(conn)
	var got []int
	for _, line := range []string{
		"GET /other", "GET /api/x", "POST /api/x", "GET /api/x", "GET /api/x", "GET /api/x", "GET /api/last", "GET /api/last",
	} {
		write(t, conn, line+" HTTP/1.1\nHost: h\nContent-Length: 0\n\n")
		status, _ := one(t, in, "GET")
		got = append(got, status)
	}
	write(t, conn, "GET /z HTTP/1.1\nHost: h\nX-Page: 2\n\n")
	status, _ := one(t, in, "GET")
	got = append(got, status)

	if diff := cmp.Diff([]int{503, 503, 500, 501, 501, 503, 200, 503, 502}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if p.Unspent() != 1 {
		t.Errorf("%d rules wait, want the one that stays forever", p.Unspent())
	}
	p.Clear()
	write(t, conn, get)
	if status, _ := one(t, in, "GET"); status != 200 || p.Unspent() != 0 {
		t.Errorf("after Clear: %d, %d rules", status, p.Unspent())
	}
}

// A client that keeps its connection must not re-send a POST whose answer was lost, and
// the proxy must show it if it did.
func TestKeepAliveClientLosesOneAnswer(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	send := func() (*http.Response, error) {
		return client.Post(p.URL()+"/api/v1/repos/a/b/issues", "application/json", strings.NewReader("{}"))
	}
	warm, err := send()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, warm.Body)
	_ = warm.Body.Close()

	p.Next(fault.Rule{Method: "POST", Path: "/api/v1/repos/", Action: fault.LoseAnswer})
	if resp, err := send(); err == nil {
		_ = resp.Body.Close()
		t.Errorf("got %d, want a lost answer", resp.StatusCode)
	}
	if up.count() != 2 || len(p.Seen()) != 2 {
		t.Errorf("%d tickets, saw %v", up.count(), p.Seen())
	}
}

func TestUpstreamDownCutsAndSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	p := start(t, "http://"+address)
	if got, err := toEnd(t, p, get); got != "" || err != nil {
		t.Errorf("read %q, %v; want a close without a byte", got, err)
	}
	if e := only(t, p); e.Err == nil || e.Upstream != nil || e.Status != 0 || !e.Done {
		t.Errorf("recorded %+v", e)
	}
}

func TestCloseGivesUpWhatIsHeld(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	p.Next(fault.Rule{Method: "POST", Action: fault.DelayRequest, Release: make(chan struct{})})
	p.Next(fault.Rule{Method: "GET", Action: fault.DelayAnswer, Release: make(chan struct{})})
	a, b := dial(t, p), dial(t, p)
	write(t, a, post)
	write(t, b, get)
	await(t, p, func(seen []fault.Exchange) bool {
		return len(seen) == 2 && slices.ContainsFunc(seen, func(e fault.Exchange) bool { return e.Upstream != nil })
	})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if up.count() != 0 {
		t.Error("a held request was forwarded by Close")
	}
	if err := p.Settled(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://")); err == nil {
		t.Error("still listening")
	}
}

func TestSettledGivesUpWithTheContext(t *testing.T) {
	p := start(t, newLedger(t).URL)
	p.Next(fault.Rule{Action: fault.DelayRequest, Release: make(chan struct{})})
	conn := dial(t, p)
	write(t, conn, get)
	await(t, p, func(seen []fault.Exchange) bool { return len(seen) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Settled(ctx); err == nil {
		t.Error("settled while a request is held")
	}
}

func TestContextEndsTheProxy(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := fault.Start(ctx, newLedger(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, p)
	write(t, conn, get)
	one(t, bufio.NewReader(conn), "GET")
	cancel()
	if b, err := io.ReadAll(conn); len(b) != 0 || err != nil {
		t.Errorf("read %q, %v; want the connection closed", b, err)
	}
	_ = p.Close()
}

func TestStartRefusesWhatIsNotAnOrigin(t *testing.T) {
	for _, upstream := range []string{"", "https://h", "http://", "http://u:p@h", "http://h/path", "http://h?q=1", "tcp://h:1", "http://h\x7f"} {
		if p, err := fault.Start(t.Context(), upstream); err == nil {
			_ = p.Close()
			t.Errorf("Start(%q) succeeded", upstream)
		}
	}
}

func TestGarbageIsCutWithoutARecord(t *testing.T) {
	up := newLedger(t)
	p := start(t, up.URL)
	for _, request := range []string{"\n\n", "NOT HTTP\n\n", "GET / HTTP/1.1\nHost: h\nContent-Length: x\n\n"} {
		if got, _ := toEnd(t, p, request); got != "" {
			t.Errorf("%q was answered with %q", request, got)
		}
	}
	if len(p.Seen()) != 0 || len(up.saw()) != 0 {
		t.Errorf("saw %v, upstream %q", p.Seen(), up.saw())
	}
}

func TestStringKeepsSecretsOut(t *testing.T) {
	p := start(t, newLedger(t).URL)
	conn := dial(t, p)
	write(t, conn, "POST /token?code=SECRET HTTP/1.1\nHost: h\nAuthorization: Bearer SECRET\nContent-Length: 6\n\nSECRET")
	one(t, bufio.NewReader(conn), "POST")
	e := only(t, p)
	if s := fmt.Sprint(e); strings.Contains(s, "SECRET") {
		t.Errorf("printed %s", s)
	}
	if string(e.Body) != "SECRET" || e.Header.Get("Authorization") != "Bearer SECRET" {
		t.Errorf("the record lacks what a test asserts on: %+v", e.Header)
	}
}
