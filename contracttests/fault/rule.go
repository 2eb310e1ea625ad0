package fault

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An Action is what happens to one exchange between a client and the upstream.
type Action int

const (
	// Pass forwards the request and hands back the answer. As a rule it lets the next
	// matching exchange through before a later rule takes its turn.
	Pass Action = iota

	// CutBefore closes the client's connection without forwarding: the upstream never
	// sees the request.
	CutBefore

	// LoseAnswer forwards the request, reads the upstream's whole answer and then closes
	// the client's connection without a byte: the effect happened, the proof is lost.
	LoseAnswer

	// CutAfterHeaders forwards, sends the answer's status line and headers with their
	// true Content-Length, and closes before the body.
	CutAfterHeaders

	// HalfBody forwards, sends status line, headers with their true Content-Length and the
	// first half of the body (rounded down), and closes.
	HalfBody

	// DelayRequest holds the request before forwarding it. It is forwarded even if the
	// client has gone by then: the effect that comes after the caller gave up.
	DelayRequest

	// DelayAnswer forwards at once and holds the answer.
	DelayAnswer

	// Duplicate forwards the request twice, one after the other, and hands back the first
	// answer.
	Duplicate

	// Replace forwards and hands back a changed answer: Status if not zero, Header on top
	// of the upstream's, Body if not nil.
	Replace

	// Answer hands back Status (200 if zero), Header and Body without forwarding.
	Answer

	// Redirect hands back Status (307 if zero) with Location and without forwarding.
	Redirect
)

var actionNames = [...]string{
	"pass", "cut before", "lose answer", "cut after headers", "half body",
	"delay request", "delay answer", "duplicate", "replace", "answer", "redirect",
}

// String returns the action in words, for test output.
func (a Action) String() string {
	if a < 0 || int(a) >= len(actionNames) {
		return "action " + strconv.Itoa(int(a))
	}
	return actionNames[a]
}

// Forever as a rule's Times keeps it until [Proxy.Clear].
const Forever = -1

// A Rule applies one action to the exchanges that it matches. The zero Rule lets the next
// exchange pass, whatever it is.
type Rule struct {
	// Method and Path choose the requests: an exact method and a prefix of the decoded
	// URL path. Empty means any.
	Method, Path string

	// Match, if not nil, must also agree. The request's body has been read already and
	// must not be read again; everything else may be looked at, nothing changed.
	Match func(*http.Request) bool

	// Skip lets that many matching exchanges go on to the rules behind before this one
	// begins to act.
	Skip int

	// Times is how many exchanges the rule acts on before it is spent. Zero is one.
	Times int

	Action Action

	// Reset cuts with a TCP reset instead of an orderly close. The client then reads
	// "connection reset" where it would have read an end of file.
	Reset bool

	// Delay and Release end the hold of DelayRequest and DelayAnswer, whichever comes
	// first. A nil Release with a zero Delay holds nothing. A test that must not depend on
	// the clock gives Release only.
	Delay   time.Duration
	Release <-chan struct{}

	// Status, Header, Body and Location are the made-up parts of Replace, Answer and
	// Redirect. A Content-Length in Header is sent as it stands, true or not.
	Status   int
	Header   http.Header
	Body     []byte
	Location string
}

func (r *Rule) matches(req *http.Request) bool {
	if r.Method != "" && r.Method != req.Method {
		return false
	}
	if !strings.HasPrefix(req.URL.Path, r.Path) {
		return false
	}
	return r.Match == nil || r.Match(req)
}

// take finds the rule for a request and counts it down. The zero Rule, which passes,
// answers when none matches.
func (p *Proxy) take(req *http.Request) Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.rules {
		r := &p.rules[i]
		if !r.matches(req) {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		taken := *r
		if r.Times != Forever {
			r.Times--
			if r.Times == 0 {
				p.rules = append(p.rules[:i], p.rules[i+1:]...)
			}
		}
		return taken
	}
	return Rule{}
}
