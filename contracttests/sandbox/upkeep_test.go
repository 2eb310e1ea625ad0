package sandbox

import (
	"net/http"
	"testing"
	"time"
)

// W35
func TestSubscriptionsExpireUnlessTheyAreRenewed(t *testing.T) {
	t.Parallel()
	b := start(t, Config{Seed: 1})
	token := b.as("alice").Access
	list := func() (ids []string) {
		t.Helper()
		var v struct {
			Items []struct{ ID string } `json:"items"`
		}
		b.call("GET", "/api/v1/webhooks", token, nil).into(t, &v)
		for _, i := range v.Items {
			ids = append(ids, i.ID)
		}
		return ids
	}
	r := receive(t)
	forever := b.subscribe(token, r.URL)
	b.behave(Behaviour{Webhooks: WebhookFaults{LifeSeconds: 30 * 24 * 3600}})
	var made struct {
		ID      string
		Expires time.Time `json:"expires_at"`
	}
	b.call("POST", "/api/v1/webhooks", token, map[string]any{"url": r.URL}).into(t, &made)
	if left := time.Until(made.Expires); left < 29*24*time.Hour || left > 30*24*time.Hour {
		t.Errorf("made for %s", left)
	}
	b.AgeWebhooks(29 * 24 * time.Hour)
	if got := b.call("POST", "/api/v1/webhooks/"+made.ID+"/renew", b.as("bob").Access, nil).Status; got != http.StatusNotFound {
		t.Errorf("somebody else's renewal: %d", got)
	}
	b.call("POST", "/api/v1/webhooks/"+made.ID+"/renew", token, nil)
	b.AgeWebhooks(29 * 24 * time.Hour)
	if got := list(); len(got) != 2 {
		t.Errorf("after a renewal: %v", got)
	}
	b.AgeWebhooks(2 * 24 * time.Hour)
	if got := list(); len(got) != 1 || got[0] != forever.ID {
		t.Errorf("after its end: %v", got)
	}
	if got := b.call("POST", "/api/v1/webhooks/"+made.ID+"/renew", token, nil).Status; got != http.StatusNotFound {
		t.Errorf("renewed after its end: %d", got)
	}
}

func TestFailedDeliveriesAreListed(t *testing.T) {
	t.Parallel()
	b := start(t, Config{Seed: 1})
	token := b.as("alice").Access
	b.behave(Behaviour{Webhooks: WebhookFaults{Tries: 1}})
	r := receive(t, 500, 200, 500)
	sub := b.subscribe(token, r.URL)
	for range 3 {
		if _, err := b.AddTicket(Seed{Project: new("web")}); err != nil {
			t.Fatal(err)
		}
		r.next(t)
	}
	log := b.settle()
	type page struct {
		Items []struct {
			Seq               int
			ID, Type, Payload string
		}
		More bool
	}
	read := func(after string) (v page) {
		t.Helper()
		b.call("GET", "/api/v1/webhooks/"+sub.ID+"/failed?after="+after, token, nil).into(t, &v)
		return v
	}
	all := read("")
	if len(all.Items) != 2 || all.More || all.Items[0].ID != log[0].ID || all.Items[1].ID != log[2].ID || all.Items[0].Payload == "" || all.Items[0].Type != "ticket.created" {
		t.Fatalf("failed: %+v", all)
	}
	if rest := read("1"); len(rest.Items) != 1 || rest.Items[0].ID != log[2].ID {
		t.Errorf("after the first: %+v", rest)
	}
	b.Redeliver(log[0].ID)
	r.next(t)
	for b.Deliveries()[0].State != "delivered" {
		time.Sleep(time.Millisecond)
	}
	if rest := read("0"); len(rest.Items) != 1 || rest.Items[0].ID != log[2].ID {
		t.Errorf("after a redelivery: %+v", rest)
	}
	if got := b.call("GET", "/api/v1/webhooks/"+sub.ID+"/failed", b.as("bob").Access, nil).Status; got != http.StatusNotFound {
		t.Errorf("somebody else's: %d", got)
	}
}
