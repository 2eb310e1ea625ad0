package webhooks

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// W01, W02, W20, G1: the very bytes are verified and stored, before the answer.
//
// Guarantee: HOO2
func TestDeliveryIsStoredAsItCame(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		for i, body := range []string{`{"a":"\u001B"}`, `{"t":"🎉"}`, "{\"t\":\"\xff\"}", "{\r\n \"a\" : 1.0 }\n", ""} {
			h.post(http.StatusAccepted, h.github.Path, github("d"+string(rune('0'+i)), body), body)
			r := h.records()[0]
			_, got, err := h.s.Inbox().Body(t.Context(), "acme", r.ID)
			must(t, err)
			if string(got) != body {
				t.Errorf("stored %q, want %q", got, body)
			}
			want := inbox.Record{ID: r.ID, Tenant: "acme", Endpoint: h.github.Endpoint.ID, DeliveryID: "d" + string(rune('0'+i)), SHA256: r.SHA256,
				Provider: "sandbox", Connection: "c1", EventType: "issues", Secret: h.github.Endpoint.Secrets[0].ID, ReceivedAt: r.ReceivedAt,
				State: inbox.StateReceived, BodyKept: true}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		}
	})
}

// W12, W14, W15, W19: repeats and conflicts, and what the sender hears.
//
// Guarantee: HOO2
func TestAnswersToRepeats(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, b := `"orders/1"`, `"orders/2"`
		h.post(http.StatusAccepted, h.github.Path, github("d1", a), a)
		h.post(http.StatusOK, h.github.Path, github("d1", a), a)
		h.post(http.StatusAccepted, h.github.Path, github("d1", b), b)
		h.post(http.StatusOK, h.github.Path, github("d1", b), b)
		other := h.add("github", githubSecret)
		h.post(http.StatusAccepted, other.Path, github("d1", a), a)
		s := h.stats()
		if diff := cmp.Diff(map[string]int64{"stored": 2, "duplicate": 2, "conflict": 1}, s.Received); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
		if s.Duplicates != 2 || s.Conflicts != 1 || s.Waiting != 3 {
			t.Errorf("stats %+v", s.Stats)
		}
	})
}

// The order of the receiver, and an answer that tells nothing. Nothing that is
// refused is stored.
//
// W04, W06, W07, W10, W25.
// Guarantee: HOO7
func TestRefusals(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{MaxBody: 1 << 10})
	body := `"orders/1"`
	disabled := h.add("github", githubSecret)
	must(t, h.s.Disable(t.Context(), "acme", disabled.Endpoint.ID))
	sw := h.add("standard", "")
	std := func(at time.Time) http.Header { return standard(sw.Secret, "msg_1", body, at) }
	with := func(change func(http.Header)) http.Header {
		header := github("d1", body)
		change(header)
		return header
	}
	large := strings.Repeat("x", 1<<10+1)
	cases := []struct {
		name   string
		status int
		reason string
		path   string
		header http.Header
		body   string
	}{
		{"unknown address", 404, "unknown_endpoint", PathPrefix + "nobody", github("d1", body), body},
		{"no address", 404, "unknown_endpoint", PathPrefix, github("d1", body), body},
		{"longer address", 404, "unknown_endpoint", h.github.Path + "/x", github("d1", body), body},
		{"very long address", 404, "unknown_endpoint", PathPrefix + strings.Repeat("a", 5000), github("d1", body), body},
		{"disabled", 404, "unknown_endpoint", disabled.Path, github("d1", body), body},
		{"large", 413, "too_large", h.github.Path, github("d1", large), large},
		{"large and forged", 413, "too_large", h.github.Path, github("d1", body), large},
		{"two signatures", 400, "ambiguous_header", h.github.Path, with(func(h http.Header) { h.Add("X-Hub-Signature-256", h.Get("X-Hub-Signature-256")) }), body},
		{"two ids", 400, "ambiguous_header", h.github.Path, with(func(h http.Header) { h.Add("X-Github-Delivery", "d2") }), body},
		{"two content types", 400, "ambiguous_header", h.github.Path, with(func(h http.Header) { h.Add("Content-Type", "text/plain") }), body},
		{"no id", 400, "missing_header", h.github.Path, with(func(h http.Header) { h.Del("X-Github-Delivery") }), body},
		{"no signature", 400, "missing_header", h.github.Path, with(func(h http.Header) { h.Del("X-Hub-Signature-256") }), body},
		{"odd id", 400, "malformed_header", h.github.Path, github("d 1", body), body},
		{"text", 415, "wrong_content_type", h.github.Path, with(func(h http.Header) { h.Set("Content-Type", "text/plain") }), body},
		{"packed", 415, "content_encoding", h.github.Path, with(func(h http.Header) { h.Set("Content-Encoding", "gzip") }), body},
		{"forged", 401, "wrong_signature", h.github.Path, github("d1", "other"), body},
		{"no hex", 401, "malformed_signature", h.github.Path, with(func(h http.Header) { h.Set("X-Hub-Signature-256", "sha256=zz") }), body},
		{"empty signature", 401, "malformed_signature", h.github.Path, with(func(h http.Header) { h.Set("X-Hub-Signature-256", "sha256=") }), body},
		{"signed with the empty secret", 401, "wrong_signature", h.github.Path, with(func(h http.Header) { h.Set("X-Hub-Signature-256", "sha256="+hexMAC("", body)) }), body},
		{"SHA-1 only", 400, "missing_header", h.github.Path, with(func(h http.Header) {
			h.Del("X-Hub-Signature-256")
			h.Set("X-Hub-Signature", "sha1=0000000000000000000000000000000000000000")
		}), body},
		{"another endpoint's secret", 401, "wrong_signature", sw.Path, standard("whsec_"+strings.Repeat("QUFB", 8), "msg_1", body, time.Now()), body},
		{"too old", 401, "too_old", sw.Path, std(time.Now().Add(-10 * time.Minute)), body},
		{"too new", 401, "too_new", sw.Path, std(time.Now().Add(10 * 365 * 24 * time.Hour)), body},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := h.stats().Received[c.reason]
			header := h.post(c.status, c.path, c.header, c.body)
			if got := h.stats().Received[c.reason]; got != before+1 {
				t.Errorf("%q was counted %d times, want once; all: %v", c.reason, got-before, h.stats().Received)
			}
			for _, name := range []string{"Www-Authenticate", "Retry-After", "Location", "Server"} {
				if v := header.Get(name); v != "" {
					t.Errorf("the answer has %s: %s", name, v)
				}
			}
		})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS"} {
		req, err := http.NewRequestWithContext(t.Context(), method, h.url+h.github.Path, nil)
		must(t, err)
		resp, err := h.client.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
	if n := len(h.records()); n != 0 {
		t.Errorf("%d refused deliveries are stored", n)
	}
	h.post(http.StatusAccepted, sw.Path, std(time.Now()), body)
}

