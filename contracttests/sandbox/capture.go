package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// captured is how many requests are remembered; older ones are overwritten.
const captured = 4096

// Request is what the server saw of one request. Secrets appear as digests only.
type Request struct {
	Seq           int64      `json:"seq"`
	At            time.Time  `json:"at"`
	ID            string     `json:"id"`
	Route         string     `json:"route"` // the pattern, for example "GET /api/v1/tickets/{id}"
	Method        string     `json:"method"`
	Path          string     `json:"path"`
	Query         string     `json:"query,omitempty"`
	Host          string     `json:"host"`
	Remote        string     `json:"remote"`
	HeaderNames   []string   `json:"header_names"`
	Authorization bool       `json:"authorization"`
	BearerSHA256  string     `json:"bearer_sha256,omitempty"`
	Key           string     `json:"idempotency_key,omitempty"`
	BodyBytes     int        `json:"body_bytes"`
	BodySHA256    string     `json:"body_sha256,omitempty"`
	Form          url.Values `json:"form,omitempty"`   // token and revocation endpoint; secret values replaced by their digest
	Status        int        `json:"status,omitempty"` // decided by the server; 0 while open or cut off
	Fired         []string   `json:"fired,omitempty"`  // kinds of effects that hit it
}

type capture struct {
	mu   sync.Mutex
	ring []Request
	seq  int64

	counters map[string]*atomic.Int64 // filled by routes, read-only afterwards
	patterns []string
}

func (c *capture) init() {
	c.counters = make(map[string]*atomic.Int64)
	c.ring = make([]Request, 0, 64)
}

func (c *capture) counter(pattern string) *atomic.Int64 {
	n := new(atomic.Int64)
	c.counters[pattern] = n
	c.patterns = append(c.patterns, pattern)
	return n
}

func (c *capture) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring, c.seq = c.ring[:0], 0
	for _, n := range c.counters {
		n.Store(0)
	}
}

// add records a request and returns its number. /admin is not recorded: it is
// the test's own voice.
func (c *capture) add(x *exchange, pattern string) int64 {
	r := x.r
	if strings.HasPrefix(r.URL.Path, "/admin/") {
		return 0
	}
	rec := Request{
		At: now(), ID: x.id, Route: pattern, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host,
		Remote: r.RemoteAddr, BodyBytes: len(x.body), Key: r.Header.Get("Idempotency-Key"),
		HeaderNames: make([]string, 0, len(r.Header)),
	}
	for name := range r.Header {
		rec.HeaderNames = append(rec.HeaderNames, name)
	}
	slices.Sort(rec.HeaderNames)
	if auth := r.Header.Get("Authorization"); auth != "" {
		rec.Authorization = true
		if scheme, token, ok := strings.Cut(auth, " "); ok && strings.EqualFold(scheme, "Bearer") {
			rec.BearerSHA256 = digest([]byte(token))
		}
	}
	if len(x.body) > 0 {
		rec.BodySHA256 = digest(x.body)
	}
	if r.URL.Path == "/oauth/token" || r.URL.Path == "/oauth/revoke" {
		rec.Form = redact(x.body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	rec.Seq = c.seq
	if len(c.ring) < captured {
		c.ring = append(c.ring, rec)
	} else {
		c.ring[(c.seq-1)%captured] = rec
	}
	return c.seq
}

func redact(body []byte) url.Values {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	for name, values := range form {
		switch name {
		case "grant_type", "redirect_uri", "scope", "resource", "client_id", "token_type_hint":
		default:
			for i, v := range values {
				values[i] = "sha256:" + digest([]byte(v))
			}
		}
	}
	return form
}

func (c *capture) done(seq int64, status int, fired effects) {
	if seq == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := int((seq - 1) % captured)
	if at >= len(c.ring) || c.ring[at].Seq != seq {
		return // overwritten or reset meanwhile
	}
	c.ring[at].Status = status
	for _, e := range fired {
		c.ring[at].Fired = append(c.ring[at].Fired, e.Kind)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Requests returns the last few thousand requests, oldest first, /admin not
// included.
func (s *Server) Requests() []Request {
	c := &s.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ring) < captured {
		return slices.Clone(c.ring)
	}
	split := int(c.seq % captured)
	return append(slices.Clone(c.ring[split:]), c.ring[:split]...)
}

// Hits is the number of requests to a route, named by its pattern as in
// "POST /api/v1/tickets". An unknown pattern has none.
func (s *Server) Hits(pattern string) int64 {
	if n := s.capture.counters[pattern]; n != nil {
		return n.Load()
	}
	return 0
}

// RouteHits returns the counters of all routes that were called.
func (s *Server) RouteHits() map[string]int64 {
	out := make(map[string]int64)
	for pattern, n := range s.capture.counters {
		if v := n.Load(); v > 0 {
			out[pattern] = v
		}
	}
	return out
}
