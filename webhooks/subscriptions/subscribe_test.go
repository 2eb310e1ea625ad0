package subscriptions

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func standard(secret, id string) http.Header {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	now := time.Now().Unix()
	m := hmac.New(sha256.New, raw)
	fmt.Fprintf(m, "%s.%d.{}", id, now)
	return http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Webhook-Timestamp": {fmt.Sprint(now)},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))}}
}

func gitea(secret, id string) http.Header {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("{}"))
	return http.Header{"Content-Type": {"application/json"}, "X-Gitea-Delivery": {id}, "X-Gitea-Event": {"issues"},
		"X-Gitea-Signature": {hex.EncodeToString(m.Sum(nil))}}
}

// Where the provider makes the key, the endpoint takes nothing until it is there.
// Guarantee: TIX5, HOO1
func TestTheirKeyComesWithTheAnswer(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		asked := h.subscribe(connector.CodeApprovalRequired)
		if again := h.subscribe(connector.CodeApprovalRequired); again.Endpoint != asked.Endpoint || again.State != Asked {
			t.Errorf("asked again: %+v", again)
		}
		if h.p.sent != 0 {
			t.Error("sent before it was approved")
		}
		h.p.approve()
		v := h.subscribe(0)
		if v.Endpoint != asked.Endpoint || v.State != Active || v.Hook != "1" || len(v.Troubles) != 0 || h.p.sent != 1 {
			t.Errorf("made: %+v, %d sent", v, h.p.sent)
		}
		h.post(202, standard(key, "m1"))
		h.post(401, standard("whsec_dGVzdC1zZWNyZXQtb2Ytc29tZWJvZHktZWxzZQ==", "m2"))
		// Repeated, and from the start, nothing more is sent.
		if again := h.subscribe(0); again.Endpoint != v.Endpoint || h.p.sent != 1 {
			t.Errorf("again: %+v, %d sent", again, h.p.sent)
		}
		endpoints, err := h.s.c.Webhooks.Endpoints(t.Context(), "acme")
		must(t, err)
		if len(endpoints) != 1 {
			t.Errorf("%d endpoints", len(endpoints))
		}
	})
}

// A delivery that is quicker than the answer is asked for again, not lost.
func TestDeliveryBeforeTheKey(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.subscribe(connector.CodeApprovalRequired)
		h.p.approve()
		h.p.lost = true
		h.subscribe(connector.CodeOutcomeUnknown)
		h.post(503, standard(key, "m1"))
	})
}

func TestOurKeyIsInTheDraft(t *testing.T) {
	each(t, Ways{Scheme: "gitea", PerProject: true}, func(t *testing.T, h *house) {
		h.req.Project = "ana/a"
		h.subscribe(connector.CodeApprovalRequired)
		v, err := h.s.one(t.Context(), "acme", h.only().Endpoint)
		must(t, err)
		text, err := ring().Open(v.draft, draftContext(v.Endpoint))
		must(t, err)
		var d Draft
		must(t, json.Unmarshal(text, &d))
		h.p.approve()
		h.subscribe(0)
		h.post(202, gitea(d.SigningKey, "1"))
		if d.Project != "ana/a" || d.SigningKey == "" {
			t.Errorf("the draft's project is %q", d.Project)
		}
		// It is not kept, and the address only as a hash.
		if v, err = h.s.one(t.Context(), "acme", v.Endpoint); err != nil || v.draft != nil {
			t.Errorf("the draft is still there: %v", err)
		}
	})
}

