package transport

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

// raw answers with exactly these bytes and closes.
func raw(s string) act {
	return func(_ int, _ seen, c net.Conn) bool { io.WriteString(c, s); return false }
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

// Guarantee: NET5
// Guarantee: NET8
func TestBodies_G27_G28_G30_S2_T17_T23(t *testing.T) {
	doc := `{"title":"` + strings.Repeat("x", 300) + `"}`
	for name, c := range map[string]struct {
		answer act
		code   connector.Code // 0: an answer
		status int
		body   string
	}{
		"plain":                  {always(200, doc), 0, 200, doc},
		"empty":                  {always(200, ""), 0, 200, ""},
		"chunked":                {raw(head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), 0, 200, "{}"},
		"until close":            {raw(head + "Connection: close\r\n\r\n{}"), 0, 200, "{}"},
		"gzip":                   {always(200, zipped(doc), "Content-Encoding: gzip"), 0, 200, doc},
		"gzip in two members":    {always(200, zipped(doc)+zipped("x"), "Content-Encoding: gzip"), 0, 200, doc + "x"},
		"short G27":              {raw(head + "Content-Length: 10\r\n\r\n{\"a"), connector.CodeProviderContract, 200, ""},
		"short, nothing came":    {raw(head + "Content-Length: 10\r\n\r\n"), connector.CodeProviderContract, 200, ""},
		"chunk cut":              {raw(head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a"), connector.CodeProviderContract, 200, ""},
		"last chunk missing":     {raw(head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), connector.CodeProviderContract, 200, ""},
		"chunk size nonsense":    {raw(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"), connector.CodeProviderContract, 200, ""},
		"gzip cut":               {always(200, zipped(doc)[:20], "Content-Encoding: gzip"), connector.CodeProviderContract, 200, ""},
		"gzip without trailer":   {always(200, zipped(doc)[:len(zipped(doc))-8], "Content-Encoding: gzip"), connector.CodeProviderContract, 200, ""},
		"gzip of nothing":        {raw(head + "Content-Encoding: gzip\r\nConnection: close\r\n\r\n"), connector.CodeProviderContract, 200, ""},
		"gzip then garbage":      {always(200, zipped(doc)+"garbage-garbage", "Content-Encoding: gzip"), connector.CodeProviderContract, 200, ""},
		"gzip in name only":      {always(200, doc, "Content-Encoding: gzip"), connector.CodeProviderContract, 200, ""},
		"gzip twice":             {always(200, zipped(zipped(doc)), "Content-Encoding: gzip, gzip"), connector.CodeProviderContract, 200, ""},
		"brotli":                 {always(200, doc, "Content-Encoding: br"), connector.CodeProviderContract, 200, ""},
		"at the limit":           {always(200, strings.Repeat("1", 1000)), 0, 200, strings.Repeat("1", 1000)},
		"over the limit":         {always(200, strings.Repeat("1", 1001)), connector.CodeTooLarge, 200, ""},
		"over, until close":      {raw(head + "Connection: close\r\n\r\n" + strings.Repeat("1", 1001)), connector.CodeTooLarge, 200, ""},
		"at the limit, gzip":     {always(200, zipped(strings.Repeat("1", 1000)), "Content-Encoding: gzip"), 0, 200, strings.Repeat("1", 1000)},
		"over the limit, gzip":   {always(200, zipped(strings.Repeat("1", 1001)), "Content-Encoding: gzip"), connector.CodeTooLarge, 200, ""},
		"bomb G28":               {always(200, zipped(strings.Repeat("0", 1<<20)), "Content-Encoding: gzip"), connector.CodeTooLarge, 200, ""},
		"gzip members of naught": {always(200, strings.Repeat(zipped(""), 1000), "Content-Encoding: gzip"), connector.CodeTooLarge, 200, ""},
		"html":                   {always(200, "<html>", "Content-Type: text/html"), connector.CodeProviderContract, 200, ""},
		"no type":                {raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), connector.CodeProviderContract, 200, ""},
		"two types":              {raw(head + "Content-Type: text/html\r\nContent-Length: 2\r\n\r\n{}"), connector.CodeProviderContract, 200, ""},
		"latin1":                 {always(200, "{}", "Content-Type: application/json; charset=iso-8859-1"), connector.CodeProviderContract, 200, ""},
		"utf-8":                  {always(200, "{}", `Content-Type: Application/JSON;charset="UTF-8"`), 0, 200, "{}"},
		"vendor":                 {always(201, "{}", "Content-Type: application/vnd.github+json; charset=utf-8"), 0, 201, "{}"},
		"problem as success":     {always(200, "{}", "Content-Type: text/x+json"), connector.CodeProviderContract, 200, ""},
		"a part":                 {always(206, "{}"), connector.CodeProviderContract, 206, ""},
		"switched":               {raw("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), connector.CodeProviderContract, 101, ""},
		"204":                    {always(204, ""), 0, 204, ""},
		"error page":             {always(404, "<html>nothing</html>", "Content-Type: text/html"), 0, 404, "<html>nothing</html>"},
		"error without type":     {raw("HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\n{}"), 0, 404, "{}"},
		"error in gzip":          {always(422, zipped(doc), "Content-Encoding: gzip"), 0, 422, doc},
		"long error":             {always(404, strings.Repeat("e", 600)), 0, 404, strings.Repeat("e", 500)},
		"cut error":              {raw("HTTP/1.1 404 X\r\nContent-Length: 20\r\n\r\n{\"mess"), 0, 404, ""},
		"bomb as error":          {always(404, zipped(strings.Repeat("0", 1<<18)), "Content-Encoding: gzip"), 0, 404, strings.Repeat("0", 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.answer)
			p := quick(Loopback("org", s.url))
			p.Limits.BodyBytes, p.Limits.ErrorBodyBytes = 1000, 500
			resp, err := newTransport(t, p).Do(t.Context(), alice, connector.ClassRead, read("/t"))
			if connector.CodeOf(err) != c.code || resp.Status != c.status || string(resp.Body) != c.body {
				t.Errorf("status %d, body %.40q, error %v; want %d, %.40q, %v", resp.Status, resp.Body, err, c.status, c.body, c.code)
			}
		})
	}
}

func TestHeadHasNoBody(t *testing.T) {
	s := serve(t, func(_ int, _ seen, c net.Conn) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n")
		return true
	})
	r := read("/t")
	r.Method = http.MethodHead
	resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, r)
	if err != nil || resp.Status != 200 || resp.Body != nil {
		t.Errorf("%+v, %v", resp, err)
	}
}

// zeros is a gzip stream of n zero bytes that does not exist in memory.
func zeros(n int64) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		w := gzip.NewWriter(pw)
		io.CopyN(w, zeroReader{}, n)
		pw.CloseWithError(w.Close())
	}()
	return pr
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBombCostsNoMoreThanTheLimit_G28(t *testing.T) {
	body := zeros(1 << 30)
	resp := &http.Response{
		StatusCode: 200, Body: body, ContentLength: -1, Request: &http.Request{Method: "GET"},
		Header: http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"application/json"}},
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readBody(resp, bodyRules{ok: 64 << 10, fail: 1, json: true})
	runtime.ReadMemStats(&after)
	var fault *bodyFault
	if !errors.As(err, &fault) || fault.code != connector.CodeTooLarge {
		t.Errorf("error %v, want TOO_LARGE", err)
	}
	// The compressor of the test itself takes about 1 MiB of this.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 3<<20 {
		t.Errorf("%d bytes were allocated for a body of at most 64 KiB", grown)
	}
}

func TestStrayBodyDoesNotReachTheNextAnswer_G30(t *testing.T) {
	// net/http reports stray bytes to the standard logger and nowhere else.
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	const forged = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"forged\":true}"
	for _, answer := range []string{
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		for range 20 { // the left-over and the next request race
			s := serve(t, func(n int, _ seen, c net.Conn) bool {
				if n == 0 {
					io.WriteString(c, answer+forged)
					return true
				}
				return say(c, 200, `{"real":true}`)
			})
			tr := newTransport(t, quick(Loopback("org", s.url)))
			if _, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/1")); err != nil {
				t.Fatal(err)
			}
			second, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/2"))
			if err != nil || string(second.Body) != `{"real":true}` {
				t.Fatalf("after %.20q the next answer is %s, %v", answer, second.Body, err)
			}
			if n := s.connections(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
		}
	}
}
