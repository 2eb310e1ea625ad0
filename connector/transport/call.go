package transport

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/net/http/httpguts"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A call is one Do. It is its own http.RoundTripper: one round trip is one pass
// of gate, credential, wire and body, with the books of the call at hand.
type call struct {
	t     *Transport
	ep    *endpoint
	conn  connector.Connection
	lane  *lane
	write bool

	method string
	url    *url.URL
	body   []byte // our copy: what was approved can't change under way
	header http.Header

	loop retryablehttp.Client
	http http.Client

	attempts []connector.Attempt
	room     [1]connector.Attempt
	fresh    bool          // the last round trip added attempts
	answer   answer        // the last one
	wait     time.Duration // before the next attempt
	failed   int
	route    *route
	version  int64 // of the credential last used
	rejected int64 // version that got 401

	cacheable     bool
	unconditional bool // nothing stored is asked about
	refetch       bool // a 304 came that nothing stored fits
	key           pageKey
	page          *page // what the last request asked about
}

// An answer is what came back, also when the body can't be used.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time
	wait   time.Duration
	quota  []connector.Quota
	stored bool // the body is a kept one
}

// take checks a request and copies it.
func (c *call) take(class connector.Class, r connector.Request) error {
	c.method = r.Method
	switch class {
	case connector.ClassRead:
		if c.method == "" {
			c.method = http.MethodGet
		}
		if c.method != http.MethodGet && c.method != http.MethodHead || len(r.Body) > 0 || r.DedupeHeader != "" {
			return connector.Fail(connector.CodeInternal, "a read must be a GET or HEAD with nothing to send")
		}
	case connector.ClassWrite:
		switch c.method {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		default:
			return connector.Fail(connector.CodeInternal, "a write must be a POST, PUT, PATCH or DELETE")
		}
	default:
		return connector.Fail(connector.CodeInternal, "a request is a read or a write")
	}
	var err error
	if c.url, err = c.ep.target(r.Path, r.Query); err != nil {
		return err
	}
	c.header = make(http.Header, 8)
	c.header["Accept"] = jsonOnly
	c.header["Accept-Encoding"] = gzipOnly
	c.header["User-Agent"] = userAgent
	if r.Unchanged != "" {
		c.header["If-None-Match"] = []string{r.Unchanged}
	}
	c.cacheable = r.Cacheable && r.Unchanged == "" && c.method == http.MethodGet
	if c.write {
		c.body = slices.Clone(r.Body)
		if r.ContentType != "" {
			c.header["Content-Type"] = []string{r.ContentType}
		} else if len(c.body) > 0 {
			c.header["Content-Type"] = jsonOnly
		}
		if err := c.dedupe(r.DedupeHeader, string(r.OperationID)); err != nil {
			return err
		}
	}
	if !httpguts.ValidHeaderFieldValue(r.Unchanged) || !httpguts.ValidHeaderFieldValue(r.ContentType) {
		return connector.Fail(connector.CodeInternal, "a header of the request has a control character")
	}
	return nil
}

// Shared by all requests: net/http only reads header values.
var (
	jsonOnly  = []string{"application/json"}
	gzipOnly  = []string{"gzip"}
	userAgent = []string{"drawbridge"}
)

// dedupe sets the key that the provider recognises. Its name is left in lower
// case on purpose: net/http takes a request with Idempotency-Key or
// X-Idempotency-Key, in just that spelling, for one that it may send again.
func (c *call) dedupe(name, key string) error {
	if name == "" {
		return nil
	}
	name = strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(name) || reserved(name) || key == "" || !printable(key) || len(key) > 255 {
		return connector.Fail(connector.CodeInternal, "the header for repeated writes or its key is not valid")
	}
	c.header[name] = []string{key}
	return nil
}