// A lost answer is found again by its address. With our key that is all; without
// the provider's, a person replaces it.
// Guarantee: TIX5
func TestLostAnswer(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.subscribe(connector.CodeApprovalRequired)
		h.p.approve()
		h.p.lost = true
		h.subscribe(connector.CodeOutcomeUnknown)
		h.p.lost = false
		old := h.subscribe(0)
		if diff := cmp.Diff([]string{Keyless}, old.Troubles); diff != "" || old.State != Active || old.Hook != "1" || h.p.sent != 1 {
			t.Fatalf("found: %+v", old)
		}
		h.subscribe(connector.CodeConflict) // not by itself
		if h.p.sent != 1 {
			t.Error("it was made again by itself")
		}
		h.req.Replaces = old.Endpoint
		h.subscribe(connector.CodeApprovalRequired)
		h.p.approve()
		v := h.subscribe(0)
		if v.Endpoint == old.Endpoint || v.Troubles != nil || h.only().Endpoint != v.Endpoint {
			t.Errorf("replaced by %+v", v)
		}
		h.post(202, standard(key, "m1"))
		if e, err := h.s.c.Webhooks.Show(t.Context(), "acme", old.Endpoint); err != nil || e.DisabledAt == nil {
			t.Errorf("the old one: %+v %v", e, err)
		}
		if again := h.subscribe(0); again.Endpoint != v.Endpoint || h.p.sent != 2 {
			t.Errorf("again: %+v", again)
		}
	})
}

// Cut off between the key and the row, all of it is done again with the answer that
// the ledger keeps.
func TestCutOffAfterTheKey(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		v := h.active()
		h.exec(`UPDATE webhook_subscription SET state = 'asked', draft = ?`, sealed(t, v.Endpoint, h.p.hooks[0].Address))
		if again := h.subscribe(0); again.State != Active || h.p.sent != 1 {
			t.Errorf("again: %+v, %d sent", again, h.p.sent)
		}
		h.post(202, standard(key, "m1"))
	})
}

func sealed(t *testing.T, endpoint, address string) []byte {
	t.Helper()
	text, err := json.Marshal(Draft{Address: address})
	must(t, err)
	raw, err := ring().Seal(text, draftContext(endpoint))
	must(t, err)
	return raw
}

func TestManySubscribeAtOnce(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, r, err := h.s.Subscribe(t.Context(), h.req); err != nil || r.Pending == nil {
					t.Errorf("%+v %v", r, err)
				}
			})
		}
		all.Wait()
		h.p.approve()
		for range 8 {
			all.Go(func() {
				if v, _, err := h.s.Subscribe(t.Context(), h.req); err != nil || v.State != Active {
					t.Errorf("%+v %v", v, err)
				}
			})
		}
		all.Wait()
		if h.p.sent != 1 || len(h.p.hooks) != 1 {
			t.Errorf("%d sent: %v", h.p.sent, h.p.hooks)
		}
		open := 0
		endpoints, err := h.s.c.Webhooks.Endpoints(t.Context(), "acme")
		must(t, err)
		for _, e := range endpoints {
			if e.DisabledAt == nil {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%d endpoints are open", open)
		}
		h.post(202, standard(key, "m1"))
	})
}

// Refused before there is an endpoint.
func TestSubscribeRefused(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		for name, change := range map[string]func(*Request){
			"plain http":         func(r *Request) { r.Origin = "http://bridge.example.org" },
			"http on a network":  func(r *Request) { r.Origin = "http://192.168.1.2" },
			"a path":             func(r *Request) { r.Origin = "https://host/x" },
			"a query":            func(r *Request) { r.Origin = "https://host?x" },
			"a password":         func(r *Request) { r.Origin = "https://u:p@host" },
			"no host":            func(r *Request) { r.Origin = "https://" },
			"nothing":            func(r *Request) { r.Origin = "" },
			"a project":          func(r *Request) { r.Project = "orders" },
			"another provider":   func(r *Request) { r.Connection.Provider, r.Subscriber.Provider = "other", "other" },
			"somebody else's":    func(r *Request) { r.Subscriber.Principal = "bob" },
			"of another tenant":  func(r *Request) { r.Subscriber.Tenant = "other" },
			"elsewhere asked of": func(r *Request) { r.Subscriber.Provider = "other" },
		} {
			r := h.req
			change(&r)
			if _, _, err := h.s.Subscribe(t.Context(), r); connector.CodeOf(err) != connector.CodeInvalidInput {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.p.down = connector.Fail(connector.CodeScopeRequired, "")
		h.subscribe(connector.CodeScopeRequired)
		h.p.down = nil
		h.req.Replaces = "whe_nothing"
		h.subscribe(connector.CodeNotFound)
		if e, err := h.s.c.Webhooks.Endpoints(t.Context(), "acme"); len(e) != 0 || err != nil || len(h.p.asked) != 0 {
			t.Errorf("%d endpoints, asked %v, %v", len(e), h.p.asked, err)
		}
	})
}

