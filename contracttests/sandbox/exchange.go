package sandbox

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var discardLog = log.New(io.Discard, "", 0)

// maxRequestBody is far above any legal ticket; more is 413.
const maxRequestBody = 1 << 20

// exchange is one request on its way through the server.
type exchange struct {
	r    *http.Request
	body []byte
	id   string
	on   Switches // behaviour in force for this request
	who  *grant   // the bearer's account, set by the api wrapper
}

// answer is what a handler decided. It is a value so that a rule can lose or
// damage it after the handler has committed.
type answer struct {
	status int
	header http.Header
	ctype  string // empty means application/json
	body   []byte
}

func (a *answer) set(key, value string) {
	if a.header == nil {
		a.header = make(http.Header, 4)
	}
	a.header.Set(key, value)
}

func jsonAnswer(status int, v any) answer {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return answer{status: http.StatusInternalServerError, body: []byte(`{"error":"internal"}`)}
	}
	return answer{status: status, body: b.Bytes()}
}

// problem is the error body of the ticket API.
type problem struct {
	Error   string       `json:"error"`
	Message string       `json:"message,omitempty"`
	Errors  []fieldError `json:"errors,omitempty"`
}

type fieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"` // required, too_long, invalid, unknown
	Message string `json:"message"`
}

func fail(status int, code, message string) answer {
	return jsonAnswer(status, problem{Error: code, Message: message})
}

// notFound is the one answer for absent and hidden things.
func notFound() answer {
	return answer{status: http.StatusNotFound, body: []byte(`{"error":"not_found","message":"no such object"}` + "\n")}
}

type handler func(*exchange) answer

// routes builds the whole server. prefix is the path of the base URL; requests
// may arrive with it or stripped of it.
func (s *Server) routes(prefix string) http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, h handler) { mux.Handle(pattern, s.serve(pattern, h)) }

	on("GET /.well-known/oauth-authorization-server", s.metadata)
	on("GET /.well-known/oauth-authorization-server/{rest...}", s.metadata)
	on("GET /oauth/authorize", s.authorize)
	on("GET /oauth/consent", s.consentPage)
	on("POST /oauth/login", s.login)
	on("POST /oauth/consent", s.consent)
	on("POST /oauth/token", s.token)
	on("POST /oauth/device_authorization", s.deviceAuthorization)
	on("GET /oauth/device", s.devicePage)
	on("POST /oauth/revoke", s.revoke)

	on("GET /api/v1/me", s.bearer("profile:read", s.me))
	on("GET /api/v1/projects", s.bearer("tickets:read", s.listProjects))
	on("GET /api/v1/tickets", s.bearer("tickets:read", s.listTickets))
	on("POST /api/v1/tickets", s.bearer("tickets:write", s.createTicket))
	on("GET /api/v1/tickets/{id}", s.bearer("tickets:read", s.getTicket))
	on("GET /api/v1/operations/{key}", s.bearer("tickets:read", s.findOperation))
	on("GET /api/v1/webhooks", s.bearer("webhooks:manage", s.listHooks))
	on("POST /api/v1/webhooks", s.bearer("webhooks:manage", s.createHook))
	on("DELETE /api/v1/webhooks/{id}", s.bearer("webhooks:manage", s.deleteHook))
	on("POST /api/v1/webhooks/{id}/rotate", s.bearer("webhooks:manage", s.rotateHook))
	on("POST /api/v1/webhooks/{id}/renew", s.bearer("webhooks:manage", s.renewHook))
	on("GET /api/v1/webhooks/{id}/failed", s.bearer("webhooks:manage", s.failedHooks))

	s.adminRoutes(on)
	on("GET /{$}", s.front)
	on("/", func(*exchange) answer { return notFound() })
	if prefix == "" {
		return mux
	}
	stripped := http.StripPrefix(prefix, mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, prefix+"/") {
			stripped.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serve is the path of every request: read, capture, rules, handler, rules, write.
func (s *Server) serve(pattern string, h handler) http.Handler {
	hits := s.capture.counter(pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.inflight.enter() {
			panic(http.ErrAbortHandler) // closed
		}
		defer s.inflight.leave()
		hits.Add(1)
		x := &exchange{r: r, id: "req_" + strconv.FormatUint(s.requests.Add(1), 36)}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			var err error
			if x.body, err = io.ReadAll(io.LimitReader(r.Body, maxRequestBody+1)); err != nil {
				return // the sender went away half way; nothing was processed
			}
		}
		slot := s.capture.add(x, pattern)
		var fired effects
		if p := s.rules.Load(); p != nil {
			fired = p.match(x, &x.on)
		}
		var a answer
		switch {
		case len(x.body) > maxRequestBody:
			a = fail(http.StatusRequestEntityTooLarge, "too_large", "request body over 1 MiB")
		case fired == nil:
			a = h(x)
		default:
			if fired.before(s, w, &a) {
				return
			}
			if a.status == 0 {
				a = h(x)
			}
			fired.after(s, &a)
		}
		// Captured before the first byte leaves: a test that has its answer
		// finds the request in the record.
		s.capture.done(slot, a.status, fired)
		if !fired.deliver(s, w, x, &a) {
			write(w, x, &a)
		}
	})
}

func write(w http.ResponseWriter, x *exchange, a *answer) {
	headers(w.Header(), x, a)
	w.WriteHeader(a.status)
	w.Write(a.body)
}

func headers(h http.Header, x *exchange, a *answer) {
	for k, v := range a.header {
		h[k] = v
	}
	if len(a.body) > 0 {
		if a.ctype == "" {
			h["Content-Type"] = []string{"application/json"}
		} else {
			h["Content-Type"] = []string{a.ctype}
		}
	}
	h["X-Request-Id"] = []string{x.id}
	if a.status != http.StatusNotModified && a.status != http.StatusNoContent && h["Content-Length"] == nil {
		h["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	}
}

// wait pauses for a fault; it ends early only when the server closes, so that
// work can outlive a client that hung up.
func (s *Server) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

func (s *Server) front(*exchange) answer {
	return answer{status: http.StatusOK, ctype: "text/html; charset=utf-8", body: page("Sandbox organisation",
		`<p>A ticket system for tests. Its authorization server is described <a href=".well-known/oauth-authorization-server">here</a>.</p>`)}
}
