package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Behaviour is how the sandbox misbehaves. The zero value is a well-behaved
// server. It is JSON at /admin/behaviour and a value in [Server.SetBehaviour].
type Behaviour struct {
	// Rules are tried in order for every request outside /admin; all that match fire.
	Rules []Rule `json:"rules,omitempty"`
	// Switches hold for every request.
	Switches Switches `json:"switches,omitzero"`
	// Webhooks is how deliveries go wrong.
	Webhooks WebhookFaults `json:"webhooks,omitzero"`
	// RateLimit allows that many API requests per account and window; more are
	// 429. Zero means no limit.
	RateLimit int `json:"rate_limit,omitempty"`
	// RateWindowMS is the length of that window. Zero means a minute.
	RateWindowMS int `json:"rate_window_ms,omitempty"`
}

// Rule pairs a match with what happens then.
type Rule struct {
	Match  Match  `json:"match"`
	Effect Effect `json:"effect"`
}

// Match selects requests. Empty fields match everything.
type Match struct {
	Method string `json:"method,omitempty"`
	// Path is a prefix of the request path, without the base URL's own path.
	Path string `json:"path,omitempty"`
	// Exact makes Path the whole path: the list but not its members.
	Exact bool `json:"exact,omitempty"`
	// Grant is the grant_type of a token request.
	Grant string `json:"grant,omitempty"`
	// Nth lists which of the matching requests are hit, counted from 1.
	Nth []int `json:"nth,omitempty"`
	// Probability hits each matching request with this chance, drawn from Seed.
	// Zero means always.
	Probability float64 `json:"probability,omitempty"`
	Seed        int64   `json:"seed,omitempty"`
	// Times ends the rule after so many hits. Zero means never.
	Times int `json:"times,omitempty"`
}

