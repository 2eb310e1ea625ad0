package inbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// W02, W28, W30, HOO6: what can't be decoded is kept with a reason, what does
// not concern us is counted, and a body never reaches another tenant's lanes.
// None of it stops the deliveries behind it.
//
// Guarantee: HOO6
func TestUndecodableIsQuarantined(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		for i, body := range []string{"!bad", "!panic", "!ignore", "!foreign", "\xff", "", string(bytes.Repeat([]byte("x"), maxText+1)), "7"} {
			ingest(t, b, Stored, delivery(fmt.Sprint(i), body))
		}
		decodeAll(t, b)
		claimOne(t, b, "7")
		s := stats(t, b)
		// "\xff" is no text for a column; "" has no line, so no marks.
		if diff := cmp.Diff(map[string]int{"undecodable": 4, "foreign_lane": 1}, s.Quarantined); diff != "" {
			t.Errorf("quarantined (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int{"unknown_type": 1, "nothing_to_do": 1}, s.Ignored); diff != "" {
			t.Errorf("ignored (-want +got):\n%s", diff)
		}
		raw, err := json.Marshal(records(t, b))
		must(t, err)
		if bytes.Contains(raw, []byte("!bad")) || bytes.Contains(raw, []byte("X-Event")) {
			t.Errorf("the list shows what was delivered: %s", raw)
		}
	})
}

// Stopping in the middle of a batch leaves no claim behind.
func TestStoppingFinishesTheBatch(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{})
	ingest(t, b, Stored, delivery("d1", "7"))
	stopped, stop := context.WithCancel(t.Context())
	n, err := b.decode(stopped, func(d Delivery) ([]Mark, error) { stop(); return decodeLines(d) })
	if n != 1 || err != nil {
		t.Fatalf("decoded %d, %v, want 1", n, err)
	}
	claimOne(t, b, "7")
}

// Deliveries that were claimed together with one that ends the process are
// cleared: from the third time on each is decoded alone.
func TestNeighboursOfADeadlyDelivery(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		for i := range 10 {
			ingest(t, b, Stored, delivery(fmt.Sprint("d", i), fmt.Sprint(i)))
		}
		for range 100 {
			claimed, err := b.claimWaiting(t.Context())
			must(t, err)
			if len(claimed) == 0 {
				break
			}
			deadly := false
			for _, w := range claimed {
				deadly = deadly || w.ID == "d4"
			}
			if deadly && claimed[0].tries <= maxTries {
				b.skew += b.lease + time.Second // the process is gone, and another one comes
				continue
			}
			// It lives, so it goes on to the end.
			must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), `UPDATE webhook_delivery SET claimed_until = 0, tries = tries - 1 WHERE id = ?`, claimed[0].row)
				return err
			}))
			_, err = b.decode(t.Context(), decodeLines)
			must(t, err)
		}
		s := stats(t, b)
		if s.Waiting != 0 || s.Quarantined["abandoned"] != 1 || s.Dirty != 9 {
			t.Errorf("stats %+v, want nine decoded and one quarantined", s)
		}
	})
}

// A body that ends the process whenever it is decoded is quarantined as well.
func TestDeliveryThatKillsIsQuarantined(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		for range maxTries {
			claimed, err := b.claimWaiting(t.Context())
			must(t, err)
			if len(claimed) != 1 {
				t.Fatalf("claimed %d, want 1", len(claimed))
			}
			b.skew += b.lease + time.Second
		}
		decodeAll(t, b)
		if s := stats(t, b); s.Quarantined["abandoned"] != 1 || s.Dirty != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// W33: the delivery's new state and its marks are one transaction, so neither
// is without the other, and two decoders do not mark twice.
func TestDecodingIsOneTransaction(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		slow := func(d Delivery) ([]Mark, error) {
			// Meanwhile the claim runs out and somebody else decodes it.
			b.skew += b.lease + time.Second
			n, err := b.decode(context.Background(), decodeLines)
			if n != 1 {
				t.Errorf("the other decoded %d, %v, want 1", n, err)
			}
			return decodeLines(d)
		}
		if _, err := b.decode(t.Context(), slow); err != nil {
			t.Fatal(err)
		}
		if l := claimOne(t, b, "7"); l.Dirty != 1 {
			t.Errorf("marked %d times, want once", l.Dirty)
		}

		ingest(t, b, Stored, delivery("d2", "8"))
		rename := func(from, to string) {
			must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
				_, err := tx.Exec(t.Context(), `ALTER TABLE `+from+` RENAME TO `+to)
				return err
			}))
		}
		_, err := b.decode(t.Context(), func(d Delivery) ([]Mark, error) { rename("webhook_lane", "away"); return decodeLines(d) })
		if err == nil {
			t.Fatal("decoded without lanes")
		}
		rename("away", "webhook_lane")
		if s := stats(t, b); s.Waiting != 1 || s.Dirty != 1 {
			t.Errorf("stats %+v, want one waiting and only the first lane dirty", s)
		}
		b.skew += b.lease + time.Second
		decodeAll(t, b)
		if s := stats(t, b); s.Waiting != 0 || s.Dirty != 2 {
			t.Errorf("stats %+v, want both lanes dirty", s)
		}
	})
}

