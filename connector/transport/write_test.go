package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func keyed(path, header, id string) connector.Request {
	r := write(path, `{"title":"printer on fire"}`)
	r.DedupeHeader, r.OperationID = header, connector.OperationID(id)
	return r
}

func effect(err error) connector.Disposition {
	if err == nil {
		return connector.DispositionNone
	}
	return connector.AsError(err).Effect
}

// Guarantee: NET6
func TestWriteWithAKeyIsSentOnce_G16(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "idempotency-key", "X-Request-Token"} {
		for _, body := range []string{`{"a":1}`, ""} {
			t.Run(fmt.Sprintf("%s/%d bytes", header, len(body)), func(t *testing.T) {
				s := serve(t, func(n int, r seen, c net.Conn) bool {
					if r.method == http.MethodGet {
						return say(c, 200, `{}`)
					}
					return false // read, then gone: what net/http takes for an idle close
				})
				tr := newTransport(t, quick(Loopback("org", s.url)))
				if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/warm")); err != nil {
					t.Fatal(err)
				}
				r := keyed("/t", header, "op-1")
				r.Body = []byte(body)
				resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, r)
				if connector.CodeOf(err) != connector.CodeOutcomeUnknown || effect(err) != connector.DispositionUnknown {
					t.Errorf("error %v, effect %v; want OUTCOME_UNKNOWN, unknown", err, effect(err))
				}
				var posts []seen
				for _, r := range s.requests() {
					if r.method == http.MethodPost {
						posts = append(posts, r)
					}
				}
				if len(posts) != 1 || len(resp.Attempts) != 1 || !resp.Attempts[0].WroteRequest {
					t.Fatalf("%d requests, attempts %+v; want one of each", len(posts), resp.Attempts)
				}
				if got := posts[0].header.Get(header); got != "op-1" || posts[0].body != body {
					t.Errorf("key %q, body %q", got, posts[0].body)
				}
			})
		}
	}
}

// net/http must not take a keyed write for replayable even on a connection
// that it reuses; the pool of reads stands in for a later change of ours.
func TestKeyDoesNotMakeAWriteReplayable(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool { return n == 0 && say(c, 200, `{}`) })
	tr := newTransport(t, quick(Loopback("org", s.url)))
	ep, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	ep.once.DisableKeepAlives = false
	t.Cleanup(ep.once.CloseIdleConnections)
	for _, r := range []connector.Request{keyed("/1", "Idempotency-Key", "op-1"), keyed("/2", "Idempotency-Key", "op-2")} {
		r.Body = nil
		tr.Do(t.Context(), alice, connector.ClassWrite, r)
	}
	if n := len(s.requests()); n != 2 {
		t.Errorf("%d requests for two writes", n)
	}
}

func TestWriteDoesNotUseAPooledConnection_G15(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := serve(t, func(n int, r seen, c net.Conn) bool { return say(c, 200, `{}`) && (keep || n > 0) })
		tr := newTransport(t, quick(Loopback("org", s.url)))
		if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/warm")); err != nil {
			t.Fatal(err)
		}
		resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
		if err != nil || resp.Status != 200 || len(s.requests()) != 2 || s.connections() != 2 {
			t.Errorf("status %d, err %v, %d requests on %d connections", resp.Status, err, len(s.requests()), s.connections())
		}
	}
}

// Guarantee: NET6
func TestWriteIsUnknownWhenTheAnswerIsLost_G17(t *testing.T) {
	for name, end := range map[string]act{
		"reset":     func(_ int, _ seen, c net.Conn) bool { return reset(c) },
		"closed":    func(int, seen, net.Conn) bool { return false },
		"half head": func(_ int, _ seen, c net.Conn) bool { io.WriteString(c, "HTTP/1.1 201 Cre"); return false },
		"not HTTP":  func(_ int, _ seen, c net.Conn) bool { io.WriteString(c, "SSH-2.0-"+canary+"\r\n\r\n"); return false },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, end)
			tr := newTransport(t, quick(Loopback("org", s.url)))
			resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, keyed("/t", "Idempotency-Key", "op-1"))
			if connector.CodeOf(err) != connector.CodeOutcomeUnknown || effect(err) != connector.DispositionUnknown {
				t.Errorf("error %v, want OUTCOME_UNKNOWN with effect unknown", err)
			}
			if len(s.requests()) != 1 || len(resp.Attempts) != 1 {
				t.Errorf("%d requests, %d attempts; want 1, 1", len(s.requests()), len(resp.Attempts))
			}
		})
	}
}

