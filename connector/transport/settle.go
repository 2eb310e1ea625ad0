package transport

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A watched connection knows whether somebody waits for its next byte.
//
// net/http offers a connection for reuse before it looks whether bytes are left
// over from the last answer, such as the body of a 204. If the next request is
// quick, the left-over is taken for its answer, and with a pool for all tenants
// of a provider that can be another tenant's request. net/http's reader comes
// back to Read only after its buffers are empty, and closes the connection when
// they are not, so a request waits for one of the two.
type watched struct {
	net.Conn

	mu      sync.Mutex // guards the two below
	change  sync.Cond
	reading bool
	closed  bool

	hurried atomic.Bool // a deadline runs until the first byte comes
}

func watch(c net.Conn) *watched {
	w := &watched{Conn: c}
	w.change.L = &w.mu
	return w
}

func (w *watched) Read(p []byte) (int, error) {
	w.set(&w.reading, true)
	n, err := w.Conn.Read(p)
	w.set(&w.reading, false)
	if n > 0 && w.hurried.Load() {
		w.hurried.Store(false)
		w.Conn.SetDeadline(time.Time{})
	}
	return n, err
}

// hurry ends a connection whose first byte takes too long. It is for proxies:
// net/http gives them a minute for CONNECT, also when the caller has gone.
func (w *watched) hurry(d time.Duration) *watched {
	w.hurried.Store(true)
	w.Conn.SetDeadline(time.Now().Add(d))
	return w
}

func (w *watched) Close() error {
	w.set(&w.closed, true)
	return w.Conn.Close()
}

func (w *watched) set(flag *bool, to bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*flag = to
	w.change.Broadcast()
}

// settle returns when the reader of a connection out of the pool has looked at
// everything that came before. A connection that it closed is replaced by
// net/http, with nothing written.
func settle(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	w, ok := c.(*watched)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.reading && !w.closed {
		w.change.Wait()
	}
}
