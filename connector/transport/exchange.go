package transport

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// maxExchange bounds every answer of an authorization server.
const maxExchange = 256 << 10

// An Exchange is one request to an authorization server of a profile.
type Exchange struct {
	Method string      // empty: POST with a form, GET without
	URL    string      // absolute, on the profile's origin or one of its AuthOrigins
	Form   url.Values  // nil: no body
	Header http.Header // explicit, such as basic authentication; may be nil
}

// Exchange performs one request without any repetition: no retry, no redirect,
// no pooled connection, no credential that is not in r. Every complete answer
// is a Response, whatever its status and media type; a body over 256 KiB is
// TOO_LARGE and a cut one PROVIDER_CONTRACT. The Effect of an error is
// not_applied if nothing can have been received, else unknown: a token request
// may have rotated a pair that nobody has seen.
func (t *Transport) Exchange(ctx context.Context, profile string, r Exchange) (connector.Response, error) {
	ep, err := t.endpoint(profile)
	if err != nil {
		return connector.Response{}, refuse(err, true)
	}
	wire, err := ep.exchange(r)
	if err != nil {
		return connector.Response{}, refuse(err, true)
	}
	ctx, cancel := context.WithTimeout(ctx, ep.limits.Exchange)
	defer cancel()

	a := newAttempt(1, 0)
	resp, err := ep.once.RoundTrip(wire.WithContext(httptrace.WithClientTrace(ctx, &a.trace)))
	var got answer
	if err == nil {
		got = answer{status: resp.StatusCode, header: resp.Header, at: time.Now()}
		got.limits()
		got.body, err = readBody(resp, bodyRules{ok: maxExchange, fail: maxExchange})
	}
	var stop string
	if err != nil {
		stop = describe(ctx, err)
	}
	rows := a.end(got.status, stop)
	t.note(ctx, ep, "", wire.Method, rows, err)
	t.attempted(ctx, ep, wire.URL, wire.Method, rows, err)
	out := got.response(ep.profile.RequestIDHeader, rows)
	if err == nil {
		return out, nil
	}
	e := failure(ctx, err)
	e.Effect = connector.DispositionNotApplied
	if wrote(rows) {
		e.Effect = connector.DispositionUnknown
	}
	return out, e
}

func (e *endpoint) exchange(r Exchange) (*http.Request, error) {
	if r.Method == "" {
		r.Method = http.MethodGet
		if r.Form != nil {
			r.Method = http.MethodPost
		}
	}
	if r.Method != http.MethodPost && (r.Method != http.MethodGet || r.Form != nil) {
		return nil, connector.Fail(connector.CodeInternal, "an exchange is a POST, or a GET without a form")
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.User != nil || u.Opaque != "" || strings.Contains(r.URL, "#") || len(r.URL) > maxTarget || !printable(r.URL) {
		return nil, blocked("not a plain absolute URL")
	}
	if !slices.ContainsFunc(append([]origin{e.base}, e.auth...), func(o origin) bool {
		return o.scheme == u.Scheme && o.urlHost == u.Host
	}) {
		return nil, blocked("another origin than the profile's")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	if err := cleanPath(u.EscapedPath()); err != nil {
		return nil, &errBlocked{"the path: " + err.Error()}
	}
	wire := &http.Request{Method: r.Method, URL: u, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for name, values := range r.Header {
		if name = http.CanonicalHeaderKey(name); reserved(name) && name != "Authorization" ||
			!httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, connector.Fail(connector.CodeInternal, "a header of the exchange is not valid")
		}
		wire.Header[name] = slices.Clone(values)
	}
	wire.Header["Accept"], wire.Header["Accept-Encoding"], wire.Header["User-Agent"] = jsonOnly, gzipOnly, userAgent
	if r.Form != nil {
		form := r.Form.Encode()
		wire.Header["Content-Type"] = []string{"application/x-www-form-urlencoded"}
		// No GetBody: nobody below may send the form again.
		wire.Body, wire.ContentLength = io.NopCloser(strings.NewReader(form)), int64(len(form))
	}
	return wire, nil
}