// Effect is one fault. README.md has the table of kinds.
type Effect struct {
	Kind string `json:"kind"`
	// When is "before" or "after" the handler. Kinds that replace the answer
	// (status, html, redirect, empty, gzip_bomb, oversized, delay) default to
	// before: nothing is processed. With after, the work is done and its answer lost.
	When        string            `json:"when,omitempty"`
	Variant     string            `json:"variant,omitempty"`
	Status      int               `json:"status,omitempty"`
	RetryAfter  string            `json:"retry_after,omitempty"` // sent as it is, however odd
	Location    string            `json:"location,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Body        string            `json:"body,omitempty"`
	Header      map[string]string `json:"header,omitempty"`
	DelayMS     int               `json:"delay_ms,omitempty"`
	Bytes       int64             `json:"bytes,omitempty"`
	Switches    Switches          `json:"switches,omitzero"` // kind "switch"
}

// Switches change what handlers do. In a rule of kind "switch" they hold for
// the requests it hits, added to those that hold for all.
type Switches struct {
	NoIdempotency     bool     `json:"no_idempotency,omitempty"`      // the key is accepted and ignored
	NoOperationLookup bool     `json:"no_operation_lookup,omitempty"` // the route answers 404
	IndexLagMS        int      `json:"index_lag_ms,omitempty"`        // q and external_ref do not see younger tickets
	DropFields        []string `json:"drop_fields,omitempty"`         // labels, evidence, severity, external_ref: lost at create without a word
	NoNextCursor      bool     `json:"no_next_cursor,omitempty"`      // a page says that it is the last
	ConstantCursor    string   `json:"constant_cursor,omitempty"`     // every page gives this cursor; as an input it means the first page

	GraceMS          int                 `json:"grace_ms,omitempty"`        // a spent refresh token still works for that long
	ExpiresIn        json.RawMessage     `json:"expires_in,omitempty"`      // this JSON value instead of the number
	OmitExpiresIn    bool                `json:"omit_expires_in,omitempty"` //
	OmitRefreshToken bool                `json:"omit_refresh_token,omitempty"`
	OmitScope        bool                `json:"omit_scope,omitempty"`
	DenyScopes       map[string][]string `json:"deny_scopes,omitempty"`        // login or "*": never granted, the rest is
	Iss              string              `json:"iss,omitempty"`                // "omit", or another value, in the authorization answer
	IssNotAdvertised bool                `json:"iss_not_advertised,omitempty"` // in the metadata
	NoSlowDown       bool                `json:"no_slow_down,omitempty"`       // devices may ask as often as they like
}

func (s *Switches) merge(o Switches) {
	s.NoIdempotency = s.NoIdempotency || o.NoIdempotency
	s.NoOperationLookup = s.NoOperationLookup || o.NoOperationLookup
	s.IndexLagMS = max(s.IndexLagMS, o.IndexLagMS)
	s.DropFields = append(slices.Clip(s.DropFields), o.DropFields...)
	s.NoNextCursor = s.NoNextCursor || o.NoNextCursor
	s.GraceMS = max(s.GraceMS, o.GraceMS)
	s.OmitExpiresIn = s.OmitExpiresIn || o.OmitExpiresIn
	s.OmitRefreshToken = s.OmitRefreshToken || o.OmitRefreshToken
	s.OmitScope = s.OmitScope || o.OmitScope
	s.IssNotAdvertised = s.IssNotAdvertised || o.IssNotAdvertised
	s.NoSlowDown = s.NoSlowDown || o.NoSlowDown
	if o.ConstantCursor != "" {
		s.ConstantCursor = o.ConstantCursor
	}
	if o.ExpiresIn != nil {
		s.ExpiresIn = o.ExpiresIn
	}
	if o.DenyScopes != nil {
		s.DenyScopes = o.DenyScopes
	}
	if o.Iss != "" {
		s.Iss = o.Iss
	}
}

// program is a Behaviour with its counters.
type program struct {
	behaviour Behaviour

	mu    sync.Mutex
	rules []ruleState
}

type ruleState struct {
	Rule
	matched, fired int
	rand           *rand.Rand
}

// SetBehaviour replaces the behaviour; counters of rules start again. It
// reports the first rule that can't be understood, and then changes nothing.
func (s *Server) SetBehaviour(b Behaviour) error {
	p, err := compile(b)
	if err != nil {
		return err
	}
	s.rules.Store(p)
	s.hooks.setFaults(b.Webhooks)
	s.limits.set(b.RateLimit, time.Duration(b.RateWindowMS)*time.Millisecond)
	return nil
}

func compile(b Behaviour) (*program, error) {
	p := &program{behaviour: b}
	for i, r := range b.Rules {
		if !slices.Contains(kinds, r.Effect.Kind) {
			return nil, fmt.Errorf("sandbox: rule %d: unknown effect kind %q", i, r.Effect.Kind)
		}
		if w := r.Effect.When; w != "" && w != "before" && w != "after" {
			return nil, fmt.Errorf("sandbox: rule %d: when must be before or after", i)
		}
		if len(r.Match.Nth) > 0 && r.Match.Probability > 0 {
			return nil, fmt.Errorf("sandbox: rule %d: nth and probability exclude each other", i)
		}
		st := ruleState{Rule: r}
		if r.Match.Probability > 0 {
			st.rand = rand.New(rand.NewPCG(uint64(r.Match.Seed), uint64(i)))
		}
		p.rules = append(p.rules, st)
	}
	if raw := b.Switches.ExpiresIn; raw != nil && !json.Valid(raw) {
		return nil, errors.New("sandbox: expires_in is not JSON")
	}
	return p, nil
}

// AddRule puts one more rule behind the others, whose counters go on. It is for
// one test at a time: two calls at once may lose a rule.
func (s *Server) AddRule(r Rule) error {
	old := s.rules.Load()
	b := s.Behaviour()
	b.Rules = append(b.Rules, r)
	p, err := compile(b)
	if err != nil {
		return err
	}
	if old != nil {
		old.mu.Lock()
		copy(p.rules, old.rules)
		old.mu.Unlock()
	}
	s.rules.Store(p)
	return nil
}

// Behaviour returns what was set last.
func (s *Server) Behaviour() Behaviour {
	if p := s.rules.Load(); p != nil {
		b := p.behaviour
		b.Rules = slices.Clone(b.Rules)
		return b
	}
	return Behaviour{}
}

// Fired is how often each rule hit, in the order of the rules.
func (s *Server) Fired() []int {
	p := s.rules.Load()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]int, len(p.rules))
	for i := range p.rules {
		out[i] = p.rules[i].fired
	}
	return out
}

// match finds the effects for a request and fills the switches in force.
func (p *program) match(x *exchange, on *Switches) effects {
	*on = p.behaviour.Switches
	if len(p.rules) == 0 || strings.HasPrefix(x.r.URL.Path, "/admin/") {
		return nil
	}
	var out effects
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rules {
		r := &p.rules[i]
		if !r.selects(x) {
			continue
		}
		r.matched++
		switch {
		case r.Match.Times > 0 && r.fired >= r.Match.Times:
			continue
		case len(r.Match.Nth) > 0 && !slices.Contains(r.Match.Nth, r.matched):
			continue
		case r.rand != nil && r.rand.Float64() >= r.Match.Probability:
			continue
		}
		r.fired++
		if r.Effect.Kind == "switch" {
			on.merge(r.Effect.Switches)
		}
		out = append(out, &r.Effect)
	}
	return out
}

func (r *ruleState) selects(x *exchange) bool {
	m := &r.Match
	if m.Method != "" && !strings.EqualFold(m.Method, x.r.Method) {
		return false
	}
	if m.Exact && m.Path != x.r.URL.Path || !strings.HasPrefix(x.r.URL.Path, m.Path) {
		return false
	}
	if m.Grant != "" {
		form, _ := url.ParseQuery(string(x.body))
		return form.Get("grant_type") == m.Grant
	}
	return true
}