// W23, E-enumeration: an address that never was and one that is no more can't
// be told apart.
func TestUnknownAndDisabledAnswerAlike(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	must(t, h.s.Disable(t.Context(), "acme", h.github.Endpoint.ID))
	body := `"orders/1"`
	disabled := h.post(http.StatusNotFound, h.github.Path, github("d1", body), body)
	unknown := h.post(http.StatusNotFound, PathPrefix+strings.Repeat("x", 43), github("d1", body), body)
	for _, header := range []http.Header{disabled, unknown} {
		header.Del("Date")
	}
	if diff := cmp.Diff(unknown, disabled); diff != "" {
		t.Errorf("headers (-unknown +disabled):\n%s", diff)
	}
}

// W21: what is our fault is a 5xx that asks to come again, and the next try
// finds its place.
//
// Guarantee: HOO2
func TestStoreFailureIsUnavailable(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		rename := func(from, to string) {
			must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to)
				return err
			}))
		}
		body := `"orders/1"`
		for _, table := range []string{"webhook_delivery", "webhook_secret"} {
			rename(table, "away")
			h.s.receiver.known.forget()
			header := h.post(http.StatusServiceUnavailable, h.github.Path, github("d1", body), body)
			if header.Get("Retry-After") != "30" {
				t.Errorf("Retry-After %q, want 30", header.Get("Retry-After"))
			}
			rename("away", table)
		}
		h.post(http.StatusAccepted, h.github.Path, github("d1", body), body)
		if s := h.stats(); s.Received["store"] != 2 || s.Waiting != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// W22: applying does not happen inside the request; the answer comes although
// every apply hangs.
//
// Guarantee: HOO3
func TestWorkIsBehindTheAnswer(t *testing.T) {
	hang := make(chan struct{})
	applying := make(chan struct{}, 100)
	h := open(t, storetest.SQLite(t), Config{Apply: func(ctx context.Context, _ inbox.Lease) error {
		applying <- struct{}{}
		select {
		case <-hang:
		case <-ctx.Done():
		}
		return ctx.Err()
	}})
	h.run()
	body := `"orders/1"`
	h.post(http.StatusAccepted, h.github.Path, github("d1", body), body)
	<-applying
	for _, id := range []string{"d2", "d3"} {
		h.post(http.StatusAccepted, h.github.Path, github(id, body), body)
	}
}

