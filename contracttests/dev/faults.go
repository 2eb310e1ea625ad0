package dev

import (
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// A trouble is one that can be put between the connector and its provider.
type trouble struct {
	ID, Title, Doc string
	rule           fault.Rule
}

var troubles = []trouble{
	{"lose", "The answer is lost", "The request arrives and has its effect. No answer comes back.", fault.Rule{Action: fault.LoseAnswer}},
	{"never", "The request is lost", "The connection breaks before the request arrives.", fault.Rule{Action: fault.CutBefore}},
	{"cut", "The answer is cut off after its headers", "The request has its effect.", fault.Rule{Action: fault.CutAfterHeaders}},
	{"half", "Half of the answer comes", "The request has its effect.", fault.Rule{Action: fault.HalfBody}},
	{"slow", "The answer takes five seconds", "The request has its effect.", fault.Rule{Action: fault.DelayAnswer, Delay: 5 * time.Second}},
	{"silent", "The answer takes a minute", "Longer than a call waits. The request has its effect.", fault.Rule{Action: fault.DelayAnswer, Delay: time.Minute}},
	{"429", "429, wait two minutes", "The request does not arrive.", answer(http.StatusTooManyRequests, `{"error":"slow down"}`, "Retry-After", "120")},
	{"503", "503", "The request does not arrive.", answer(http.StatusServiceUnavailable, `{"error":"down for maintenance"}`)},
	{"500", "500 after the effect", "The request arrives and has its effect; the answer says that it failed.",
		fault.Rule{Action: fault.Replace, Status: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"error":"internal"}`)}},
	{"401", "401", "The provider does not take the credential any more. The connection has to be made anew: start again.", answer(http.StatusUnauthorized, `{"error":"unauthorized"}`)},
	{"html", "A page for people instead of JSON", "As a provider's sign-in or maintenance page answers.", answer(http.StatusOK, "<!DOCTYPE html><title>Sign in</title>", "Content-Type", "text/html")},
	{"redirect", "A redirect to a private address", "To the address at which clouds keep credentials.",
		fault.Rule{Action: fault.Redirect, Status: http.StatusFound, Location: "http://169.254.169.254/latest/meta-data/"}},
	{"twice", "The request arrives twice", "As a proxy that tries again would do it.", fault.Rule{Action: fault.Duplicate}},
}

func answer(status int, body string, header ...string) fault.Rule {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return fault.Rule{Action: fault.Answer, Status: status, Header: h, Body: []byte(body)}
}

// armed is a trouble that is switched on.
type armed struct {
	Title, On string
	Left      int // fault.Forever: until it is switched off
}

// choice is one of several in a form.
type choice struct{ Value, Label string }

var (
	onWhat  = []choice{{"all", "every request"}, {"reads", "reads"}, {"writes", "writes"}}
	howLong = []choice{{"once", "the next one"}, {"forever", "all, until it is switched off"}}
)

type faultsView struct {
	Troubles        []trouble
	OnWhat, HowLong []choice
	Armed           []armed
}

func (s *server) faultsPage(w http.ResponseWriter, _ *http.Request) {
	s.render(w, http.StatusOK, "faults", page{Title: "Faults"}, faultsView{troubles, onWhat, howLong, s.armedNow()})
}

func (s *server) armedNow() (now []armed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.faults {
		now = append(now, *a)
	}
	return now
}

func (s *server) arm(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(troubles, func(t trouble) bool { return t.ID == r.PostForm.Get("fault") })
	on := slices.IndexFunc(onWhat, func(c choice) bool { return c.Value == r.PostForm.Get("on") })
	if i < 0 || on < 0 {
		s.refuse(w, http.StatusUnprocessableEntity, "Choose a fault", "Nothing was switched on.")
		return
	}
	a := &armed{Title: troubles[i].Title, On: onWhat[on].Label, Left: 1}
	if r.PostForm.Get("times") == "forever" {
		a.Left = fault.Forever
	}
	rule := troubles[i].rule
	rule.Times = a.Left
	rule.Match = func(q *http.Request) bool {
		reads := q.Method == http.MethodGet || q.Method == http.MethodHead
		if want := onWhat[on].Value; want == "reads" && !reads || want == "writes" && reads {
			return false
		}
		s.spend(a) // a rule that matches acts
		return true
	}
	s.mu.Lock()
	s.faults = append(s.faults, a)
	s.mu.Unlock()
	s.bench.Proxy.Next(rule)
	http.Redirect(w, r, "/faults", http.StatusSeeOther)
}

func (s *server) spend(a *armed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Left != fault.Forever {
		a.Left--
		s.faults = slices.DeleteFunc(s.faults, func(b *armed) bool { return b == a })
	}
}

func (s *server) disarm(w http.ResponseWriter, r *http.Request) {
	s.bench.Proxy.Clear()
	s.disarmed()
	http.Redirect(w, r, "/faults", http.StatusSeeOther)
}

func (s *server) disarmed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fresh forgets what faults left behind. Calls under way end first.
func (s *server) fresh(w http.ResponseWriter, r *http.Request) {
	s.runtime.Lock()
	err := s.bench.Fresh()
	s.runtime.Unlock()
	s.disarmed()
	if err != nil {
		s.fail(w, err)
		return
	}
	http.Redirect(w, r, "/faults", http.StatusSeeOther)
}
