package senders

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// verified counts what signature.Verify said of requests that others have signed.
var verified struct{ accepted, refused atomic.Int64 }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fmt.Printf("figure: senders that others wrote: %d requests accepted, %d refused\n", verified.accepted.Load(), verified.refused.Load())
		os.Exit(code)
	}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// delivery is a request as it arrived.
type delivery struct {
	header http.Header
	body   []byte
}

// receiver keeps what is posted to it and answers 202.
type receiver struct {
	*httptest.Server
	arrived chan delivery
}

func listen(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{arrived: make(chan delivery, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.arrived <- delivery{q.Header.Clone(), body}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(r.Close)
	return r
}

func (d delivery) verify(t *testing.T, scheme string, secrets ...string) (signature.Verified, error) {
	t.Helper()
	return d.verifyAt(t, scheme, time.Now(), secrets...)
}

func (d delivery) verifyAt(t *testing.T, scheme string, at time.Time, secrets ...string) (signature.Verified, error) {
	t.Helper()
	s, ok := signature.Lookup(scheme)
	if !ok {
		t.Fatalf("no scheme %q", scheme)
	}
	var all []signature.Secret
	for _, text := range secrets {
		must(t, s.CheckSecret(text))
		all = append(all, signature.Secret{Text: text})
	}
	v, err := signature.Verify(s, all, d.header, d.body, at)
	if err != nil {
		verified.refused.Add(1)
	} else {
		verified.accepted.Add(1)
	}
	return v, err
}

// with has one header changed.
func (d delivery) with(name, value string) delivery {
	d.header = d.header.Clone()
	d.header.Set(name, value)
	return d
}

// refusesAltered turns every bit of a few bytes of the body, and one of each
// other length, and wants each to be refused.
func (d delivery) refusesAltered(t *testing.T, scheme string, secrets ...string) {
	t.Helper()
	at := []int{0, len(d.body) / 2, len(d.body) - 1}
	for _, i := range at {
		for bit := range 8 {
			if d.header.Get("Content-Type") != "application/json" && bit != 0 {
				continue // a form with another byte may be no form
			}
			other := d
			other.body = bytes.Clone(d.body)
			other.body[i] ^= 1 << bit
			if _, err := other.verify(t, scheme, secrets...); err == nil {
				t.Errorf("byte %d with bit %d turned was accepted", i, bit)
			}
		}
	}
	for name, body := range map[string][]byte{"shorter": d.body[:len(d.body)-1], "longer": slices.Concat(d.body, []byte(" ")), "none": nil} {
		other := d
		other.body = body
		if _, err := other.verify(t, scheme, secrets...); err == nil {
			t.Errorf("a body that is %s was accepted", name)
		}
	}
}
