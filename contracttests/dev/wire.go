package dev

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// An exchange is one request on the wire, without credentials.
type exchange struct {
	Method        string
	Target        string
	Header        []string
	Body          string
	Cut           bool // the body is longer
	Fault         string
	Provider      []int // what it answered
	Client        int   // what the connector was given; zero: nothing
	UnderWay      bool
	NotReached    bool // the provider could not be asked
	CredentialOut bool // a header with a credential is left out
}

// shownBody is how much of a body is shown.
const shownBody = 8 << 10

// credentialHeader says whether a header of that name carries a credential.
func (s *server) credentialHeader(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "Cookie":
		return true
	}
	return s.bench.CredentialHeader != "" && name == http.CanonicalHeaderKey(s.bench.CredentialHeader)
}

// exchanges are those from one place in the record to another.
func (s *server) exchanges(from, to int) (out []exchange) {
	seen := s.bench.Proxy.Seen()
	for i := from; i < min(to, len(seen)); i++ {
		e := seen[i]
		x := exchange{Method: e.Method, Target: e.Target, Body: string(e.Body), Provider: e.Upstream, Client: e.Status, UnderWay: !e.Done, NotReached: e.Err != nil}
		if e.Action != fault.Pass {
			x.Fault = e.Action.String()
		}
		if len(x.Body) > shownBody {
			x.Body, x.Cut = x.Body[:shownBody], true
		}
		for _, name := range slices.Sorted(maps.Keys(e.Header)) {
			if s.credentialHeader(name) {
				x.CredentialOut = true
				continue
			}
			x.Header = append(x.Header, fmt.Sprintf("%s: %s", name, strings.Join(e.Header[name], ", ")))
		}
		out = append(out, x)
	}
	return out
}

// secrets are the credentials that went over the wire.
func (s *server) secrets() (all []string) {
	for _, e := range s.bench.Proxy.Seen() {
		for name, values := range e.Header {
			if !s.credentialHeader(name) {
				continue
			}
			for _, v := range values {
				// Without the scheme: what a careless log line would have.
				if secret := v[strings.LastIndex(v, " ")+1:]; len(secret) >= 8 && !slices.Contains(all, secret) {
					all = append(all, secret)
				}
			}
		}
	}
	return all
}

// lastExchanges is how many the page of the wire shows.
const lastExchanges = 100

func (s *server) wire(w http.ResponseWriter, _ *http.Request) {
	n := len(s.bench.Proxy.Seen())
	all := s.exchanges(max(0, n-lastExchanges), n)
	slices.Reverse(all)
	s.render(w, http.StatusOK, "wire", page{Title: "The wire"}, all)
}

// lastLines is how much of the log is shown.
const lastLines = 200

func (s *server) log(w http.ResponseWriter, _ *http.Request) {
	lines := strings.Split(strings.TrimRight(s.bench.Log(), "\n"), "\n")
	s.render(w, http.StatusOK, "log", page{Title: "The log"}, strings.Join(lines[max(0, len(lines)-lastLines):], "\n"))
}
