package sandbox

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Delivery is one event on its way to one subscription. Its id is the
// webhook-id, the same in every attempt, duplicate and redelivery.
type Delivery struct {
	ID           string    `json:"id"`
	Subscription string    `json:"subscription"`
	Type         string    `json:"type"`
	Organisation string    `json:"organisation"`
	TicketID     string    `json:"ticket_id,omitempty"`
	At           time.Time `json:"at"`
	State        string    `json:"state"` // "waiting", "delivered", "failed", "dropped"
	Attempts     []Attempt `json:"attempts"`
}

// Attempt is one HTTP request of a delivery.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // 0: no answer
}

type delivery struct {
	Delivery
	sub    *subscription
	body   []byte
	due    time.Time
	tries  int // left
	failed int // when it was given up, as a number; zero: it was not
	pause  time.Duration
}

// deliveriesKept bounds the log; older ones are forgotten.
const deliveriesKept = 10000

// Sign computes a Standard Webhooks v1 signature: base64 of HMAC-SHA256 over
// "id.timestamp.body", keyed by the decoded part of the secret behind whsec_.
func Sign(secret, id string, timestamp int64, body []byte) (string, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 || !strings.HasPrefix(secret, "whsec_") {
		return "", errors.New("sandbox: not a whsec_ secret")
	}
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%d.", id, timestamp)
	m.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)), nil
}

func newHookSecret() string {
	var key [32]byte
	rand.Read(key[:])
	return "whsec_" + base64.StdEncoding.EncodeToString(key[:])
}

// ticket queues an event about a ticket. The caller holds world.mu.
func (h *hooks) ticket(kind string, t *stored) {
	var body any = json.RawMessage(t.json)
	if kind == "ticket.deleted" {
		body = map[string]any{"id": t.ID, "project": t.Project, "version": t.Version + 1, "deleted_at": now()}
	}
	h.event(kind, projects[t.project].Organisation, t.ID, map[string]any{"ticket": body}, func(u *User) bool {
		return h.s.world.role(u.Login, t.Project.ID) != RoleNone
	})
}

// access queues project.access_changed. The caller holds world.mu.
func (h *hooks) access(who *User, p Project, role Role) {
	data := map[string]any{"project": ProjectRef{p.ID, p.Name}, "account": Person{who.Subject, who.Login, who.Name}, "role": role}
	h.event("project.access_changed", p.Organisation, "", data, func(u *User) bool {
		return u == who || h.s.world.role(u.Login, p.ID) != RoleNone
	})
}

func (h *hooks) event(kind, org, ticket string, data map[string]any, mayKnow func(*User) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expire()
	if len(h.subs) == 0 {
		return
	}
	data["organisation"] = org
	at := now()
	body, err := json.Marshal(map[string]any{"type": kind, "timestamp": at, "data": data})
	if err != nil {
		return
	}
	h.events++
	n, f := h.events, &h.faults
	for _, sub := range h.subs {
		if sub.owner.Organisation != org || !slices.Contains(sub.Events, kind) || !mayKnow(sub.owner) {
			continue
		}
		d := &delivery{sub: sub, body: body, due: time.Now(), Delivery: Delivery{
			ID: randomToken("msg_"), Subscription: sub.ID, Type: kind, Organisation: org, TicketID: ticket, At: at, State: "waiting"}}
		h.log = append(h.log, d)
		if len(h.log) > deliveriesKept {
			h.log = h.log[1:]
		}
		if f.DropAll || slices.Contains(f.Drop, n) {
			d.State = "dropped"
			continue
		}
		if f.Reorder && n%2 == 1 {
			d.due = d.due.Add(orMS(f.ReorderMS, 100))
		}
		for range 1 + f.Duplicate {
			h.enqueue(d)
		}
	}
}

func orMS(ms, zero int) time.Duration {
	if ms <= 0 {
		ms = zero
	}
	return time.Duration(ms) * time.Millisecond
}

