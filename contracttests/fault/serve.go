package fault

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// serve answers the requests of one client connection until it is cut or ends.
func (p *Proxy) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
			if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		e := &Exchange{Method: req.Method, Target: req.RequestURI, Host: req.Host, Header: req.Header.Clone(), Body: body}
		p.arrive(e)
		if !p.exchange(conn, req, e, p.take(req)) {
			return
		}
	}
}

// exchange acts on one request and reports whether the connection may carry another.
func (p *Proxy) exchange(conn net.Conn, req *http.Request, e *Exchange, rule Rule) bool {
	p.update(func() { e.Action = rule.Action })

	var a *answer
	switch rule.Action {
	case CutBefore:
		return p.cut(conn, e, rule, nil)
	case Answer:
		a = madeUp(rule, http.StatusOK)
	case Redirect:
		a = madeUp(rule, http.StatusTemporaryRedirect)
		a.header.Set("Location", rule.Location)
	default:
		if rule.Action == DelayRequest && !p.hold(rule) {
			return p.cut(conn, e, rule, p.ctx.Err())
		}
		var err error
		if a, err = p.forward(req, e); err != nil {
			return p.cut(conn, e, rule, err)
		}
	}

	switch rule.Action {
	case LoseAnswer:
		return p.cut(conn, e, rule, nil)
	case CutAfterHeaders:
		return p.send(conn, req, e, rule, a, 0)
	case HalfBody:
		return p.send(conn, req, e, rule, a, len(a.body)/2)
	case DelayAnswer:
		if !p.hold(rule) {
			return p.cut(conn, e, rule, p.ctx.Err())
		}
	case Duplicate:
		if _, err := p.forward(req, e); err != nil {
			return p.cut(conn, e, rule, err)
		}
	case Replace:
		a.replace(rule)
	}
	return p.send(conn, req, e, rule, a, len(a.body))
}

// hold waits as the rule says; false means that the proxy closed meanwhile.
func (p *Proxy) hold(rule Rule) bool {
	if rule.Release == nil && rule.Delay <= 0 {
		return true
	}
	var after <-chan time.Time
	if rule.Delay > 0 {
		t := time.NewTimer(rule.Delay)
		defer t.Stop()
		after = t.C
	}
	select {
	case <-rule.Release:
	case <-after:
	case <-p.ctx.Done():
		return false
	}
	return true
}

// cut ends the client's connection. The record is complete first.
func (p *Proxy) cut(conn net.Conn, e *Exchange, rule Rule, err error) bool {
	p.update(func() { e.Done, e.Err = true, err })
	disconnect(conn, rule)
	return false
}

// disconnect closes at once. Linger zero turns the close into a reset.
func disconnect(conn net.Conn, rule Rule) {
	under := conn
	if t, ok := conn.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if tcp, ok := under.(*net.TCPConn); ok && rule.Reset {
		_ = tcp.SetLinger(0)
	}
	if rule.Reset {
		_ = under.Close() // a TLS close would say goodbye first
	}
	_ = conn.Close()
}

// send writes the answer with the first n bytes of its body. A body that ends early ends
// the connection.
func (p *Proxy) send(conn net.Conn, req *http.Request, e *Exchange, rule Rule, a *answer, n int) bool {
	whole := n == len(a.body) && rule.Action != CutAfterHeaders && rule.Action != HalfBody
	last := req.Close || !whole
	p.update(func() { e.Done, e.Status = true, a.status })
	if _, err := conn.Write(a.bytes(req.Method, n, last)); err != nil || last {
		disconnect(conn, rule)
		return false
	}
	return true
}

// answer is a response whose body is wholly read.
type answer struct {
	status int
	reason string
	header http.Header
	body   []byte
	length string // Content-Length as the upstream sent it, for answers without a body
}

func madeUp(rule Rule, status int) *answer {
	a := &answer{status: status, header: make(http.Header)}
	a.replace(rule)
	return a
}

func (a *answer) replace(rule Rule) {
	if rule.Status != 0 {
		a.status, a.reason = rule.Status, ""
	}
	for name, values := range rule.Header {
		a.header[http.CanonicalHeaderKey(name)] = values
	}
	if rule.Body != nil {
		a.body, a.length = rule.Body, ""
	}
}

// bytes renders the answer with the first n bytes of its body.
func (a *answer) bytes(method string, n int, last bool) []byte {
	var b bytes.Buffer
	reason := a.reason
	if reason == "" {
		reason = http.StatusText(a.status)
	}
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", a.status, reason)
	_ = a.header.Write(&b)
	bodiless := method == http.MethodHead || a.status == http.StatusNoContent || a.status == http.StatusNotModified
	if _, given := a.header["Content-Length"]; !given {
		switch {
		case !bodiless:
			fmt.Fprintf(&b, "Content-Length: %d\r\n", len(a.body))
		case a.length != "":
			fmt.Fprintf(&b, "Content-Length: %s\r\n", a.length)
		}
	}
	if last {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if !bodiless {
		b.Write(a.body[:n])
	}
	return b.Bytes()
}

// perHop are the headers that describe one connection and not the message (RFC 9110,
// section 7.6.1); the proxy frames both sides itself.
var perHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Content-Length"}

// forward sends the request on a new upstream connection and reads the whole answer.
func (p *Proxy) forward(req *http.Request, e *Exchange) (*answer, error) {
	up, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.upstream)
	if err != nil {
		return nil, err
	}
	if !p.keep(up) {
		_ = up.Close()
		return nil, p.ctx.Err()
	}
	defer p.drop(up)

	wire, host := up, req.Host
	if p.secure != nil {
		wire, host = tls.Client(up, p.secure.client), p.secure.host
	}
	if _, err := wire.Write(onward(req, host, e.Body)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(wire)
	for {
		resp, err := http.ReadResponse(in, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, fmt.Errorf("upstream answered %d", resp.StatusCode)
		}
		if resp.StatusCode < 200 {
			continue
		}
		a := &answer{status: resp.StatusCode, header: resp.Header, length: resp.Header.Get("Content-Length")}
		_, a.reason, _ = strings.Cut(resp.Status, " ")
		if a.body, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		for _, name := range perHop {
			a.header.Del(name)
		}
		p.update(func() { e.Upstream = append(e.Upstream, a.status) })
		return a, nil
	}
}

// onward renders the request for the upstream: same target, headers and body.
func onward(req *http.Request, host string, body []byte) []byte {
	target := req.RequestURI
	if !strings.HasPrefix(target, "/") && target != "*" {
		target = req.URL.RequestURI()
	}
	header := req.Header.Clone()
	for _, name := range perHop {
		header.Del(name)
	}
	if len(body) > 0 || req.ContentLength > 0 || req.TransferEncoding != nil || hasLength(req) {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	header.Set("Connection", "close")
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", req.Method, target, host)
	_ = header.Write(&b)
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// hasLength tells "Content-Length: 0" from no length at all; net/http keeps the header of
// a request that it read.
func hasLength(req *http.Request) bool {
	_, ok := req.Header["Content-Length"]
	return ok
}
