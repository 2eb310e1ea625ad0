package bench

import (
	"context"
	"net/http"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// fixed hands out one token: this benchmark is about the transport alone.
type fixed struct{ token string }

func (f fixed) Authorize(context.Context, connector.Connection, int64) (transport.Credential, error) {
	return f, nil
}

func (f fixed) Apply(r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+f.token)
	return nil
}

func (fixed) Version() int64 { return 1 }

type anyPage struct {
	Items []map[string]any `json:"items"`
}

func transportPair(b *testing.B) (s *bench, address string, t *transport.Transport, request connector.Request) {
	s = setup(b)
	profile := transport.Loopback("sandbox", s.url)
	profile.Limits.Rate, profile.Limits.Burst = 1e6, 1e6
	t, err := transport.New(transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: fixed{s.token}})
	must(b, err)
	b.Cleanup(t.Close)
	request = connector.Request{Method: http.MethodGet, Path: "/api/v1/tickets", Query: map[string][]string{"state": {"all"}, "limit": {"20"}}}
	return s, s.url + request.Path + "?" + request.Query.Encode(), t, request
}

// BenchmarkTransport is one read through all layers and a strict decode,
// against http.Client and the same decode. Aim: at most 1.10 times.
func BenchmarkTransport(b *testing.B) {
	s, address, t, request := transportPair(b)
	conn := connector.Connection{ID: "con_1", Tenant: "acme", Principal: "bob", Provider: "sandbox", Profile: "sandbox", AuthzVersion: 1}
	floor := func() {
		resp, err := get(s.client, address, s.token)
		must(b, err)
		body, err := drain(resp)
		must(b, err)
		var page anyPage
		must(b, jsonv2.Unmarshal(body, &page))
		if len(page.Items) != 20 {
			b.Fatalf("%d items", len(page.Items))
		}
	}
	ours := func() {
		resp, err := t.Do(b.Context(), conn, connector.ClassRead, request)
		must(b, err)
		page, err := connector.DecodeJSON[anyPage](resp)
		must(b, err)
		if len(page.Items) != 20 {
			b.Fatalf("%d items", len(page.Items))
		}
	}
	pair(b, floor, ours)
}

// BenchmarkDial is a read on a new connection each time, with the guard on the
// socket's address and without.
func BenchmarkDial(b *testing.B) {
	s, address, _, request := transportPair(b)
	conn := connector.Connection{ID: "con_1", Tenant: "acme", Principal: "bob", Provider: "sandbox", Profile: "sandbox", AuthzVersion: 1}
	profile := transport.Loopback("sandbox", s.url)
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	floor := func() {
		resp, err := get(fresh, address, s.token)
		must(b, err)
		_, err = drain(resp)
		must(b, err)
	}
	ours := func() {
		t, err := transport.New(transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: fixed{s.token}})
		must(b, err)
		_, err = t.Do(b.Context(), conn, connector.ClassRead, request)
		must(b, err)
		t.Close()
	}
	pair(b, floor, ours)
}