func TestWriteIsNotRepeatedForAnyStatus_G18(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 407, 408, 409, 422, 425, 429, 500, 501, 502, 503, 504, 599} {
		s := serve(t, always(status, `{}`, "Retry-After: 1"))
		tr := newTransport(t, quick(Loopback("org", s.url)))
		resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
		if err != nil || resp.Status != status || resp.RetryAfter.Seconds() != 1 {
			t.Errorf("%d: status %d, retry after %v, err %v", status, resp.Status, resp.RetryAfter, err)
		}
		if len(s.requests()) != 1 || len(resp.Attempts) != 1 {
			t.Errorf("%d: %d requests, %d attempts; want 1, 1", status, len(s.requests()), len(resp.Attempts))
		}
	}
}

func TestWriteThatNeverLeftIsTriedOnceMore_G15(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close() // refused from here on
	tr := newTransport(t, quick(Loopback("org", url)))
	resp, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
	if connector.CodeOf(err) != connector.CodeUnavailable || effect(err) != connector.DispositionNotApplied {
		t.Errorf("error %v, effect %v; want UNAVAILABLE, not_applied", err, effect(err))
	}
	if len(resp.Attempts) != 2 || wrote(resp.Attempts) {
		t.Errorf("attempts %+v, want two that wrote nothing", resp.Attempts)
	}
}

