package transport

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// floodFaults come one request in a hundred each.
var floodFaults = map[string]act{
	"200_close":        always(200, `{}`, "Connection: close"),
	"304_unasked":      always(304, ``),
	"401":              always(401, `{}`),
	"404":              always(404, `{}`),
	"429":              always(429, `{}`),
	"429_long":         always(429, `{}`, "Retry-After: 3600"),
	"500":              always(500, `{}`),
	"503_zero":         always(503, `{}`, "Retry-After: 0"),
	"redirect_inside":  always(302, ``, "Location: /elsewhere"),
	"redirect_outside": always(307, ``, "Location: http://127.0.0.1:1/"),
	"html":             always(200, `<html>`, "Content-Type: text/html"),
	"oversized":        always(200, strings.Repeat("1", 20<<10)),
	"bomb":             always(200, zipped(strings.Repeat("0", 1<<20)), "Content-Encoding: gzip"),
	"big_header":       always(200, `{}`, "X-Big: "+strings.Repeat("x", 9<<10)),
	"reset":            func(_ int, _ seen, c net.Conn) bool { return reset(c) },
	"closed":           func(int, seen, net.Conn) bool { return false },
	"cut_head":         raw("HTTP/1.1 200 OK\r\nX-A"),
	"cut_body":         raw(head + "Content-Length: 9\r\n\r\n{"),
	"cut_chunk": func(_ int, _ seen, c net.Conn) bool {
		io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n5\r\n{")
		return reset(c)
	},
	"not_http": raw("nonsense\r\n\r\n"),
	"silent":   func(_ int, _ seen, c net.Conn) bool { io.Copy(io.Discard, c); return false },
}

// amnesia keeps cooldowns out of a test that is about faults.
type amnesia struct{}

func (amnesia) Until(context.Context, string) (time.Time, error) { return time.Time{}, nil }
func (amnesia) Extend(context.Context, string, time.Time) error  { return nil }

// Guarantee: NET5
// TestFlood makes many calls over random faults and looks for what is left of
// them. DRAWBRIDGE_FLOOD sets their number.
func TestFlood(t *testing.T) {
	calls := 300
	if n, err := strconv.Atoi(os.Getenv("DRAWBRIDGE_FLOOD")); err == nil && n > 0 {
		calls = n
	}
	names := slices.Sorted(maps.Keys(floodFaults))
	met := make([]atomic.Int64, len(names))
	var arrived atomic.Int64
	var writes sync.Map // operation -> arrivals
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		arrived.Add(1)
		if id := r.header.Get("X-Operation"); id != "" {
			count, _ := writes.LoadOrStore(id, new(atomic.Int64))
			count.(*atomic.Int64).Add(1)
		}
		if i := rand.IntN(100); i < len(names) {
			met[i].Add(1)
			return floodFaults[names[i]](n, r, c)
		}
		return say(c, 200, `{"ok":true}`, `ETag: "1"`)
	})
	s.mu.Lock()
	s.forget = true
	s.mu.Unlock()

	p := quick(Loopback("org", s.url))
	p.Limits.BodyBytes, p.Limits.HeaderBytes = 16<<10, 8<<10
	p.Limits.ResponseHeader = 250 * time.Millisecond
	p.Limits.Read, p.Limits.Write = 30*time.Second, 30*time.Second
	tr := limited(t, s.url, amnesia{})
	tr.profiles = Static{"org": p}
	tr.firstWait = time.Millisecond

	before := measure()
	var attempts, sent, good atomic.Int64
	codes := make([]atomic.Int64, connector.CodeInternal+1)
	work := make(chan int)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range work {
				conn := alice
				conn.ID = connector.ConnectionID(fmt.Sprint("conn-", i%64))
				class, r := connector.ClassRead, read("/t")
				switch i % 8 {
				case 0:
					class, r = connector.ClassWrite, keyed("/t", "X-Operation", fmt.Sprint("op-", i))
				case 1:
					r.Cacheable = true
				}
				resp, err := tr.Do(t.Context(), conn, class, r)
				attempts.Add(int64(len(resp.Attempts)))
				for _, a := range resp.Attempts {
					if a.WroteRequest {
						sent.Add(1)
					}
				}
				codes[connector.CodeOf(err)].Add(1)
				if err == nil {
					good.Add(1)
				} else if resp.Body != nil {
					t.Errorf("a body beside %v", err)
				}
				if class == connector.ClassWrite {
					arrivals := int64(0)
					if count, ok := writes.LoadAndDelete(string(r.OperationID)); ok {
						arrivals = count.(*atomic.Int64).Load()
					}
					switch {
					case arrivals > 1:
						t.Errorf("a write arrived %d times", arrivals)
					case arrivals == 1 && effect(err) == connector.DispositionNotApplied:
						t.Errorf("a write arrived and its error says not applied: %v", err)
					}
				}
			}
		})
	}
	for i := range calls {
		work <- i
	}
	close(work)
	wg.Wait()
	tr.Close()
	for s.open() != 0 { // a hang here is the failure
		time.Sleep(time.Millisecond)
	}
	for runtime.NumGoroutine() > before.goroutines {
		time.Sleep(time.Millisecond)
	}
	after := measure()

	if arrived.Load() > sent.Load() {
		t.Errorf("%d requests arrived, the rows say %d", arrived.Load(), sent.Load())
	}
	if good.Load() < int64(calls)/2 {
		t.Errorf("only %d of %d calls had an answer", good.Load(), calls)
	}
	// Pools of buffers and readers are kept on purpose; they do not grow with calls.
	if grown := int64(after.heap) - int64(before.heap); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	fmt.Printf("figure: flood calls %d\n", calls)
	fmt.Printf("figure: flood attempts %d\n", attempts.Load())
	for i, name := range names {
		fmt.Printf("figure: flood fault %s %d\n", name, met[i].Load())
	}
	for code := range codes {
		if n := codes[code].Load(); n > 0 && code > 0 {
			fmt.Printf("figure: flood error %v %d\n", connector.Code(code), n)
		}
	}
	fmt.Printf("figure: flood goroutines %d before, %d after\n", before.goroutines, after.goroutines)
	fmt.Printf("figure: flood heap %d bytes before, %d after\n", before.heap, after.heap)
	fmt.Printf("figure: flood connections open %d\n", s.open())
}

type measured struct {
	goroutines int
	heap       uint64
}

func measure() measured {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one empties what pools kept for one more cycle
	runtime.ReadMemStats(&m)
	return measured{runtime.NumGoroutine(), m.HeapAlloc}
}
