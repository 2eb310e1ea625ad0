package inbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Each check has about 30 steps on two engines; to look longer, run say
	// -rapid.checks=1000.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// each runs a test with a fresh inbox on every engine.
func each(t *testing.T, fn func(t *testing.T, b *Inbox)) {
	t.Helper()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(t, open(t, d, Config{})) })
}

var ring = sync.OnceValue(func() *keys.Ring {
	text, err := keys.Generate()
	if err != nil {
		panic(err)
	}
	r, err := keys.Parse(text)
	if err != nil {
		panic(err)
	}
	return r
})

func open(t *testing.T, d storetest.Database, c Config) *Inbox {
	t.Helper()
	c.DB, c.Sealer = d.Open(Migrations()), ring()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// delivery names one or several objects in its body.
func delivery(id string, objects ...string) Delivery {
	return Delivery{Tenant: "acme", Endpoint: "e1", ID: id, Provider: "sandbox", Connection: "c1", EventType: "ticket.changed",
		Header: map[string]string{"X-Event": "ticket.changed"}, Body: []byte(strings.Join(objects, "\n")), Secret: "s1"}
}

func lane(object string) Lane {
	return Lane{Tenant: "acme", Provider: "sandbox", Connection: "c1", Kind: "ticket", Object: object}
}

// decodeLines marks the lane of each line; "-x" is a removal. Other lines that
// mean something begin with "!".
func decodeLines(d Delivery) ([]Mark, error) {
	var marks []Mark
	for line := range strings.Lines(string(d.Body)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "!bad":
			return nil, errors.New("bad body: " + line)
		case line == "!panic":
			panic("decoder")
		case line == "!ignore":
			return nil, &Ignored{Reason: "unknown_type"}
		case line == "!foreign":
			marks = append(marks, Mark{Lane: Lane{"other", "sandbox", "c1", "ticket", "1"}})
		default:
			object, removes := strings.CutPrefix(line, "-")
			marks = append(marks, Mark{Lane: Lane{d.Tenant, d.Provider, d.Connection, "ticket", object}, Removes: removes})
		}
	}
	return marks, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ingest(t *testing.T, b *Inbox, want Verdict, d Delivery) {
	t.Helper()
	got, err := b.Ingest(t.Context(), d)
	if err != nil || got != want {
		t.Fatalf("ingest %s: %v, %v, want %v", d.ID, got, err, want)
	}
}

func decodeAll(t *testing.T, b *Inbox) {
	t.Helper()
	for {
		n, err := b.decode(t.Context(), decodeLines)
		must(t, err)
		if n == 0 {
			return
		}
	}
}

func mark(t *testing.T, b *Inbox, marks ...Mark) {
	t.Helper()
	must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { return b.Mark(t.Context(), tx, marks) }))
}

func claim(t *testing.T, b *Inbox, n int) []Lease {
	t.Helper()
	leases, err := b.Claim(t.Context(), n)
	must(t, err)
	return leases
}

// claimOne claims, and wants exactly this object's lane.
func claimOne(t *testing.T, b *Inbox, object string) Lease {
	t.Helper()
	leases := claim(t, b, 10)
	if len(leases) != 1 || leases[0].Object != object {
		t.Fatalf("claimed %v, want the lane of %q", leases, object)
	}
	return leases[0]
}

func complete(b *Inbox, l Lease) error {
	ctx := context.Background()
	return b.db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error { return b.Complete(ctx, tx, l) })
}

func stats(t *testing.T, b *Inbox) Stats {
	t.Helper()
	s, err := b.Stats(t.Context())
	must(t, err)
	return s
}

func records(t *testing.T, b *Inbox) []Record {
	t.Helper()
	r, err := b.List(t.Context(), Filter{Tenant: "acme"})
	must(t, err)
	return r
}

