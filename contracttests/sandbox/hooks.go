package sandbox

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
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
	LifeSeconds int   `json:"life_seconds,omitempty"`  // of subscriptions made or renewed from now on; zero: no end
}

var eventTypes = []string{"ticket.created", "ticket.updated", "ticket.deleted", "project.access_changed"}

// subscription is one webhook of one account.
type subscription struct {
	ID      string    `json:"id"`
	URL     string    `json:"url"`
	Events  []string  `json:"events"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`

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
	failed int // deliveries given up, ever
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
	s.hooks.expire()
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
	sub.Expires = s.hooks.end()
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
	return s.onHook(x, func(sub *subscription) answer {
		sub.secrets = []string{newHookSecret(), sub.secrets[0]}
		s.secrets.add(sub.secrets[0])
		return jsonAnswer(http.StatusOK, sub.withSecret())
	})
}

// onHook runs f with the subscription that the path names, if it is the account's.
func (s *Server) onHook(x *exchange, f func(*subscription) answer) answer {
	h := &s.hooks
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expire()
	for _, sub := range h.subs {
		if sub.ID == x.r.PathValue("id") && sub.owner == x.who.user {
			return f(sub)
		}
	}
	return notFound()
}

// renewHook lets a subscription live as long again as one that is made now.
func (s *Server) renewHook(x *exchange) answer {
	return s.onHook(x, func(sub *subscription) answer {
		sub.Expires = s.hooks.end()
		return jsonAnswer(http.StatusOK, sub)
	})
}

// end is when a subscription of this moment expires. The caller holds mu.
func (h *hooks) end() time.Time {
	if h.faults.LifeSeconds <= 0 {
		return time.Time{}
	}
	return now().Add(time.Duration(h.faults.LifeSeconds) * time.Second)
}

// expire ends subscriptions whose time is over. The caller holds mu.
func (h *hooks) expire() {
	h.subs = slices.DeleteFunc(h.subs, func(sub *subscription) bool {
		over := !sub.Expires.IsZero() && !sub.Expires.After(now())
		if over {
			sub.cut()
		}
		return over
	})
}

// AgeWebhooks makes all subscriptions older than they are.
func (s *Server) AgeWebhooks(by time.Duration) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	for _, sub := range s.hooks.subs {
		sub.Created = sub.Created.Add(-by)
		if !sub.Expires.IsZero() {
			sub.Expires = sub.Expires.Add(-by)
		}
	}
}

// failedPage is how many failed deliveries an answer has at most.
const failedPage = 50

// failedDelivery is one that was given up.
type failedDelivery struct {
	Seq     int    `json:"seq"`
	ID      string `json:"id"`
	Type    string `json:"type"`
	Payload string `json:"payload"` // the body as it was sent, which is no proof of who sent it
}

// failedHooks lists the deliveries of a subscription that were given up and have
// not arrived since, in the order in which they were, after a number.
func (s *Server) failedHooks(x *exchange) answer {
	after, _ := strconv.Atoi(x.r.URL.Query().Get("after"))
	return s.onHook(x, func(sub *subscription) answer {
		items := []failedDelivery{}
		for _, d := range s.hooks.log {
			if d.sub == sub && d.State == "failed" && d.failed > after {
				items = append(items, failedDelivery{d.failed, d.ID, d.Type, string(d.body)})
			}
		}
		slices.SortFunc(items, func(a, b failedDelivery) int { return a.Seq - b.Seq })
		more := len(items) > failedPage
		return jsonAnswer(http.StatusOK, map[string]any{"items": items[:min(len(items), failedPage)], "more": more})
	})
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
