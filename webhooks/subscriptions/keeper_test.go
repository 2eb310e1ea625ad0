package subscriptions

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

const day = 24 * time.Hour

// Jira's dynamic webhooks end after thirty days, and the connector that forgot them
// looked healthy. Here half of the life is a person's time to approve a renewal; one
// that nobody approves is said to end, then to have ended, and coverage says so.
// Guarantee: HOO5
func TestW35SubscriptionsAreRenewedAtHalfOfTheirLife(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.p.life = 30 * day
		v := h.active()
		end := *v.ExpiresAt
		if v = h.after(14 * day); v.Renewal != "" || v.Troubles != nil || len(h.p.asked) != 0 {
			t.Errorf("on day 14: %+v", v)
		}
		if v = h.after(2 * day); v.Renewal == "" || len(h.p.asked) != 1 || h.p.sent != 1 {
			t.Errorf("on day 16: %+v, asked %v", v, h.p.asked)
		}
		if diff := cmp.Diff([]string{Expiring}, v.Troubles); diff != "" {
			t.Errorf("on day 16 (-want +got):\n%s", diff)
		}
		if h.after(time.Hour); h.p.sent != 1 {
			t.Error("renewed without an approval")
		}
		h.p.approve()
		if v = h.after(time.Hour); v.Renewal != "" || v.Troubles != nil || !v.ExpiresAt.After(end.Add(15*day)) || h.p.sent != 2 {
			t.Errorf("renewed: %+v", v)
		}
		// The next end has a renewal of its own.
		h.after(16 * day)
		if len(h.p.asked) != 1 || h.p.sent != 2 {
			t.Errorf("the second renewal: asked %v, sent %d", h.p.asked, h.p.sent)
		}
		// Nobody approves it. The provider drops it on day 30.
		h.p.do(func(p *provider) { p.hooks = nil })
		v = h.after(15 * day)
		if diff := cmp.Diff([]string{Missing, Expired}, v.Troubles); diff != "" || h.p.sent != 2 {
			t.Errorf("after its end (-want +got):\n%s", diff)
		}
		reasons, err := h.s.Troubles(t.Context(), h.req.Connection)
		must(t, err)
		if diff := cmp.Diff([]string{Expired, Missing}, reasons); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
	})
}

// Ends that the provider's list brings nearer, and a provider that can't renew.
func TestW35EndsWithoutARenewal(t *testing.T) {
	each(t, Ways{Scheme: "standard", MakesKey: true}, func(t *testing.T, h *house) {
		h.p.life = 30 * day
		h.active()
		h.p.do(func(p *provider) { p.hooks[0].ExpiresAt = p.now().Add(10 * day) })
		v := h.after(time.Hour)
		if diff := cmp.Diff([]string{Expiring}, v.Troubles); diff != "" || v.Renewal != "" || len(h.p.asked) != 0 {
			t.Errorf("%+v (-want +got):\n%s", v, diff)
		}
		h.p.down = connector.Fail(connector.CodeUnavailable, "")
		h.s.skew += 11 * day
		if err := h.s.Tick(t.Context()); connector.CodeOf(err) != connector.CodeUnavailable {
			t.Errorf("the provider is down: %v", err)
		}
		if diff := cmp.Diff([]string{Expired, Unchecked}, h.only().Troubles); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// What is gone is told, not made again; what comes back is well again.
func TestMissingIsToldAndNotMadeAgain(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		var kept []Hook
		h.p.do(func(p *provider) { kept, p.hooks = p.hooks, nil })
		if v := h.after(time.Minute); v.Troubles != nil || h.p.lists != 1 {
			t.Errorf("looked at before its time: %+v", v)
		}
		v := h.after(15 * time.Minute)
		if diff := cmp.Diff([]string{Missing}, v.Troubles); diff != "" || h.p.sent != 1 || len(h.p.asked) != 0 {
			t.Errorf("gone: %+v\n%s", v, diff)
		}
		// Its id with another address posts to somebody else.
		h.p.do(func(p *provider) { p.hooks = []Hook{{ID: kept[0].ID, Address: "https://elsewhere.example.org/x"}} })
		if v := h.after(15 * time.Minute); len(v.Troubles) != 1 {
			t.Errorf("at another address: %+v", v)
		}
		// Its address under another id is what we asked for.
		h.p.do(func(p *provider) { p.hooks = []Hook{{ID: "99", Address: kept[0].Address}} })
		if v := h.after(15 * time.Minute); v.Troubles != nil || v.Hook != "99" {
			t.Errorf("under another id: %+v", v)
		}
	})
}

// Only what received before is silent now.
func TestSilence(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		if v := h.after(30 * day); v.Troubles != nil || v.ReceivedAt != nil {
			t.Errorf("never received: %+v", v)
		}
		deliver := func(id string, pull bool) {
			t.Helper()
			_, err := h.box.Ingest(t.Context(), inbox.Delivery{Tenant: "acme", Endpoint: h.only().Endpoint, ID: id, Provider: "model", Connection: "c1",
				Body: []byte("{}"), ReceivedAt: h.p.now(), Pull: pull})
			must(t, err)
		}
		deliver("m1", false)
		if v := h.after(6 * day); v.Troubles != nil || v.ReceivedAt == nil {
			t.Errorf("six days: %+v", v)
		}
		deliver("m2", true) // what we had to fetch ourselves is no sign of life
		v := h.after(day + time.Hour)
		if diff := cmp.Diff([]string{Silent}, v.Troubles); diff != "" {
			t.Errorf("a week (-want +got):\n%s", diff)
		}
		deliver("m3", false)
		if v := h.after(time.Hour); v.Troubles != nil {
			t.Errorf("it speaks again: %+v", v)
		}
	})
}

