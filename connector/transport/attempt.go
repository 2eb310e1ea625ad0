package transport

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// An attempt counts the requests of one round trip. There can be several:
// net/http sends again by itself when a pooled connection turns out dead, which
// only its trace shows.
type attempt struct {
	trace httptrace.ClientTrace

	mu    sync.Mutex // guards all below; hooks run on net/http's goroutines
	rows  []connector.Attempt
	room  [1]connector.Attempt
	conns int
	ended bool
	most  int // requests that cancel allows; 0: any number

	cancel context.CancelFunc
}

// limit ends the round trip when net/http wants to send more than n requests
// by itself: over HTTP/2 it would go on for a minute, past every budget.
func (a *attempt) limit(n int, cancel context.CancelFunc) { a.most, a.cancel = n, cancel }

// exceeded reports whether limit ended the round trip.
func (a *attempt) exceeded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most > 0 && a.conns > a.most
}

func newAttempt(n int, waited time.Duration) *attempt {
	a := &attempt{room: [1]connector.Attempt{{N: n, Started: time.Now(), Waited: waited}}}
	a.rows = a.room[:]
	a.trace.GotConn = a.gotConn
	a.trace.WroteHeaders = a.wroteHeaders
	return a
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	if info.Reused {
		settle(info.Conn)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conns++; a.conns > 1 && !a.ended {
		last := &a.rows[len(a.rows)-1]
		last.Stop = stopReplayed
		a.rows = append(a.rows, connector.Attempt{N: last.N + 1, Started: time.Now()})
	}
	if a.most > 0 && a.conns > a.most {
		a.cancel()
	}
}

// wroteHeaders runs when the head is complete in the write buffer, before the
// last byte of it is flushed. A request without this event can't have been
// understood by anyone: net/http closes the connection before it returns, and
// what its writer does later goes nowhere.
func (a *attempt) wroteHeaders() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		a.rows[len(a.rows)-1].WroteRequest = true
	}
}

// end closes the books and returns the rows.
func (a *attempt) end(status int, stop string) []connector.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	last := &a.rows[len(a.rows)-1]
	last.Status, last.Stop = status, stop
	return a.rows
}

func wrote(rows []connector.Attempt) bool {
	for _, r := range rows {
		if r.WroteRequest {
			return true
		}
	}
	return false
}
