package transport

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// framed is a TLS server that speaks HTTP/2 frame by frame. It counts requests
// over all connections; act gets the number of the request on its connection
// and of the connection.
type framed struct {
	*secureServer
	profile Profile

	mu       sync.Mutex
	conns    int
	requests int
	methods  []string
}

type frameAct func(fr *http2.Framer, conn, n int, stream uint32) (keep bool)

func serveFrames(t *testing.T, act frameAct) *framed {
	t.Helper()
	f := &framed{}
	var roots []byte
	// httptest offers h2 by itself; what speaks it is ours.
	f.secureServer, roots = serveTLS(t, "127.0.0.1", time.Now().Add(time.Hour), nil, func(s *http.Server) {
		s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { f.talk(c, act) },
		}
	})
	f.profile = quick(Loopback("org", f.URL))
	f.profile.Roots, f.profile.HTTP2 = roots, true
	return f
}

func (f *framed) talk(c *tls.Conn, act frameAct) {
	defer c.Close()
	f.mu.Lock()
	conn := f.conns
	f.conns++
	f.mu.Unlock()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if fr.WriteSettings() != nil {
		return
	}
	for n := 0; ; {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch v := frame.(type) {
		case *http2.SettingsFrame:
			if !v.IsAck() {
				fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			f.mu.Lock()
			f.requests++
			f.methods = append(f.methods, v.PseudoValue("method"))
			f.mu.Unlock()
			if !act(fr, conn, n, v.StreamID) {
				return
			}
			n++
		}
	}
}

func (f *framed) count() (conns, requests int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.conns, f.requests
}

func answerFrames(fr *http2.Framer, stream uint32, body string) bool {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	e.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true})
	fr.WriteData(stream, true, []byte(body))
	return true
}

