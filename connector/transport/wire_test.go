package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A rawServer speaks as much HTTP as a test tells it to, over real sockets.
type rawServer struct {
	url string
	l   net.Listener

	mu    sync.Mutex
	seen  []seen
	conns map[net.Conn]bool
	total int
	wg    sync.WaitGroup

	forget bool // seen stays empty
}

type seen struct {
	method, target string
	header         http.Header
	body           string
}

// act answers request number n (from 0) on a connection. Keep false: the
// connection is closed.
type act func(n int, s seen, c net.Conn) (keep bool)

func serve(t testing.TB, a act) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String(), l: l, conns: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.total++
			s.mu.Unlock()
			s.wg.Go(func() { s.talk(c, a) })
		}
	})
	t.Cleanup(s.close)
	return s
}

func (s *rawServer) talk(c net.Conn, a act) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		got := seen{r.Method, r.RequestURI, r.Header, string(body)}
		s.mu.Lock()
		n := len(s.seen)
		if !s.forget {
			s.seen = append(s.seen, got)
		}
		s.mu.Unlock()
		if !a(n, got, c) {
			return
		}
	}
}

func (s *rawServer) close() {
	s.l.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *rawServer) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

func (s *rawServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// open counts the connections that are not closed yet.
func (s *rawServer) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// say writes one complete answer and keeps the connection.
func say(c net.Conn, status int, body string, headers ...string) bool {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n", status, len(body))
	if !strings.Contains(strings.Join(headers, "\n"), "Content-Type:") {
		head += "Content-Type: application/json\r\n"
	}
	for _, h := range headers {
		head += h + "\r\n"
	}
	io.WriteString(c, head+"\r\n"+body)
	return true
}

// always answers every request alike.
func always(status int, body string, headers ...string) act {
	return func(_ int, _ seen, c net.Conn) bool { return say(c, status, body, headers...) }
}

// reset ends a connection the hard way.
func reset(c net.Conn) bool {
	c.(*net.TCPConn).SetLinger(0)
	return false
}