func TestOtherwiseThanBefore(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.subscribe(connector.CodeApprovalRequired)
		was := h.req
		h.req.Origin = "https://other.example.org"
		h.subscribe(connector.CodeConflict) // one is being asked for
		h.req = was
		h.p.approve()
		h.subscribe(0)
		h.req.Origin = "https://other.example.org"
		h.subscribe(connector.CodeConflict) // one is active
		h.req.Connection.ID = "c2"
		h.subscribe(connector.CodeApprovalRequired) // by the same subscriber, for another connection
	})
}

// Ended by End or by disabling the endpoint, and of nobody else.
func TestEnd(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		v := h.active()
		if _, _, err := h.s.End(t.Context(), "other", v.Endpoint); connector.CodeOf(err) != connector.CodeNotFound {
			t.Errorf("another tenant: %v", err)
		}
		if h.only().State != Active {
			t.Error("another tenant ended it")
		}
		ended, ours, err := h.s.End(t.Context(), "acme", v.Endpoint)
		if err != nil || !ours || ended.State != Ended || ended.Hook != "1" {
			t.Errorf("ended: %+v %v %v", ended, ours, err)
		}
		h.post(404, standard(key, "m1"))
		lists := h.p.lists
		h.s.skew += time.Hour
		must(t, h.s.Tick(t.Context()))
		if h.p.lists != lists {
			t.Error("the keeper still looks")
		}
		again := h.active() // anew, at another address
		must(t, h.s.c.Webhooks.Disable(t.Context(), "acme", again.Endpoint))
		h.s.skew += time.Hour
		must(t, h.s.Tick(t.Context()))
		all, err := h.s.List(t.Context(), "acme", "c1")
		must(t, err)
		for _, v := range all {
			if v.State != Ended {
				t.Errorf("%+v", v)
			}
		}
	})
}

// What was only asked for leaves neither its address nor its key behind.
func TestEndBeforeTheApproval(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		asked := h.subscribe(connector.CodeApprovalRequired)
		if v, ours, err := h.s.End(t.Context(), "acme", asked.Endpoint); err != nil || !ours || v.Hook != "" {
			t.Errorf("ended: %+v %v %v", v, ours, err)
		}
		if used, err := h.s.SealedBy(t.Context()); err != nil || len(used) != 0 {
			t.Errorf("drafts: %v %v", used, err)
		}
		h.p.approve() // of nothing that is still wanted
		if again := h.subscribe(connector.CodeApprovalRequired); again.Endpoint == asked.Endpoint || h.p.sent != 0 {
			t.Errorf("again: %+v", again)
		}
	})
}

// Guarantee: CRE4
func TestDraftsAreResealed(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		asked := h.subscribe(connector.CodeApprovalRequired)
		used, err := h.s.SealedBy(t.Context())
		must(t, err)
		if diff := cmp.Diff(map[uint32]int{ring().Primary(): 1}, used); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n, err := h.s.Reseal(t.Context()); n != 0 || err != nil {
			t.Errorf("resealed %d %v", n, err)
		}
		// A row whose seal names no key of the ring is not taken for one of it.
		h.exec(`UPDATE webhook_subscription SET draft = ?`, bytes.Repeat([]byte{1}, 40))
		if _, err := h.s.Reseal(t.Context()); err == nil {
			t.Error("nonsense was resealed")
		}
		if _, r, err := h.s.Subscribe(t.Context(), h.req); err == nil || r.Pending != nil {
			t.Errorf("%s went on with nonsense", asked.Endpoint)
		}
	})
}
