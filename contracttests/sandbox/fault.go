package sandbox

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// effects are the faults that hit one request, in the order of the rules.
type effects []*Effect

// kinds is the closed list of effect kinds.
var kinds = []string{
	"delay", "reset_before", "lose_answer_after_commit", "status", "html", "redirect", "empty", "truncate", "slow_body",
	"trailing_garbage", "wrong_content_type", "oversized", "gzip_bomb", "switch",
}

// before runs faults that come before the handler. It reports true when the
// socket is done with; a status set in a replaces the handler.
func (fx effects) before(s *Server, w http.ResponseWriter, a *answer) bool {
	for _, e := range fx {
		switch {
		case e.Kind == "reset_before":
			abort(w, true)
			return true
		case e.When == "after":
		case e.Kind == "delay":
			s.wait(time.Duration(e.DelayMS) * time.Millisecond)
		case e.replaces() && a.status == 0:
			e.replace(a)
		}
	}
	return false
}

// after runs faults that come after the handler, when its effect is done.
func (fx effects) after(s *Server, a *answer) {
	for _, e := range fx {
		if e.When != "after" {
			continue
		}
		switch {
		case e.Kind == "delay":
			s.wait(time.Duration(e.DelayMS) * time.Millisecond)
		case e.replaces():
			*a = answer{}
			e.replace(a)
		}
	}
	for _, e := range fx {
		switch e.Kind {
		case "trailing_garbage":
			a.body = append(bytes.Clone(a.body), `{"and":`...)
		case "wrong_content_type":
			if a.ctype = e.ContentType; a.ctype == "" {
				a.ctype = "text/plain"
			}
		}
	}
}

// deliver runs the faults of the socket; at most one of them owns it. It reports
// false if the answer, damaged or not, is still to be written.
func (fx effects) deliver(s *Server, w http.ResponseWriter, x *exchange, a *answer) bool {
	for _, e := range fx {
		switch e.Kind {
		case "lose_answer_after_commit":
			switch e.Variant {
			case "after_headers":
				cutOff(w, x, a, 0)
			case "half_body":
				cutOff(w, x, a, len(a.body)/2)
			default:
				abort(w, true)
			}
			return true
		case "truncate":
			if e.Variant == "gzip" {
				a.body = zip(a.body)
				a.body = a.body[:len(a.body)-8] // CRC and length are missing; the transfer itself is complete
				a.set("Content-Encoding", "gzip")
				continue
			}
			n := int(e.Bytes)
			if n == 0 || n > len(a.body) {
				n = len(a.body) / 2
			}
			cutOff(w, x, a, n)
			return true
		case "slow_body":
			s.drip(w, x, a, e)
			return true
		case "oversized", "gzip_bomb":
			flood(w, x, a, e)
			return true
		}
	}
	return false
}

func (e *Effect) replaces() bool {
	switch e.Kind {
	case "status", "html", "redirect", "empty", "oversized", "gzip_bomb":
		return true
	}
	return false
}

// replace puts the fault's answer in place of the handler's.
func (e *Effect) replace(a *answer) {
	a.status, a.ctype = e.Status, e.ContentType
	a.body = []byte(e.Body)
	switch e.Kind {
	case "status":
		if e.Body == "" && e.Status >= 400 {
			a.body = fmt.Appendf(nil, `{"error":"fault","message":%q}`, http.StatusText(e.Status))
		}
	case "html":
		if e.Body == "" {
			a.body = []byte("<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>The instance is asleep.</body></html>\n")
		}
		if a.ctype == "" && e.Variant != "json" {
			a.ctype = "text/html; charset=utf-8"
		}
	case "redirect":
		if a.status == 0 {
			a.status = http.StatusFound
		}
		if e.Location != "" { // a redirect without Location is a case of its own
			a.set("Location", e.Location)
		}
	case "empty":
		a.body = nil
		if a.status == 0 {
			a.status = http.StatusNoContent
		}
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if e.RetryAfter != "" {
		a.set("Retry-After", e.RetryAfter)
	}
	for k, v := range e.Header {
		a.set(k, v)
	}
}

// abort ends the connection without a byte, with a RST if reset is set.
func abort(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // mounted on something that can't be hijacked
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// cutOff promises the whole body, sends n bytes of it and closes.
func cutOff(w http.ResponseWriter, x *exchange, a *answer, n int) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		headers(w.Header(), x, a)
		w.WriteHeader(a.status)
		w.Write(a.body[:n])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	h := make(http.Header)
	headers(h, x, a)
	fmt.Fprintf(rw, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	h.Write(rw)
	io.WriteString(rw, "\r\n")
	rw.Write(a.body[:n])
	rw.Flush()
}

// drip sends the body in pieces of Bytes (default 16) with DelayMS (default 50) between.
func (s *Server) drip(w http.ResponseWriter, x *exchange, a *answer, e *Effect) {
	piece, pause := int(e.Bytes), time.Duration(e.DelayMS)*time.Millisecond
	if piece <= 0 {
		piece = 16
	}
	if pause <= 0 {
		pause = 50 * time.Millisecond
	}
	headers(w.Header(), x, a)
	w.WriteHeader(a.status)
	rc := http.NewResponseController(w)
	for b := a.body; len(b) > 0; b = b[min(piece, len(b)):] {
		if _, err := w.Write(b[:min(piece, len(b))]); err != nil || rc.Flush() != nil || x.r.Context().Err() != nil {
			return
		}
		s.wait(pause)
		if s.ctx.Err() != nil {
			return
		}
	}
}

// flood sends a JSON object of Bytes (default 64 MiB), plain or as a gzip
// stream of a thousandth of that.
func flood(w http.ResponseWriter, x *exchange, a *answer, e *Effect) {
	size := e.Bytes
	if size <= 0 {
		size = 64 << 20
	}
	h := w.Header()
	headers(h, x, a)
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	head, tail := []byte(`{"items":[],"next_cursor":null,"total":0,"padding":"`), []byte(`"}`)
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	if e.Kind == "gzip_bomb" {
		// Members of a gzip stream may simply follow each other, so one packed
		// chunk serves for all of them.
		h.Set("Content-Encoding", "gzip")
		h["X-Uncompressed-Bytes"] = []string{strconv.FormatInt(size, 10)}
		head, tail, chunk = zip(head), zip(tail), zip(chunk)
	}
	w.WriteHeader(a.status)
	w.Write(head)
	for sent := int64(0); sent < size; sent += 1 << 20 {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
	w.Write(tail)
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}
