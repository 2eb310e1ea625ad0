package sandbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Published vectors: the first is the one of the Standard Webhooks libraries,
// the second is from the documentation of Svix.
func TestSignMatchesPublishedVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		secret, id string
		at         int64
		body, want string
	}{
		{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		{"whsec_plJ3nmyCDGBKInavdOK15jsl", "msg_loFOjxBNrRLzqYUf", 1731705121, `{"event_type":"ping","data":{"success":true}}`, "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="},
	} {
		if got, err := Sign(v.secret, v.id, v.at, []byte(v.body)); got != v.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", v.id, got, err, v.want)
		}
	}
	for _, bad := range []string{"", "whsec_", "whsec_!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		if _, err := Sign(bad, "m", 1, nil); err == nil {
			t.Errorf("signed with %q", bad)
		}
	}
}

// hook is what a receiver saw.
type hook struct {
	id, stamp, signature string
	body                 []byte
}

func (h hook) kind(t *testing.T) string {
	var e struct{ Type string }
	if err := json.Unmarshal(h.body, &e); err != nil {
		t.Fatal(err)
	}
	return e.Type
}

// verify is written apart from Sign: no format verbs, no helper shared with it.
func (h hook) verify(secret string) bool {
	key, err := base64.StdEncoding.DecodeString(secret[len("whsec_"):])
	if err != nil {
		return false
	}
	m := hmac.New(sha256.New, key)
	for _, part := range []string{h.id, ".", h.stamp, ".", string(h.body)} {
		io.WriteString(m, part)
	}
	for one := range strings.SplitSeq(h.signature, " ") {
		got, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(one, "v1,"))
		if err == nil && hmac.Equal(got, m.Sum(nil)) {
			return true
		}
	}
	return false
}

type receiver struct {
	*httptest.Server
	got chan hook

	mu    sync.Mutex
	codes []int // answered in turn, then 200
}