// W23, W28, W30, HOO6: events of a connection that is gone, of a resource
// outside its scope, or of a kind that nobody knows are accepted, come to
// nothing, and are counted.
//
// Guarantee: HOO6
func TestEventsOutOfScopeComeToNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.run()
		gone, err := h.s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "gone", Scheme: "github", Secret: githubSecret})
		must(t, err)
		strange, err := h.s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "strange", Connection: "c1", Scheme: "github", Secret: githubSecret})
		must(t, err)
		for i, c := range []struct{ path, body string }{
			{gone.Path, `"orders/1"`}, {strange.Path, `"orders/1"`}, {h.github.Path, `"secret/1"`}, {h.github.Path, `"ignore all rules, create"`},
		} {
			h.post(http.StatusAccepted, c.path, github("d"+string(rune('0'+i)), c.body), c.body)
		}
		h.until("all are decoded", func(s Stats) bool { return s.Waiting == 0 })
		s := h.stats()
		if diff := cmp.Diff(map[string]int{"unknown_connection": 1, "unknown_provider": 1, "out_of_scope": 1}, s.Ignored); diff != "" {
			t.Errorf("ignored (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"no_object": 1}, s.Quarantined); diff != "" {
			t.Errorf("quarantined (-want +got):\n%s", diff)
		}
		if s.Dirty != 0 {
			t.Errorf("%d lanes are dirty, want none", s.Dirty)
		}
	})
}

// A connection that can't be asked about is no reason to give an event up.
func TestDecodingWaitsForTheConnection(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	d := inbox.Delivery{Tenant: "acme", Provider: "sandbox", Connection: "c1", Body: []byte("orders/1")}
	h.s.connection = func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error) {
		return connector.Connection{}, connector.Fail(connector.CodeUnavailable, "")
	}
	_, err := h.s.decode(d)
	var ignored *inbox.Ignored
	if err == nil || errors.As(err, &ignored) || connector.CodeOf(err) != connector.CodeUnavailable {
		t.Errorf("err = %v, want that it is tried later", err)
	}
	h.s.connection = func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error) {
		return connector.Connection{ID: "c1", Tenant: "globex", Provider: "sandbox"}, nil
	}
	if _, err := h.s.decode(d); !errors.As(err, &ignored) || ignored.Reason != "other_connection" {
		t.Errorf("err = %v, want that another tenant's connection is none", err)
	}
}

// W13, T40: whoever saw a delivery can repeat it under other ids, where ids are not
// signed; each is kept, and asks for no look of its own.
func TestUnsignedIDsCauseNoFlood(t *testing.T) {
	applied := make(chan int64, 100)
	var h *house
	h = open(t, storetest.SQLite(t), Config{Apply: func(ctx context.Context, l inbox.Lease) error {
		applied <- l.Dirty
		return h.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error { return h.s.Inbox().Complete(ctx, tx, l) })
	}})
	h.run()
	body := `"orders/1"`
	h.post(http.StatusAccepted, h.github.Path, github("d1", body), body)
	<-applied
	h.until("the lane is clean", func(s Stats) bool { return s.Dirty == 0 && s.Waiting == 0 })
	for i := range 20 {
		h.post(http.StatusAccepted, h.github.Path, github("again"+string(rune('a'+i)), body), body)
	}
	h.until("all are decoded", func(s Stats) bool { return s.Waiting == 0 })
	if n := len(applied); n != 0 {
		t.Errorf("applied %d times more within the minute", n)
	}
	// A signed id is the sender's word: the same body is another event.
	sw := h.add("standard", "")
	for _, id := range []string{"m1", "m2"} {
		other := `"orders/9"`
		h.post(http.StatusAccepted, sw.Path, standard(sw.Secret, id, other, time.Now()), other)
		<-applied
	}
}

// HOO7: more than we can take is shed, and what was accepted is kept.
//
// Guarantee: HOO7
func TestFloodIsShed(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		h.s.maxBacklog = 5
		var kept int
		for i := range 50 {
			body := `"orders/1"`
			h.s.receiver.backlog.mu.Lock()
			h.s.receiver.backlog.looked = time.Time{} // as if a second had passed
			h.s.receiver.backlog.mu.Unlock()
			want := http.StatusAccepted
			if i >= 5 {
				want = http.StatusServiceUnavailable
			}
			header := h.post(want, h.github.Path, github("d"+string(rune('0'+i)), body), body)
			if i < 5 {
				kept++
			} else if header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			if i == 9 {
				break
			}
		}
		if s := h.stats(); s.Waiting != kept || s.Received["backlog"] != 5 {
			t.Errorf("stats %+v, want %d waiting", s, kept)
		}
		h.run()
		h.until("the backlog is gone", func(s Stats) bool { return s.Waiting == 0 })
		h.s.receiver.backlog.mu.Lock()
		h.s.receiver.backlog.looked = time.Time{}
		h.s.receiver.backlog.mu.Unlock()
		body := `"orders/2"`
		h.post(http.StatusAccepted, h.github.Path, github("after", body), body)
	})
}

// New checks what it is given.
func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{}, {MaxBody: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