// W01, W02: the stored bytes are those that came, sealed for their row.
func TestBodiesAreSealed(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		body := "{\"a\":\"\\u001B\",\"t\":\"🎉\"}\xff\x00"
		ingest(t, b, Stored, delivery("d1", body))
		ingest(t, b, Stored, delivery("d2", "other"))
		all := records(t, b)
		header, got, err := b.Body(t.Context(), "acme", all[1].ID)
		must(t, err)
		if string(got) != body || header["X-Event"] != "ticket.changed" {
			t.Errorf("body %q, header %v", got, header)
		}
		if _, _, err := b.Body(t.Context(), "globex", all[1].ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant's body: %v", err)
		}
		var sealed []byte
		must(t, b.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT body FROM webhook_delivery WHERE id = ?`, all[1].ID).Scan(&sealed))
		if bytes.Contains(sealed, []byte("u001B")) || bytes.Contains(sealed, []byte("X-Event")) {
			t.Error("the body is stored in the clear")
		}
		must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE webhook_delivery SET body = ? WHERE id = ?`, sealed, all[0].ID)
			return err
		}))
		if _, _, err := b.Body(t.Context(), "acme", all[0].ID); err == nil {
			t.Error("a body opened in another row")
		}
	})
}

// W19 and the operator's replay: what was received can be applied again, as
// long as the body is there.
func TestReplay(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "!bad"))
		ingest(t, b, Stored, delivery("d2", "7"))
		decodeAll(t, b)
		must(t, complete(b, claimOne(t, b, "7")))
		for _, r := range records(t, b) {
			must(t, b.Replay(t.Context(), "acme", r.ID))
		}
		fixed := func(d Delivery) ([]Mark, error) { return []Mark{{Lane: lane("fixed")}}, nil }
		n, err := b.decode(t.Context(), fixed)
		if err != nil || n != 2 {
			t.Fatalf("decoded %d, %v, want 2", n, err)
		}
		claimOne(t, b, "fixed")
		id := records(t, b)[0].ID
		if err := b.Replay(t.Context(), "globex", id); !errors.Is(err, ErrNotFound) {
			t.Errorf("another tenant's replay: %v", err)
		}
		b.skew = b.keepBodies + time.Minute
		must(t, b.Sweep(t.Context()))
		if err := b.Replay(t.Context(), "acme", id); !errors.Is(err, ErrNoBody) {
			t.Errorf("replay without a body: %v", err)
		}
		if _, _, err := b.Body(t.Context(), "acme", id); !errors.Is(err, ErrNoBody) {
			t.Errorf("body: %v", err)
		}
	})
}

// G5: an id is known until its record goes; what waits or is parked never goes.
func TestRetention(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("old", "7"))
		ingest(t, b, Stored, delivery("bad", "!bad"))
		decodeAll(t, b)
		must(t, complete(b, claimOne(t, b, "7")))
		ingest(t, b, Stored, delivery("waiting", "8"))
		mark(t, b, Mark{Lane: lane("dirty")})

		b.skew = b.keepBodies + time.Hour
		must(t, b.Sweep(t.Context()))
		kept := map[string]bool{}
		for _, r := range records(t, b) {
			kept[r.DeliveryID] = r.BodyKept
		}
		if diff := cmp.Diff(map[string]bool{"old": false, "bad": true, "waiting": true}, kept); diff != "" {
			t.Errorf("bodies (-want +got):\n%s", diff)
		}
		again := delivery("old", "7")
		ingest(t, b, Duplicate, again)

		b.skew = b.keepRecords + time.Hour
		must(t, b.Sweep(t.Context()))
		all := records(t, b)
		if len(all) != 1 || all[0].DeliveryID != "waiting" {
			t.Errorf("records %+v, want only what waits", all)
		}
		lanes := map[string]bool{}
		for _, object := range []string{"7", "dirty"} {
			_, err := b.ShowLane(t.Context(), "acme", lane(object).ID())
			lanes[object] = err == nil
		}
		if lanes["7"] || !lanes["dirty"] {
			t.Errorf("lanes there: %v, want only the dirty one", lanes)
		}
	})
}

// The list pages from the newest to the oldest and keeps tenants apart.
func TestListPages(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		at := time.Now()
		for i := range 7 {
			d := delivery(fmt.Sprint(i), fmt.Sprint("7 ", i))
			d.ReceivedAt = at.Add(time.Duration(i) * time.Second)
			ingest(t, b, Stored, d)
		}
		var got []string
		f := Filter{Tenant: "acme", Limit: 3, State: StateReceived, Endpoint: "e1", Connection: "c1"}
		for {
			page, err := b.List(t.Context(), f)
			must(t, err)
			for _, r := range page {
				got = append(got, r.DeliveryID)
				f.Before = r.ID
			}
			if len(page) < 3 {
				break
			}
		}
		if diff := cmp.Diff([]string{"6", "5", "4", "3", "2", "1", "0"}, got); diff != "" {
			t.Errorf("ids (-want +got):\n%s", diff)
		}
		for _, f := range []Filter{{Tenant: "globex"}, {Tenant: "acme", State: StateDecoded}, {Tenant: "acme", Conflicts: true}, {}} {
			if page, err := b.List(t.Context(), f); err != nil || len(page) != 0 {
				t.Errorf("%+v: %d records, %v", f, len(page), err)
			}
		}
	})
}

// Deliveries and marks that no column takes are refused before they could spoil
// the batch of others.
func TestIngestRefusesWhatIsIncomplete(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{})
	for name, change := range map[string]func(*Delivery){
		"no tenant":     func(d *Delivery) { d.Tenant = "" },
		"no connection": func(d *Delivery) { d.Connection = "" },
		"NUL":           func(d *Delivery) { d.ID = "a\x00b" },
		"no UTF-8":      func(d *Delivery) { d.EventType = "\xff" },
		"long":          func(d *Delivery) { d.ID = string(bytes.Repeat([]byte("x"), maxText+1)) },
	} {
		d := delivery("d", "7")
		change(&d)
		if v, err := b.Ingest(t.Context(), d); err == nil {
			t.Errorf("%s: %v, want an error", name, v)
		}
	}
}
