package webhooks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// dial opens a connection to the service, below any HTTP client.
func (h *house) dial() net.Conn {
	h.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	must(h.t, err)
	h.t.Cleanup(func() { c.Close() })
	must(h.t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c
}

// head writes the request up to the body.
func (h *house) head(c net.Conn, header http.Header, length string) {
	h.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n", h.github.Path, length)
	must(h.t, header.Write(&b))
	_, err := io.WriteString(c, b.String()+"\r\n")
	must(h.t, err)
}

func (h *house) wantStatus(c net.Conn, want int) {
	h.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(h.t, err)
	resp.Body.Close()
	if resp.StatusCode != want {
		h.t.Errorf("status %s, want %d", resp.Status, want)
	}
}

func (h *house) wantNothingStored() {
	h.t.Helper()
	if n := len(h.records()); n != 0 {
		h.t.Errorf("%d deliveries are stored, want none", n)
	}
}

// W25: a body that is announced as too large is refused before it is sent.
func TestHugeAnnouncedBody(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	for _, length := range []string{"26214401", "9223372036854775807"} {
		c := h.dial()
		h.head(c, github("d1", "x"), "Content-Length: "+length)
		h.wantStatus(c, http.StatusRequestEntityTooLarge)
	}
	h.wantNothingStored()
}

// W26: without a length the limit holds as well, and a prefix is never taken
// for the whole, not even if it is what was signed.
func TestChunkedBodies(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{MaxBody: 64})
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	fits := strings.Repeat("a", 64)

	c := h.dial()
	h.head(c, github("d1", fits), "Transfer-Encoding: chunked")
	fmt.Fprint(c, chunk(fits), chunk("b"), "0\r\n\r\n")
	h.wantStatus(c, http.StatusRequestEntityTooLarge)

	c = h.dial()
	h.head(c, github("d1", fits[:10]), "Transfer-Encoding: chunked")
	fmt.Fprint(c, chunk(fits[:10]), "this is no chunk\r\n")
	h.wantStatus(c, http.StatusBadRequest)

	c = h.dial()
	h.head(c, github("d1", fits[:10]), "Transfer-Encoding: chunked")
	fmt.Fprint(c, chunk(fits[:10]))
	must(t, c.(*net.TCPConn).CloseWrite())
	h.wantStatus(c, http.StatusBadRequest)
	h.wantNothingStored()

	c = h.dial()
	h.head(c, github("d1", fits), "Transfer-Encoding: chunked")
	fmt.Fprint(c, chunk(fits[:40]), chunk(fits[40:]), "0\r\n\r\n")
	h.wantStatus(c, http.StatusAccepted)
}

// W21: a body that breaks off is refused, even if what came is what was signed.
func TestTruncatedBody(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	c := h.dial()
	h.head(c, github("d1", "part"), "Content-Length: 100")
	fmt.Fprint(c, "part")
	must(t, c.(*net.TCPConn).CloseWrite())
	h.wantStatus(c, http.StatusBadRequest)
	h.wantNothingStored()
	if n := h.stats().Received["truncated"]; n != 1 {
		t.Errorf("truncated %d, want 1", n)
	}
}

// HOO7: whoever sends too slowly is cut off, even if something comes now and
// then, and does not keep others out.
//
// Guarantee: HOO7
func TestSlowSenderIsCutOff(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{ReadTimeout: 200 * time.Millisecond, MaxInFlight: 4 * minReserved})
	var slow []net.Conn
	for range 4 {
		c := h.dial()
		h.head(c, github("d1", "x"), "Content-Length: 1000")
		slow = append(slow, c)
	}
	for deadline := time.Now().Add(10 * time.Second); h.s.receiver.inFlight.Load() < 4*minReserved; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slow senders are not in flight")
		}
	}
	body := `"orders/1"`
	header := h.post(http.StatusServiceUnavailable, h.github.Path, github("d2", body), body)
	if header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	var drip sync.WaitGroup
	for _, c := range slow {
		drip.Go(func() {
			for range 1000 {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	for _, c := range slow {
		h.wantStatus(c, http.StatusRequestTimeout)
		c.Close()
	}
	drip.Wait()
	for deadline := time.Now().Add(10 * time.Second); h.s.receiver.inFlight.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slow senders still count as in flight")
		}
	}
	h.wantNothingStored()
	h.post(http.StatusAccepted, h.github.Path, github("d2", body), body)
}

// A connection that is kept alive does not inherit the deadline of the request
// before.
func TestDeadlineIsPerRequest(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{ReadTimeout: 50 * time.Millisecond})
	c := h.dial()
	answers := bufio.NewReader(c)
	for i := range 3 {
		body := `"orders/1"`
		h.head(c, github(fmt.Sprint("d", i), body), fmt.Sprintf("Content-Length: %d", len(body)))
		fmt.Fprint(c, body)
		resp, err := http.ReadResponse(answers, nil)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("request %d: %s", i, resp.Status)
		}
		time.Sleep(60 * time.Millisecond)
	}
}
