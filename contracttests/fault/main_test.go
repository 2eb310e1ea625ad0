package fault_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is an upstream that counts its effects: each POST is a ticket.
type ledger struct {
	*httptest.Server

	mu       sync.Mutex
	tickets  int
	requests []string // dump of each request as the upstream saw it
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		l.mu.Lock()
		l.requests = append(l.requests, fmt.Sprintf("%s %s host=%s agent=%q auth=%q body=%q",
			r.Method, r.RequestURI, r.Host, r.Header.Get("User-Agent"), r.Header.Get("Authorization"), body))
		if r.Method == http.MethodPost {
			l.tickets++
		}
		n := l.tickets
		l.mu.Unlock()

		w.Header().Set("X-Request-Id", "up")
		switch {
		case r.URL.Path == "/chunked":
			_, _ = io.WriteString(w, "chunk one ")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "chunk two")
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusNoContent)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"id":%d}`, n)
		default:
			_, _ = io.WriteString(w, "0123456789")
		}
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tickets
}

func (l *ledger) saw() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.requests...)
}

func start(t *testing.T, upstream string) *fault.Proxy {
	t.Helper()
	p, err := fault.Start(t.Context(), upstream)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// dial opens a raw connection, so that a test sees bytes and not what a client library
// makes of them.
func dial(t *testing.T, p *fault.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func write(t *testing.T, conn net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
}

const (
	post = "POST /api/v1/repos/a/b/issues?x=1 HTTP/1.1\nHost: tickets.test\nContent-Length: 3\n\n{1}"
	get  = "GET /api/v1/repos/a/b/issues HTTP/1.1\nHost: tickets.test\n\n"
)

// toEnd sends one request and reads until the proxy closes.
func toEnd(t *testing.T, p *fault.Proxy, request string) (string, error) {
	t.Helper()
	conn := dial(t, p)
	write(t, conn, request)
	b, err := io.ReadAll(conn)
	return string(b), err
}

// one reads a single answer from a connection that stays open.
func one(t *testing.T, in *bufio.Reader, method string) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func await(t *testing.T, p *fault.Proxy, cond func([]fault.Exchange) bool) {
	t.Helper()
	if err := p.Await(t.Context(), cond); err != nil {
		t.Fatal(err)
	}
}

// only returns the one exchange that there must be.
func only(t *testing.T, p *fault.Proxy) fault.Exchange {
	t.Helper()
	seen := p.Seen()
	if len(seen) != 1 {
		t.Fatalf("proxy saw %v, want one exchange", seen)
	}
	return seen[0]
}