func TestCanceledWrite(t *testing.T) {
	arrived := make(chan struct{})
	s := serve(t, func(_ int, _ seen, c net.Conn) bool {
		close(arrived)
		io.Copy(io.Discard, c)
		return false
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	resp, err := tr.Do(ctx, alice, connector.ClassWrite, write("/t", `{}`))
	if connector.CodeOf(err) != connector.CodeOutcomeUnknown || effect(err) != connector.DispositionUnknown || !errors.Is(err, context.Canceled) {
		t.Errorf("after the request: %v, effect %v; want OUTCOME_UNKNOWN, unknown, by the cancel", err, effect(err))
	}
	if len(resp.Attempts) != 1 || !resp.Attempts[0].WroteRequest {
		t.Errorf("attempts %+v", resp.Attempts)
	}
	resp, err = tr.Do(ctx, alice, connector.ClassWrite, write("/t", `{}`))
	if connector.CodeOf(err) != connector.CodeCanceled || effect(err) != connector.DispositionNotApplied || len(resp.Attempts) != 0 {
		t.Errorf("before the request: %v, effect %v, attempts %+v; want CANCELED, not_applied, none", err, effect(err), resp.Attempts)
	}
}

// A 2xx that can't be read is a write whose result is unreadable.
func TestWriteWithAnUnreadableAnswer_T17_T23(t *testing.T) {
	for name, c := range map[string]struct {
		answer act
		want   connector.Code
	}{
		"html": {always(200, "<html>", "Content-Type: text/html"), connector.CodeProviderContract},
		"cut": {func(_ int, _ seen, c net.Conn) bool {
			io.WriteString(c, "HTTP/1.1 201 C\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"a")
			return false
		}, connector.CodeProviderContract},
		"oversized": {always(201, strings.Repeat(" ", 2000)), connector.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			p := quick(Loopback("org", s.url))
			p.Limits.BodyBytes = 1000
			resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
			if connector.CodeOf(err) != c.want || effect(err) != connector.DispositionUnknown {
				t.Errorf("error %v, effect %v; want %v, unknown", err, effect(err), c.want)
			}
			if resp.Status/100 != 2 || len(s.requests()) != 1 || len(resp.Attempts) != 1 || resp.Body != nil {
				t.Errorf("response %+v after %d requests", resp, len(s.requests()))
			}
		})
	}
}

func TestDeclaredRefusalProvesAWriteWasNotProcessed(t *testing.T) {
	s := serve(t, always(503, `{}`, "Retry-After: 7"))
	p := quick(Loopback("org", s.url))
	p.RefusesBeforeProcessing = []int{503}
	resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassWrite, write("/t", `{}`))
	e := connector.AsError(err)
	if e == nil || e.Code != connector.CodeUnavailable || e.Effect != connector.DispositionNotApplied || e.RetryAfter.Seconds() != 7 || resp.Status != 503 {
		t.Errorf("error %+v, status %d", e, resp.Status)
	}
}

func TestDedupeHeaderIsChecked(t *testing.T) {
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	for _, c := range [][2]string{
		{"Authorization", "x"}, {"Host", "x"}, {"Content-Length", "1"}, {"Transfer-Encoding", "chunked"}, {"Expect", "100-continue"},
		{"Proxy-Authorization", "x"}, {"Cookie", "x"}, {"bad name", "x"}, {"A\r\nB", "x"}, {"Key", ""}, {"Key", "a\r\nB: c"}, {"Key", "é"},
	} {
		_, err := tr.Do(t.Context(), alice, connector.ClassWrite, keyed("/t", c[0], c[1]))
		if connector.CodeOf(err) != connector.CodeInternal || effect(err) != connector.DispositionNotApplied {
			t.Errorf("%q: %v", c, err)
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests went out", n)
	}
}

func TestApprovedBytesAreCopied(t *testing.T) {
	body := []byte(`{"a":1}`)
	s := serve(t, always(200, `{}`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	tr.credentials = authorizer(func() (Credential, error) { copy(body, `{"a":9}`); return token(1), nil })
	r := write("/t", "")
	r.Body = body
	if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, r); err != nil {
		t.Fatal(err)
	}
	if got := s.requests()[0].body; got != `{"a":1}` {
		t.Errorf("sent %s", got)
	}
}

type authorizer func() (Credential, error)

func (a authorizer) Authorize(context.Context, connector.Connection, int64) (Credential, error) {
	return a()
}

// The faults that a provider can answer a request with. Each one has read the
// request, so what the server saw and what was sent can be compared.
var faults = []act{
	always(200, `{"ok":1}`),
	always(201, `{"ok":1}`, "Connection: close"),
	always(204, ``),
	always(401, `{}`),
	always(404, `{}`),
	always(429, `{}`),
	always(429, `{}`, "Retry-After: 3600"),
	always(500, `{}`),
	always(503, `{}`, "Retry-After: 0"),
	always(302, ``, "Location: /elsewhere"),
	always(307, ``, "Location: http://127.0.0.1:1/"),
	always(200, `<html>`, "Content-Type: text/html"),
	func(_ int, _ seen, c net.Conn) bool { return reset(c) },
	func(int, seen, net.Conn) bool { return false },
	func(_ int, _ seen, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
		return false
	},
	func(_ int, _ seen, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{")
		return reset(c)
	},
	func(_ int, _ seen, c net.Conn) bool { io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A"); return false },
	func(_ int, _ seen, c net.Conn) bool { io.WriteString(c, "nonsense\r\n\r\n"); return false },
}

// Guarantee: NET6
func TestAttemptsAreTheRequestsThatTheServerSaw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		schedule := rapid.SliceOfN(rapid.IntRange(0, len(faults)-1), 1, 12).Draw(rt, "schedule")
		writes := rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(rt, "writes")
		s := serve(t, func(n int, r seen, c net.Conn) bool { return faults[schedule[n%len(schedule)]](n, r, c) })
		defer s.close()
		p := quick(Loopback("org", s.url))
		tr := newTransport(t, p)
		defer tr.Close()
		for i, isWrite := range writes {
			before := len(s.requests())
			id := fmt.Sprintf("op-%d", i)
			conn := alice // or a long Retry-After would keep all later calls at home
			conn.ID = connector.ConnectionID(id)
			var resp connector.Response
			var err error
			if isWrite {
				resp, err = tr.Do(t.Context(), conn, connector.ClassWrite, keyed("/t", "Idempotency-Key", id))
			} else {
				resp, err = tr.Do(t.Context(), conn, connector.ClassRead, read("/t"))
			}
			saw := len(s.requests()) - before
			sent := 0
			for n, a := range resp.Attempts {
				if a.N != n+1 || a.Started.IsZero() {
					rt.Fatalf("call %d: row %d is %+v", i, n, a)
				}
				if a.WroteRequest {
					sent++
				}
			}
			if saw != sent {
				rt.Fatalf("call %d: the server saw %d requests, the rows say %d: %+v, %v", i, saw, sent, resp.Attempts, err)
			}
			if !isWrite {
				// Three tries, a fresh credential, three redirects; each of
				// them can meet one stale connection in this pool.
				if saw > 2*(maxReads+1+maxHops) {
					rt.Fatalf("call %d: %d requests for a read", i, saw)
				}
				continue
			}
			switch {
			case saw > 1:
				rt.Fatalf("call %d: a write arrived %d times", i, saw)
			case saw == 1 && err != nil && effect(err) != connector.DispositionUnknown:
				rt.Fatalf("call %d: a write arrived and its error says %v: %v", i, effect(err), err)
			case saw == 0 && effect(err) != connector.DispositionNotApplied:
				rt.Fatalf("call %d: a write did not arrive and its error says %v: %v", i, effect(err), err)
			}
		}
	})
}

// The same with a server that drops connections unread and unannounced. What
// was written into one of them was not seen, so rows may only say too much.
func TestAttemptsNeverSayTooLittle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		drops := rapid.SliceOfN(rapid.Bool(), 4, 16).Draw(rt, "drops")
		reads := rapid.IntRange(1, 8).Draw(rt, "calls")
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			return say(c, 200, `{}`) && !drops[n%len(drops)]
		})
		defer s.close()
		tr := newTransport(t, quick(Loopback("org", s.url)))
		defer tr.Close()
		sent := 0
		for range reads {
			resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if err != nil {
				rt.Fatal(err)
			}
			for _, a := range resp.Attempts {
				if a.WroteRequest {
					sent++
				}
			}
		}
		if saw := len(s.requests()); saw > sent {
			rt.Fatalf("the server saw %d requests, the rows say %d", saw, sent)
		}
	})
}