// enqueue puts a delivery into its subscription's queue. The caller holds mu.
func (h *hooks) enqueue(d *delivery) {
	if d.tries = h.faults.Tries; d.tries <= 0 {
		d.tries = 4
	}
	d.pause = orMS(h.faults.RetryMS, 100)
	d.sub.queue = append(d.sub.queue, d)
	select {
	case d.sub.wake <- struct{}{}:
	default:
	}
}

// run delivers for one subscription, the earliest due first; a failing delivery
// does not hold up the others.
func (h *hooks) run(sub *subscription) {
	defer h.active.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for sub.ctx.Err() == nil {
		h.mu.Lock()
		next := -1
		for i, d := range sub.queue {
			if next < 0 || d.due.Before(sub.queue[next].due) {
				next = i
			}
		}
		var d *delivery
		pause := time.Hour
		if next >= 0 {
			if pause = time.Until(sub.queue[next].due); pause <= 0 {
				d = sub.queue[next]
				sub.queue = slices.Delete(sub.queue, next, next+1)
			}
		}
		h.mu.Unlock()
		if d != nil {
			h.attempt(d)
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-sub.wake:
		case <-sub.ctx.Done():
			return
		}
	}
}

func (h *hooks) attempt(d *delivery) {
	h.mu.Lock()
	f, secrets := h.faults, slices.Clone(d.sub.secrets)
	h.mu.Unlock()
	at := time.Now()
	stamp := at.Unix() + int64(f.SkewSeconds)
	if f.BadSign {
		secrets = []string{newHookSecret()}
	}
	var signatures []string
	for _, secret := range secrets {
		if sig, err := Sign(secret, d.ID, stamp, d.body); err == nil {
			signatures = append(signatures, sig)
		}
	}
	body := d.body
	if f.Tamper {
		body = bytes.Clone(body)
		body[len(body)-2] ^= 1
	}
	ctx, cancel := context.WithTimeout(d.sub.ctx, orMS(f.TimeoutMS, 5000))
	defer cancel()
	status := 0
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.sub.URL, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("User-Agent", "sandbox-organisation/1")
		req.Header.Set("Webhook-Id", d.ID)
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(stamp, 10))
		req.Header.Set("Webhook-Signature", strings.Join(signatures, " "))
		if res, err := h.client.Do(req); err == nil {
			io.CopyN(io.Discard, res.Body, 64<<10)
			res.Body.Close()
			status = res.StatusCode
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d.Attempts = append(d.Attempts, Attempt{At: at.UTC(), Status: status})
	switch d.tries--; {
	case status >= 200 && status < 300:
		d.State = "delivered"
	case d.tries <= 0 || status == http.StatusGone:
		if d.State != "delivered" { // a duplicate may have got through
			d.State = "failed"
			h.failed++
			d.failed = h.failed
		}
	default:
		d.due = time.Now().Add(d.pause)
		d.pause *= 2
		d.sub.queue = append(d.sub.queue, d)
	}
}

// newClient never leaves loopback and the configured networks, whatever a name
// resolves to, and follows nothing.
func (h *hooks) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !h.addressAllowed(ap.Addr()) {
			return errors.New("sandbox: webhook target outside loopback")
		}
		return nil
	}}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Deliveries returns the log, oldest first.
func (s *Server) Deliveries() []Delivery {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	out := make([]Delivery, len(s.hooks.log))
	for i, d := range s.hooks.log {
		out[i] = d.Delivery
		out[i].Attempts = slices.Clone(d.Attempts)
	}
	return out
}

// Redeliver sends a delivery again under its id, dropped ones too. An empty id
// means all. It returns how many were queued.
func (s *Server) Redeliver(id string) int {
	h := &s.hooks
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, d := range h.log {
		if (id == "" || d.ID == id) && slices.Contains(h.subs, d.sub) {
			d.due = time.Now()
			h.enqueue(d)
			n++
		}
	}
	return n
}