// W12, G5: the same delivery twice is one delivery, and makes no second work.
//
// Guarantee: HOO2
func TestDuplicateIsStoredOnce(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		ingest(t, b, Duplicate, delivery("d1", "7"))
		decodeAll(t, b)
		ingest(t, b, Duplicate, delivery("d1", "7"))
		decodeAll(t, b)
		if l := claimOne(t, b, "7"); l.Dirty != 1 {
			t.Errorf("the lane was marked %d times, want once", l.Dirty)
		}
		if s := stats(t, b); s.Duplicates != 2 || len(records(t, b)) != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

// W14: the same id with another body is neither lost nor taken for a duplicate,
// and both bodies have their effect.
//
// Guarantee: HOO2
func TestSameIDOtherBodyIsAConflict(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		ingest(t, b, Conflict, delivery("d1", "8"))
		ingest(t, b, Duplicate, delivery("d1", "8"))
		ingest(t, b, Duplicate, delivery("d1", "7"))
		ingest(t, b, Conflict, delivery("d1", "9"))
		decodeAll(t, b)
		if got := len(claim(t, b, 10)); got != 3 {
			t.Errorf("%d lanes are dirty, want 3", got)
		}
		if s := stats(t, b); s.Conflicts != 2 || s.Duplicates != 2 {
			t.Errorf("stats %+v, want 2 conflicts and 2 duplicates", s)
		}
		all := records(t, b)
		if first := all[len(all)-1]; all[0].ConflictOf != first.ID || first.ConflictOf != "" {
			t.Errorf("records %+v", all)
		}
	})
}

// W15: ids are the sender's; two endpoints may have the same.
func TestIDsBelongToAnEndpoint(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		other := delivery("d1", "8")
		other.Endpoint, other.Tenant = "e2", "globex"
		ingest(t, b, Stored, other)
		if all := records(t, b); len(all) != 1 {
			t.Errorf("%d records of acme, want 1", len(all))
		}
	})
}

// W13: where the id is not signed, one body can be sent under many ids. Each is
// kept, and together they ask for one look at the resource per minute.
func TestRepeatedBodyUnderOtherIDs(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("d1", "7"))
		decodeAll(t, b)
		must(t, complete(b, claimOne(t, b, "7")))
		for i := range 5 {
			ingest(t, b, Stored, delivery(fmt.Sprint("again", i), "7"))
		}
		decodeAll(t, b)
		if l := claim(t, b, 10); len(l) != 0 {
			t.Fatalf("claimed %v within the minute", l)
		}
		b.skew = repeatGap + time.Second
		l := claimOne(t, b, "7")
		if l.Dirty != 2 {
			t.Errorf("dirty %d, want 2: what was decoded together is one mark", l.Dirty)
		}
		must(t, complete(b, l))
		// A body that is new does not wait.
		ingest(t, b, Stored, delivery("more", "7"))
		ingest(t, b, Stored, delivery("d2", "7", "x"))
		decodeAll(t, b)
		if got := len(claim(t, b, 10)); got != 2 {
			t.Errorf("claimed %d lanes, want 2", got)
		}
	})
}

// Two processes and many senders at once: each id is stored once.
func TestConcurrentDuplicates(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		inboxes := []*Inbox{open(t, d, Config{}), open(t, d, Config{})}
		var mu sync.Mutex
		got := map[Verdict]int{}
		var senders sync.WaitGroup
		for s := range 32 {
			senders.Go(func() {
				for i := range 20 {
					id := (i*7 + s) % 20
					body := "same"
					if s%8 == 0 {
						body = "other"
					}
					v, err := inboxes[s%2].Ingest(t.Context(), delivery(fmt.Sprint(id), body))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got[v]++
					mu.Unlock()
				}
			})
		}
		senders.Wait()
		if got[Stored] != 20 || got[Conflict] != 20 || got[Duplicate] != 600 {
			t.Errorf("verdicts %v, want 20 stored, 20 conflicts, 600 duplicates", got)
		}
		if s := stats(t, inboxes[0]); s.Duplicates != 600 || s.Conflicts != 20 || s.Waiting != 40 {
			t.Errorf("stats %+v", s)
		}
	})
}

// An id is not needed: the body's digest is one.
func TestDeliveryWithoutID(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		ingest(t, b, Stored, delivery("", "7"))
		ingest(t, b, Duplicate, delivery("", "7"))
		ingest(t, b, Stored, delivery("", "8"))
		want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("7")))
		if all := records(t, b); all[1].DeliveryID != want {
			t.Errorf("id %q, want %q", all[1].DeliveryID, want)
		}
	})
}