// Below the loop net/http repeats by itself; its trace is what we count.
func TestReplayByThePoolIsCounted(t *testing.T) {
	first := make(chan struct{})
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		switch n {
		case 0:
			return say(c, 200, `{}`)
		case 1:
			close(first)
			return false // an idle close, as it looks from the other side
		}
		return say(c, 200, `{}`)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/warm")); err != nil {
		t.Fatal(err)
	}
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err != nil {
		t.Fatal(err)
	}
	<-first
	if len(s.requests()) != 3 || len(resp.Attempts) != 2 || resp.Attempts[0].Stop != stopReplayed || resp.Attempts[1].Status != 200 {
		t.Errorf("%d requests, attempts %+v; want 3 and two rows", len(s.requests()), resp.Attempts)
	}
}

func TestReplaysAreTriesOfARead(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		if n == 0 {
			return say(c, 200, `{}`)
		}
		return reset(c)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/warm")); err != nil {
		t.Fatal(err)
	}
	resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
	if err == nil || len(resp.Attempts) != maxReads || len(s.requests()) != 1+maxReads {
		t.Errorf("error %v, %d rows, %d requests; want %d rows", err, len(resp.Attempts), len(s.requests()), maxReads)
	}
}

func TestWriteMethods(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+fmt.Sprint(r.ContentLength, r.TransferEncoding))
		w.WriteHeader(204)
	}))
	defer s.Close()
	tr := newTransport(t, quick(Loopback("org", s.URL)))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "CONNECT", "TRACE", "post", ""} {
		tr.Do(t.Context(), alice, connector.ClassWrite, connector.Request{Method: method, Path: "/t"})
	}
	if want := []string{"POST 0 []", "PUT 0 []", "PATCH 0 []", "DELETE 0 []"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