// A dead connection, and a provider that does not answer.
func TestNotComparedIsTold(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		h.p.gone = true
		if v := h.after(30 * time.Minute); v.Troubles != nil || v.Fault != "CONNECTION_REQUIRED" {
			t.Errorf("at first: %+v", v)
		}
		v := h.after(20 * time.Minute)
		if diff := cmp.Diff([]string{Unchecked}, v.Troubles); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		h.p.gone = false
		if v := h.after(20 * time.Minute); v.Troubles != nil || v.Fault != "" {
			t.Errorf("it is back: %+v", v)
		}
	})
}

// What the provider gave up is taken in once, as signed by nobody.
// Guarantee: HOO2, HOO5
func TestFailedDeliveriesAreTakenIn(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		h.post(202, standard(key, "m2"))
		h.p.fails = []Failed{{ID: "m1", EventType: "ticket.created", Payload: []byte("{}")}, {ID: "m2", Payload: []byte("{}")}, {ID: "m3", Payload: []byte("[]")}}
		h.after(time.Hour)
		h.after(time.Hour)
		type line struct {
			ID, Secret string
			Pull       bool
			Repeats    int
		}
		var got []line
		all := h.records()
		for _, r := range all {
			secret := ""
			if r.Secret != "" {
				secret = "signed"
			}
			got = append(got, line{r.DeliveryID, secret, r.Pull, r.Repeats})
		}
		if diff := cmp.Diff([]line{{"m1", "", true, 0}, {"m2", "signed", false, 1}, {"m3", "", true, 0}}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// It comes signed after all: it was there.
		h.post(200, standard(key, "m1"))
		if all[0].EventType != "ticket.created" || all[0].Connection != "c1" {
			t.Errorf("%+v", all[0])
		}
	})
}

// A look that took longer than its lease changes nothing any more.
func TestOvertakenLook(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		h.s.skew += time.Hour
		slow, found, err := h.s.claim(t.Context())
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if _, found, err := h.s.claim(t.Context()); err != nil || found {
			t.Fatal("taken twice", err)
		}
		h.after(lease + time.Second)
		slow.missing, slow.Hook = 1, "nonsense"
		must(t, h.s.save(t.Context(), slow))
		if v := h.only(); v.Troubles != nil || v.Hook != "1" {
			t.Errorf("the slow one won: %+v", v)
		}
	})
}

// Many keepers on one database look once.
func TestManyKeepers(t *testing.T) {
	each(t, theirKey, func(t *testing.T, h *house) {
		h.active()
		h.p.lists = 0
		h.s.skew += time.Hour
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := h.s.Tick(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if h.p.lists != 1 {
			t.Errorf("looked %d times", h.p.lists)
		}
	})
}