// Guarantee: NET6
func TestHTTP2IsForReadsOnly_G19(t *testing.T) {
	s, roots := serveTLS(t, "127.0.0.1", time.Now().Add(time.Hour), nil)
	var mu sync.Mutex
	var got []string
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.Proto)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`)
	})
	p := quick(Loopback("org", s.URL))
	p.Roots = roots
	for _, h2 := range []bool{false, true} {
		p.HTTP2 = h2
		tr := newTransport(t, p)
		for range 3 {
			resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if err != nil || len(resp.Attempts) != 1 || !resp.Attempts[0].WroteRequest || resp.Attempts[0].Status != 200 {
				t.Fatalf("%+v, %v", resp.Attempts, err)
			}
		}
		if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, write("/t", "{}")); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Exchange(t.Context(), "org", Exchange{URL: s.URL + "/token"}); err != nil {
			t.Fatal(err)
		}
	}
	want := "GET HTTP/1.1,GET HTTP/1.1,GET HTTP/1.1,POST HTTP/1.1,GET HTTP/1.1," +
		"GET HTTP/2.0,GET HTTP/2.0,GET HTTP/2.0,POST HTTP/1.1,GET HTTP/1.1"
	if all := strings.Join(got, ","); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
	if n := s.handshakes.Load(); n != 6 {
		t.Errorf("%d handshakes, want 2 for reads and one for each of the others", n)
	}
}

// A server without HTTP/2 is read as before.
func TestHTTP2IsAnOffer(t *testing.T) {
	s := serve(t, always(200, `{}`))
	p := quick(Loopback("org", s.url))
	p.HTTP2 = true
	if _, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil {
		t.Error(err)
	}
}

// Guarantee: NET6
func TestHTTP2ReplaysAreCountedAndBounded_G19(t *testing.T) {
	refuse := func(fr *http2.Framer, _, _ int, stream uint32) bool {
		return fr.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
	}
	goAway := func(fr *http2.Framer, _, _ int, stream uint32) bool {
		fr.WriteGoAway(stream-1, http2.ErrCodeNo, []byte(canary))
		return true
	}
	for name, c := range map[string]struct {
		act      frameAct
		requests int
		ok       bool
	}{
		"refused once": {func(fr *http2.Framer, conn, n int, stream uint32) bool {
			if n == 0 {
				return refuse(fr, conn, n, stream)
			}
			return answerFrames(fr, stream, `{}`)
		}, 2, true},
		"refused for ever": {refuse, 3, false},
		"gone away once": {func(fr *http2.Framer, conn, n int, stream uint32) bool {
			if conn == 0 {
				return goAway(fr, conn, n, stream)
			}
			return answerFrames(fr, stream, `{}`)
		}, 2, true},
		"gone away for ever": {goAway, 3, false},
		"reset by error": {func(fr *http2.Framer, _, _ int, stream uint32) bool {
			return fr.WriteRSTStream(stream, http2.ErrCodeInternal) == nil
		}, 3, false},
		"cut": {func(*http2.Framer, int, int, uint32) bool { return false }, 3, false},
		"garbage": {func(fr *http2.Framer, _, _ int, _ uint32) bool {
			fr.WriteRawFrame(http2.FrameData, 0, 0, []byte(canary))
			return false
		}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveFrames(t, c.act)
			resp, err := newTransport(t, s.profile).Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if (err == nil) != c.ok || !c.ok && connector.CodeOf(err) != connector.CodeUnavailable {
				t.Errorf("error %v, want ok %t", err, c.ok)
			}
			sent := 0
			for _, a := range resp.Attempts {
				if a.WroteRequest {
					sent++
				}
			}
			_, requests := s.count()
			if requests > c.requests || c.ok && requests != c.requests || sent < requests || len(resp.Attempts) > maxReads+1 {
				t.Errorf("the server saw %d requests, want %d; rows %+v", requests, c.requests, resp.Attempts)
			}
			if out := everything(err); strings.Contains(out, canary) {
				t.Errorf("the server's words are in the error: %s", out)
			}
		})
	}
}

// G20: what was a live connection swallows everything from the second request on.
func TestDeadHTTP2ConnectionIsReplaced_G20(t *testing.T) {
	hold := make(chan struct{})
	s := serveFrames(t, func(fr *http2.Framer, conn, n int, stream uint32) bool {
		if conn == 0 && n == 1 {
			<-hold // neither answers nor pings are given any more
			return false
		}
		return answerFrames(fr, stream, `{}`)
	})
	t.Cleanup(func() { close(hold) })
	p := s.profile
	p.Limits.ResponseHeader = 300 * time.Millisecond
	tr := newTransport(t, p)
	for range 3 {
		resp, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t"))
		if err != nil || len(resp.Attempts) > 2 {
			t.Fatalf("%v, attempts %+v", err, resp.Attempts)
		}
	}
	if conns, requests := s.count(); conns != 2 || requests != 4 {
		t.Errorf("%d connections and %d requests, want 2 and 4: one time out, then a new connection for all", conns, requests)
	}
}

// The ping alone finds a dead connection, before the wait for a header ends.
func TestHTTP2IsPinged_G20(t *testing.T) {
	tr := newTransport(t, Profile{BaseURL: "https://api.example.com", HTTP2: true})
	ep, err := tr.endpoint("org")
	if err != nil {
		t.Fatal(err)
	}
	h := ep.pool.get()
	if h.HTTP2 == nil || h.HTTP2.SendPingTimeout <= 0 || h.HTTP2.PingTimeout <= 0 || h.HTTP2.SendPingTimeout+h.HTTP2.PingTimeout >= h.ResponseHeaderTimeout {
		t.Errorf("pings are %+v beside a wait of %v", h.HTTP2, h.ResponseHeaderTimeout)
	}
	if ep.once.Protocols.HTTP2() || ep.once.HTTP2 != nil || strings.Join(ep.once.TLSClientConfig.NextProtos, ",") != "http/1.1" {
		t.Error("writes may use HTTP/2")
	}
}

// Guarantee: NET5
// net/http gives up on the whole connection when much more follows; that is an
// error of the network to us, and still bounded and coded.
func TestHTTP2HeaderOverTheLimit(t *testing.T) {
	for headers, want := range map[int]connector.Code{64: connector.CodeTooLarge, 200: connector.CodeUnavailable} {
		s := serveFrames(t, func(fr *http2.Framer, _, _ int, stream uint32) bool {
			var b bytes.Buffer
			e := hpack.NewEncoder(&b)
			e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			for i := range headers {
				e.WriteField(hpack.HeaderField{Name: "x-" + strings.Repeat("n", i%50), Value: strings.Repeat("a", 1000)})
			}
			block := b.Bytes()
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:16000]})
			for block = block[16000:]; len(block) > 0; {
				n := min(len(block), 16000)
				if fr.WriteContinuation(stream, n == len(block), block[:n]) != nil {
					return false
				}
				block = block[n:]
			}
			return true
		})
		resp, err := newTransport(t, s.profile).Do(t.Context(), alice, connector.ClassRead, read("/t"))
		if connector.CodeOf(err) != want || resp.Header != nil || len(resp.Attempts) > maxReads {
			t.Errorf("%d headers: %v after %d attempts, want %v", headers, err, len(resp.Attempts), want)
		}
	}
}

// A bomb over HTTP/2 stops like any other, and the connection lives on.
func TestHTTP2BodyOverTheLimit_G28(t *testing.T) {
	s := serveFrames(t, func(fr *http2.Framer, _, n int, stream uint32) bool {
		if n == 0 {
			return answerFrames(fr, stream, strings.Repeat("1", 10000))
		}
		return answerFrames(fr, stream, `{}`)
	})
	p := s.profile
	p.Limits.BodyBytes = 1000
	tr := newTransport(t, p)
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); connector.CodeOf(err) != connector.CodeTooLarge {
		t.Errorf("%v, want TOO_LARGE", err)
	}
	if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/t")); err != nil {
		t.Error(err)
	}
}
