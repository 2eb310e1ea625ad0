package sandbox

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"
)

// WebhookFaults says how deliveries go wrong. The zero value delivers each event
// once, in order.
type WebhookFaults struct {
	Duplicate   int   `json:"duplicate,omitempty"`     // extra deliveries of each event, with the same id
	Drop        []int `json:"drop,omitempty"`          // events not delivered, counted from 1 since the behaviour was set
	DropAll     bool  `json:"drop_all,omitempty"`      //
	Reorder     bool  `json:"reorder,omitempty"`       // every odd event waits ReorderMS, so the next overtakes it
	ReorderMS   int   `json:"reorder_ms,omitempty"`    // zero: 100
	Tries       int   `json:"tries,omitempty"`         // attempts per delivery; zero: 4
	RetryMS     int   `json:"retry_ms,omitempty"`      // first pause, doubled each time; zero: 100
	TimeoutMS   int   `json:"timeout_ms,omitempty"`    // per attempt; zero: 5000
	SkewSeconds int   `json:"skew_seconds,omitempty"`  // added to the signed timestamp
	BadSign     bool  `json:"bad_signature,omitempty"` // signed with another secret
	Tamper      bool  `json:"tamper,omitempty"`        // one byte of the body changes after signing
}

var eventTypes = []string{"ticket.created", "ticket.updated", "ticket.deleted", "project.access_changed"}

// subscription is one webhook of one account.
type subscription struct {
	ID      string    `json:"id"`
	URL     string    `json:"url"`
	Events  []string  `json:"events"`
	Created time.Time `json:"created_at"`

	owner   *User
	secrets []string // newest first; all of them sign, so a receiver can rotate
	queue   []*delivery
	wake    chan struct{}
	ctx     context.Context // ends with the subscription or the server
	cut     context.CancelFunc
}

type hooks struct {
	s *Server

	mu     sync.Mutex
	subs   []*subscription
	log    []*delivery
	faults WebhookFaults
	events int // since the faults were set
	client *http.Client
	active sync.WaitGroup
}

func (h *hooks) init(s *Server) {
	h.s = s
	h.client = h.newClient()
}

func (h *hooks) setFaults(f WebhookFaults) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults, h.events = f, 0
}

func (h *hooks) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range h.subs {
		sub.cut()
	}
	h.subs, h.log, h.faults, h.events = nil, nil, WebhookFaults{}, 0
}

func (h *hooks) wait() {
	h.active.Wait()
	h.client.CloseIdleConnections()
}

func (s *Server) listHooks(x *exchange) answer {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	items := []*subscription{}
	for _, sub := range s.hooks.subs {
		if sub.owner == x.who.user {
			items = append(items, sub)
		}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"items": items})
}

func (s *Server) createHook(x *exchange) answer {
	var in struct {
		URL    string   `json:"url"`
		Events []string `json:"events"`
	}
	if err := json.Unmarshal(x.body, &in); err != nil {
		return fail(http.StatusBadRequest, "invalid_json", "the body can't be read")
	}
	var faults []fieldError
	if !s.hooks.targetAllowed(in.URL) {
		faults = append(faults, fieldError{"url", "invalid", "http or https to a loopback address"})
	}
	if len(in.Events) == 0 {
		in.Events = eventTypes
	}
	for _, e := range in.Events {
		if !slices.Contains(eventTypes, e) {
			faults = append(faults, fieldError{"events", "invalid", "no such event"})
		}
	}
	if faults != nil {
		return jsonAnswer(http.StatusUnprocessableEntity, problem{Error: "invalid", Errors: faults})
	}
	sub := &subscription{ID: randomToken("hook_"), URL: in.URL, Events: slices.Clone(in.Events), Created: now(),
		owner: x.who.user, secrets: []string{newHookSecret()}, wake: make(chan struct{}, 1)}
	sub.ctx, sub.cut = context.WithCancel(s.ctx)
	s.secrets.add(sub.secrets[0])
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.subs = append(s.hooks.subs, sub)
	s.hooks.active.Add(1)
	go s.hooks.run(sub)
	return jsonAnswer(http.StatusCreated, sub.withSecret())
}

// withSecret is the only form that shows the secret: the answers that made it.
func (sub *subscription) withSecret() any {
	return struct {
		*subscription
		Secret string `json:"secret"`
	}{sub, sub.secrets[0]}
}

func (s *Server) deleteHook(x *exchange) answer {
	h := &s.hooks
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, sub := range h.subs {
		if sub.ID == x.r.PathValue("id") && sub.owner == x.who.user {
			sub.cut()
			h.subs = slices.Delete(h.subs, i, i+1)
			return answer{status: http.StatusNoContent}
		}
	}
	return notFound()
}

// rotateHook adds a secret. Deliveries carry a signature by the new one and the
// one before, until the next rotation.
func (s *Server) rotateHook(x *exchange) answer {
	h := &s.hooks
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sub := range h.subs {
		if sub.ID == x.r.PathValue("id") && sub.owner == x.who.user {
			sub.secrets = []string{newHookSecret(), sub.secrets[0]}
			s.secrets.add(sub.secrets[0])
			return jsonAnswer(http.StatusOK, sub.withSecret())
		}
	}
	return notFound()
}

// targetAllowed takes loopback literals and localhost, and the networks of the
// configuration. The dialer checks again what the name resolves to.
func (h *hooks) targetAllowed(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return len(h.s.cfg.WebhookNetworks) > 0 // a name: decided at the dial
	}
	return h.addressAllowed(ip)
}

func (h *hooks) addressAllowed(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsLoopback() || slices.ContainsFunc(h.s.cfg.WebhookNetworks, func(p netip.Prefix) bool { return p.Contains(ip) })
}
