package edge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A Verifier finds out whose token it is. It fails with ErrToken for one that is not
// good here, whatever the reason; any other error means that it could not find out.
type Verifier interface {
	Verify(ctx context.Context, token string) (Identity, error)
}

// ErrToken is a token that is not good here.
var ErrToken = errors.New("the token is not good here")

// Config says who gets in. The zero value lets nobody in.
type Config struct {
	// Resource is the address that clients and tokens name us by (RFC 8707):
	// https://HOST/PATH, or http on a loopback address. Required.
	Resource string
	Verifier Verifier // required
	// Issuers are the authorization servers that clients are sent to. Empty: clients
	// have their tokens from elsewhere, and are told of none.
	Issuers []string

	// Hosts are further names in the Host header, for proxies that change it.
	Hosts []string
	// Origins are web pages that may call us, as browsers write them. Empty: none,
	// but for our own.
	Origins []string

	// Effect says what a tool may do, if this caller may see it at all. Nil: tokens
	// need no scopes.
	Effect func(ctx context.Context, caller connector.Caller, tool string) (connector.Effect, bool)
	// ReadScope and WriteScope are what a token needs for tools that read and tools
	// that write; a write needs both. Empty: "mcp:read" and "mcp:write".
	ReadScope, WriteScope string

	MaxBody int64 // bytes; zero: 4 MiB
	Limits  Limits
	Logger  *slog.Logger // nil discards
}

// Limits are requests a second, each with as many at once. Zero: the defaults in
// brackets.
type Limits struct {
	Principal float64 // [20]
	Tenant    float64 // [200]
	Tool      float64 // one principal's calls of one tool [10]
}

// Edge is the door. It is safe for concurrent use.
type Edge struct {
	Config
	resource *url.URL
	hosts    []string
	origins  *http.CrossOriginProtection
	rates    *rates
}

// New checks the configuration.
func New(c Config) (*Edge, error) {
	u, err := url.Parse(c.Resource)
	if err != nil || u.Host == "" || u.Fragment != "" || u.RawQuery != "" || u.User != nil ||
		u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, errors.New("edge: the resource must be https://HOST/PATH, or http on a loopback address")
	}
	if c.Verifier == nil {
		return nil, errors.New("edge: nobody could get in: there is no verifier")
	}
	if c.MaxBody < 0 || c.Limits.Principal < 0 || c.Limits.Tenant < 0 || c.Limits.Tool < 0 {
		return nil, errors.New("edge: a limit is negative")
	}
	fill(&c.MaxBody, 4<<20)
	fill(&c.Limits.Principal, 20)
	fill(&c.Limits.Tenant, 200)
	fill(&c.Limits.Tool, 10)
	fill(&c.ReadScope, "mcp:read")
	fill(&c.WriteScope, "mcp:write")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Edge{Config: c, resource: u, rates: newRates(c.Limits), origins: http.NewCrossOriginProtection()}
	for _, o := range append([]string{u.Scheme + "://" + u.Host}, c.Origins...) {
		if err := e.origins.AddTrustedOrigin(o); err != nil {
			return nil, errors.New("edge: an origin must be SCHEME://HOST, as browsers write it")
		}
	}
	for _, h := range append([]string{u.Host}, c.Hosts...) {
		e.hosts = append(e.hosts, plainHost(h, u.Scheme))
	}
	return e, nil
}

func fill[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// plainHost is a Host header without the scheme's own port, in lower case.
func plainHost(host, scheme string) string {
	if name, port, err := net.SplitHostPort(host); err == nil && port == map[string]string{"https": "443", "http": "80"}[scheme] {
		host = name
	}
	return strings.ToLower(host)
}

// Wrap puts the door in front of a handler.
func (e *Edge) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// A name that somebody else's DNS points at us (rebinding).
		if !slices.Contains(e.hosts, plainHost(r.Host, e.resource.Scheme)) {
			refuse(w, http.StatusForbidden, "this server has another name")
			return
		}
		// A page of a foreign site, also for methods that change nothing: a stream of
		// ours is nobody's to read.
		if o := r.Header.Get("Origin"); o != "" && !e.ownOrigin(o) || e.origins.Check(r) != nil {
			refuse(w, http.StatusForbidden, "requests from this origin are not allowed")
			return
		}
		m, ok := e.message(w, r)
		if !ok {
			return
		}
		id, ok := e.authenticate(w, r)
		if !ok {
			return
		}
		// From here on there is no token to be passed on, logged or kept.
		r.Header.Del("Authorization")
		if wait := e.rates.take(id.Caller, m.tool); wait > 0 {
			w.Header().Set("Retry-After", seconds(wait))
			refuse(w, http.StatusTooManyRequests, "too many requests")
			return
		}
		ctx := WithIdentity(r.Context(), id)
		if !e.scoped(ctx, w, id, m) {
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (e *Edge) ownOrigin(origin string) bool {
	return strings.EqualFold(origin, e.resource.Scheme+"://"+e.resource.Host) || slices.Contains(e.Origins, origin)
}

// refuse answers with plain words. They are ours, so there is nothing to leak.
func refuse(w http.ResponseWriter, status int, text string) { http.Error(w, text, status) }

// scoped challenges a token that lacks scopes of the tool it calls (RFC 6750 section
// 3.1), naming all of them: a client that asks for the missing one alone would lose
// the others. A tool that the caller may not see is not told from one that isn't there.
// What resources and prompts show is read, as by a tool.
func (e *Edge) scoped(ctx context.Context, w http.ResponseWriter, id Identity, m message) bool {
	if e.Effect == nil {
		return true
	}
	needed := []string{e.ReadScope}
	switch m.method {
	case "resources/read", "resources/subscribe", "subscriptions/listen", "prompts/get":
	case "tools/call":
		effect, visible := e.Effect(ctx, id.Caller, m.tool)
		if !visible {
			return true // what stands behind answers as for any name that isn't there
		}
		if effect != connector.EffectRead {
			needed = append(needed, e.WriteScope)
		}
	default:
		return true
	}
	for _, s := range needed {
		if !slices.Contains(id.Scopes, s) {
			e.challenge(w, http.StatusForbidden, "insufficient_scope", strings.Join(needed, " "))
			return false
		}
	}
	return true
}

// read takes the whole body, within the cap.
func (e *Edge) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, "the request is too large")
		return nil, false
	case err != nil:
		refuse(w, http.StatusBadRequest, "the request broke off")
		return nil, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, true
}

// seconds is a Retry-After, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