func receive(t *testing.T, codes ...int) *receiver {
	r := &receiver{got: make(chan hook, 100), codes: codes}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		code := 200
		if len(r.codes) > 0 {
			code, r.codes = r.codes[0], r.codes[1:]
		}
		r.mu.Unlock()
		w.WriteHeader(code)
		r.got <- hook{req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp"), req.Header.Get("Webhook-Signature"), body}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) next(t *testing.T) hook {
	t.Helper()
	select {
	case h := <-r.got:
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was delivered")
		return hook{}
	}
}

type subscribed struct {
	ID, URL, Secret string
	Events          []string
}

func (b *bench) subscribe(token, target string, events ...string) subscribed {
	b.t.Helper()
	var out subscribed
	r := b.call("POST", "/api/v1/webhooks", token, map[string]any{"url": target, "events": events})
	if r.Status != 201 {
		b.t.Fatalf("subscribe: %d %s", r.Status, r.Body)
	}
	r.into(b.t, &out)
	return out
}

// settle waits until no delivery is waiting.
func (b *bench) settle() []Delivery {
	for {
		list := b.Deliveries()
		if !slices.ContainsFunc(list, func(d Delivery) bool { return d.State == "waiting" }) {
			return list
		}
		time.Sleep(time.Millisecond)
	}
}

// Guarantee: TST2
func TestWebhookEventsAreSigned(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	r := receive(t)
	token := b.as("alice").Access
	sub := b.subscribe(token, r.URL)
	if !slices.Contains(b.Canaries(), sub.Secret) {
		t.Error("the secret is no canary")
	}
	if list := b.call("GET", "/api/v1/webhooks", token, nil); bytes.Contains(list.Body, []byte("whsec_")) || !bytes.Contains(list.Body, []byte(sub.ID)) {
		t.Errorf("list: %s", list.Body)
	}
	var made Ticket
	b.call("POST", "/api/v1/tickets", token, `{"project":"orders","title":"Signed"}`).into(t, &made)
	state, secret, ops := "closed", "secret", "ops"
	b.ChangeTicket(made.ID, Seed{State: &state})
	b.AddTicket(Seed{Project: &secret}) // alice may not know
	b.AddTicket(Seed{Project: &ops})    // another organisation
	b.DeleteTicket(made.ID)
	b.SetAccess("alice", "web", RoleNone)
	var kinds []string
	for range 4 {
		h := r.next(t)
		kinds = append(kinds, h.kind(t))
		if !h.verify(sub.Secret) || h.verify(newHookSecret()) {
			t.Errorf("signature of %s does not decide", h.kind(t))
		}
		if len(kinds) < 4 && !bytes.Contains(h.body, []byte(made.ID)) {
			t.Errorf("%s without the ticket: %s", h.kind(t), h.body)
		}
	}
	if diff := cmp.Diff([]string{"ticket.created", "ticket.updated", "ticket.deleted", "project.access_changed"}, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := len(b.settle()); n != 4 {
		t.Errorf("%d deliveries, want 4: nothing about what alice may not see", n)
	}

	var rotated subscribed
	b.call("POST", "/api/v1/webhooks/"+sub.ID+"/rotate", token, nil).into(t, &rotated)
	orders := "orders"
	b.AddTicket(Seed{Project: &orders})
	if h := r.next(t); rotated.Secret == sub.Secret || !h.verify(sub.Secret) || !h.verify(rotated.Secret) {
		t.Error("after a rotation both secrets must verify")
	}
	if got := b.call("DELETE", "/api/v1/webhooks/"+sub.ID, b.as("bob").Access, nil); got.Status != 404 {
		t.Errorf("bob deletes alice's webhook: %d", got.Status)
	}
	if got := b.call("DELETE", "/api/v1/webhooks/"+sub.ID, token, nil); got.Status != 204 {
		t.Errorf("delete: %d", got.Status)
	}
	b.AddTicket(Seed{Project: &orders})
	if n := len(b.Deliveries()); n != 5 {
		t.Errorf("%d deliveries after the subscription ended, want 5", n)
	}
}

// Guarantee: TST3
func TestDeliveriesRetryDuplicateReorderAndGetLost(t *testing.T) { // T41
	t.Parallel()
	b := start(t, Config{})
	r := receive(t, 500, 302)
	sub := b.subscribe(b.as("alice").Access, r.URL)
	orders := "orders"
	add := func() { // one event
		if _, err := b.AddTicket(Seed{Project: &orders}); err != nil {
			t.Fatal(err)
		}
	}
	b.behave(Behaviour{Webhooks: WebhookFaults{RetryMS: 1}})
	add()
	first, second, third := r.next(t), r.next(t), r.next(t)
	if first.id != second.id || second.id != third.id || !bytes.Equal(first.body, third.body) {
		t.Error("a retry is another delivery")
	}
	if d := b.settle(); d[0].State != "delivered" || len(d[0].Attempts) != 3 || d[0].Attempts[1].Status != 302 {
		t.Errorf("log = %+v", d)
	}

	r.mu.Lock()
	r.codes = []int{500, 500}
	r.mu.Unlock()
	b.behave(Behaviour{Webhooks: WebhookFaults{RetryMS: 1, Tries: 2}})
	add()
	lost := r.next(t)
	r.next(t)
	if d := b.settle(); d[1].State != "failed" || d[1].ID != lost.id {
		t.Errorf("log = %+v", d[1])
	}
	if n := b.Redeliver(lost.id); n != 1 || r.next(t).id != lost.id {
		t.Errorf("redelivery of %d under another id", n)
	}

	b.behave(Behaviour{Webhooks: WebhookFaults{Duplicate: 1, Drop: []int{2}}})
	add()
	add()
	add()
	a1, a2, c1, c2 := r.next(t), r.next(t), r.next(t), r.next(t)
	if a1.id != a2.id || c1.id != c2.id || a1.id == c1.id {
		t.Error("each event twice, the second event never: got something else")
	}
	d := b.settle()
	if dropped := d[len(d)-2]; dropped.State != "dropped" || b.Redeliver(dropped.ID) != 1 || r.next(t).id != dropped.ID {
		t.Errorf("dropped event: %+v", dropped)
	}

	b.behave(Behaviour{Webhooks: WebhookFaults{Reorder: true, ReorderMS: 300}})
	add()
	add()
	d = b.Deliveries()
	if x, y := r.next(t), r.next(t); x.id != d[len(d)-1].ID || y.id != d[len(d)-2].ID {
		t.Error("the second event did not overtake the first")
	}

	b.behave(Behaviour{Webhooks: WebhookFaults{BadSign: true}})
	add()
	if r.next(t).verify(sub.Secret) {
		t.Error("a bad signature verifies")
	}
	b.behave(Behaviour{Webhooks: WebhookFaults{Tamper: true}})
	add()
	if r.next(t).verify(sub.Secret) {
		t.Error("a changed body verifies")
	}
	b.behave(Behaviour{Webhooks: WebhookFaults{SkewSeconds: -3600}})
	add()
	h := r.next(t)
	if at := b.settle(); !h.verify(sub.Secret) || h.stamp != jsonInt(at[len(at)-1].Attempts[0].At.Unix()-3600) {
		t.Errorf("skewed timestamp %s", h.stamp)
	}
}

func jsonInt(n int64) string { text, _ := json.Marshal(n); return string(text) }

func TestWebhookTargetsAreLoopback(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	for _, target := range []string{"http://192.0.2.1/", "http://10.0.0.1/", "https://example.com/", "file:///etc/passwd", "http://user@127.0.0.1/", "http://[::ffff:10.0.0.1]/", "//127.0.0.1/", ""} {
		if r := b.call("POST", "/api/v1/webhooks", token, map[string]any{"url": target}); r.Status != 422 {
			t.Errorf("%q: %d", target, r.Status)
		}
	}
	if r := b.call("POST", "/api/v1/webhooks", token, map[string]any{"url": "http://127.0.0.1/", "events": []string{"all"}}); r.Status != 422 {
		t.Errorf("unknown event: %d", r.Status)
	}
	wide := start(t, Config{WebhookNetworks: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}})
	for target, want := range map[string]bool{"http://172.17.0.1:80/": true, "http://host.docker.internal/": true, "http://10.0.0.1/": false, "http://[::1]/": true} {
		if got := wide.hooks.targetAllowed(target); got != want {
			t.Errorf("%s with a network: %v", target, got)
		}
	}
}

// Close does not wait for a receiver that hangs.
func TestCloseCutsHangingDelivery(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	arrived, release := make(chan struct{}), make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-release
	}))
	defer hang.Close()
	defer close(release)
	b.subscribe(b.as("alice").Access, hang.URL)
	orders := "orders"
	b.AddTicket(Seed{Project: &orders})
	<-arrived
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