// reserved headers are the transport's, net/http's or the credential's.
func reserved(name string) bool {
	switch name = strings.ToLower(name); name {
	case "accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length", "content-type", "cookie",
		"expect", "host", "if-none-match", "keep-alive", "range", "te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	return strings.HasPrefix(name, "proxy-")
}

// modest reports whether a header leaves alone what is between us and a proxy
// (Proxy-Authorization would go to the origin, RFC 9110 11.7.2) and Expect,
// whose interim answer can be mistaken for the next request's.
func modest(h http.Header) bool {
	for name := range h {
		if len(name) >= 6 && (strings.EqualFold(name[:6], "proxy-") || strings.EqualFold(name, "expect")) {
			return false
		}
	}
	return true
}

// run sends the request, follows a read's redirects and builds the response.
func (c *call) run(ctx context.Context) (connector.Response, error) {
	c.attempts = c.room[:0]
	c.http = http.Client{Transport: c, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.loop = retryablehttp.Client{
		HTTPClient: &c.http, RetryMax: math.MaxInt, CheckRetry: c.check, Backoff: c.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	for hops := 0; ; hops++ {
		if err := c.send(ctx); err != nil {
			return c.respond(), c.fail(ctx, err)
		}
		if c.write || !redirects(c.answer.status) {
			break
		}
		location := c.answer.header["Location"]
		if len(location) != 1 {
			break
		}
		next, err := c.ep.follow(c.url, location[0])
		if err != nil {
			return c.respond(), c.fail(ctx, err)
		}
		if next == nil {
			break
		}
		if hops == maxHops {
			return c.respond(), c.fail(ctx, contractFault("the provider redirects without end"))
		}
		c.url, c.wait = next, 0
	}
	if e := c.refused(); e != nil {
		return c.respond(), e
	}
	if c.answer.status < 500 && c.answer.status != http.StatusTooManyRequests {
		c.lane.earn()
	}
	return c.respond(), nil
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// send runs the attempt loop for one URL. The request that the loop and
// http.Client see has no header and no body, so there is nothing in it that
// they could log, keep or repeat.
func (c *call) send(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, c.method, "", nil)
	if err != nil {
		return err
	}
	req.URL, req.Host = c.url, ""
	resp, err := c.loop.Do(&retryablehttp.Request{Request: req})
	if resp != nil {
		resp.Body.Close()
	}
	return err
}

// RoundTrip is one attempt, from the gate to the last byte of the body.
func (c *call) RoundTrip(skeleton *http.Request) (*http.Response, error) {
	if err := c.ep.admit(skeleton.URL); err != nil {
		return nil, err
	}
	ctx := skeleton.Context()
	if err := c.cool(ctx); err != nil {
		return nil, err
	}
	c.answer = answer{}
	credential, err := c.t.credentials.Authorize(ctx, c.conn, c.rejected)
	if err != nil {
		return nil, &errCredential{err}
	}
	a := newAttempt(len(c.attempts)+1, c.wait)
	c.wait = 0
	sending := ctx
	if c.ep.profile.HTTP2 && !c.write {
		var cancel context.CancelFunc
		sending, cancel = context.WithCancel(ctx)
		defer cancel()
		a.limit(max(1, maxReads-1-c.failed), cancel)
	}
	wire := skeleton.WithContext(httptrace.WithClientTrace(sending, &a.trace))
	wire.Header = make(http.Header, len(c.header)+2)
	for name, values := range c.header {
		wire.Header[name] = values
	}
	if len(c.body) > 0 {
		wire.Body = io.NopCloser(bytes.NewReader(c.body))
		wire.ContentLength = int64(len(c.body))
	}
	if err := credential.Apply(wire); err != nil {
		return nil, &errCredential{err}
	}
	if !modest(wire.Header) {
		return nil, &errCredential{connector.Fail(connector.CodeInternal, "a credential sets a header of the connection or of a proxy")}
	}
	c.version = credential.Version()
	c.ask(wire)
	// A credential that changed more than headers must not move the request.
	wire.URL, wire.Host, wire.GetBody = skeleton.URL, "", nil

	var rt http.RoundTripper = c.ep.once
	if !c.write {
		rt = c.ep.pool.get()
	}
	resp, err := rt.RoundTrip(wire)
	var stop string
	if err == nil {
		c.answer = answer{status: resp.StatusCode, header: resp.Header, at: time.Now()}
		c.answer.limits()
		c.answer.body, err = readBody(resp, bodyRules{ok: c.ep.limits.BodyBytes, fail: c.ep.limits.ErrorBodyBytes, json: true})
		resp.Body = http.NoBody
		c.heed(ctx)
	} else if a.exceeded() && ctx.Err() == nil {
		err = errReplays
	}
	status := c.answer.status
	if err == nil {
		err = c.keep()
	}
	if err != nil {
		stop = describe(ctx, err)
	}
	rows := a.end(status, stop)
	c.failed += len(rows) - 1 // what the pool repeated is not to be had again
	c.attempts, c.fresh = append(c.attempts, rows...), true
	c.t.note(ctx, c.ep, c.conn.ID, c.method, c.attempts, err)
	c.t.attempted(ctx, c.ep, skeleton.URL, c.method, rows, err)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// describe is the short cause in an attempt's row.
func describe(ctx context.Context, err error) string {
	e := failure(ctx, err)
	if e.Message != "" {
		return e.Message
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return strings.ToLower(e.Code.String())
}
