package transport

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// An Observer is told what the transport did, after it did it. It runs on the
// goroutine of the call, so it must be quick; it must be safe for concurrent
// use and must not panic. What it is given holds no path, query, header, body
// or credential, and no id of a person or a connection. The context is the
// caller's, with whatever spans are in it.
type Observer interface {
	// Attempted reports one round trip, of a call or of an Exchange.
	Attempted(ctx context.Context, a Attempted)
	// Called reports the end of one Do, also of one that sent nothing.
	Called(ctx context.Context, c Called)
}

// Attempted is one round trip.
type Attempted struct {
	Profile string
	Method  string
	Scheme  string
	Host    string // as in the profile
	Port    uint16
	// Rows are the requests of the round trip, one unless the connection pool
	// sent again by itself. They are the transport's and must not be changed.
	Rows  []connector.Attempt
	Ended time.Time
	Code  connector.Code // zero: a complete answer came, of any status
}

// Called is one Do from its entry to its end.
type Called struct {
	Profile  string // as the connection names it
	Method   string
	Write    bool
	Attempts int
	// Queued is how long the call waited for its connection's turn before the
	// first request. It is unknown, and zero, when nothing was sent.
	Queued time.Duration
	Status int            // of the last answer; zero: none
	Code   connector.Code // zero: a complete answer came
	// RetryAfter is how long to stay away, by the provider's word or by ours.
	RetryAfter time.Duration
}

// attempted tells the observer about a round trip.
func (t *Transport) attempted(ctx context.Context, e *endpoint, to *url.URL, method string, rows []connector.Attempt, err error) {
	if t.observer == nil {
		return
	}
	a := Attempted{Profile: e.profile.Name, Method: method, Rows: rows, Ended: time.Now(), Code: connector.CodeOf(err)}
	if err != nil {
		a.Code = failure(ctx, err).Code
	}
	for _, o := range append([]origin{e.base}, e.auth...) {
		if o.scheme == to.Scheme && o.urlHost == to.Host {
			a.Scheme, a.Host, a.Port = o.scheme, o.host, o.port
			break
		}
	}
	t.observer.Attempted(ctx, a)
}

// called logs what an operator acts on and tells the observer about a call.
// docs/telemetry.md names the messages and attributes; they are stable.
func (t *Transport) called(ctx context.Context, conn connector.Connection, class connector.Class, r connector.Request, resp connector.Response, err error) {
	t.noteBreaker(ctx, conn.Profile)
	c := Called{
		Profile: conn.Profile, Method: r.Method, Write: class == connector.ClassWrite, Attempts: len(resp.Attempts),
		Status: resp.Status, RetryAfter: resp.RetryAfter,
	}
	if c.Method == "" {
		c.Method = "GET"
	}
	if len(resp.Attempts) > 0 {
		c.Queued = resp.Attempts[0].Waited
	}
	reason := ""
	if err != nil {
		e := connector.AsError(err)
		c.Code, reason = e.Code, e.Message
		c.RetryAfter = max(c.RetryAfter, e.RetryAfter)
	}
	event := func(level slog.Level, message string, more ...slog.Attr) {
		t.log.LogAttrs(ctx, level, message, append([]slog.Attr{
			slog.String("profile", c.Profile), slog.String("connection", string(conn.ID)), slog.String("method", c.Method)}, more...)...)
	}
	if c.Code == connector.CodeEgressBlocked {
		event(slog.LevelWarn, "egress refused", slog.String("reason", reason))
	}
	if c.RetryAfter > 0 {
		event(slog.LevelInfo, "provider held back", slog.Int("status", c.Status), slog.Duration("retry_after", c.RetryAfter))
	}
	if c.Attempts > 1 {
		event(slog.LevelInfo, "request repeated", slog.Int("attempts", c.Attempts), slog.Int("status", c.Status))
	}
	if t.observer != nil {
		t.observer.Called(ctx, c)
	}
}

// noteBreaker logs a change of a profile's breaker once.
func (t *Transport) noteBreaker(ctx context.Context, profile string) {
	t.mu.Lock()
	e := t.endpoints[profile]
	t.mu.Unlock()
	if e == nil {
		return
	}
	now := e.breaker.State()
	before := gobreaker.State(e.noted.Swap(int32(now)))
	if before == now {
		return
	}
	level := slog.LevelInfo
	if now == gobreaker.StateOpen {
		level = slog.LevelWarn
	}
	t.log.LogAttrs(ctx, level, "breaker changed", slog.String("profile", profile),
		slog.String("from", before.String()), slog.String("to", now.String()))
}
