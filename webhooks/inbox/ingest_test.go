package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// G1, W20: whoever is told "stored" finds the delivery through any other
// connection, at once.
//
// Guarantee: HOO2
func TestStoredMeansCommitted(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		b, other := open(t, d, Config{}), open(t, d, Config{})
		var senders sync.WaitGroup
		for i := range 40 {
			senders.Go(func() {
				id := fmt.Sprint("d", i)
				if v, err := b.Ingest(t.Context(), delivery(id, id)); err != nil || v != Stored {
					t.Errorf("%v, %v", v, err)
					return
				}
				var n int
				err := other.db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT COUNT(*) FROM webhook_delivery WHERE delivery_id = ?`, id).Scan(&n)
				if err != nil || n != 1 {
					t.Errorf("%s: %d rows, %v", id, n, err)
				}
			})
		}
		senders.Wait()
	})
}

// Those who come while a batch is stored share the next one; the one that
// stores for all of them may have lost its patience already.
func TestSendersShareACommit(t *testing.T) {
	b := open(t, storetest.SQLite(t), Config{})
	// Keep the write lock, so that the first batch can't end.
	locked, release := make(chan struct{}), make(chan struct{})
	holder := make(chan error)
	go func() {
		holder <- b.db.UpdateFor(context.Background(), store.AllTenants(), func(*store.Tx) error { close(locked); <-release; return nil })
	}()
	<-locked
	verdicts := make(chan error)
	send := func(ctx context.Context, i int) {
		_, err := b.Ingest(ctx, delivery(fmt.Sprint("d", i), "7"))
		verdicts <- err
	}
	inLine := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			b.batch.mu.Lock()
			got, storing := len(b.batch.next), b.batch.storing
			b.batch.mu.Unlock()
			if got == n && storing {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d in line, want %d", got, n)
			}
		}
	}
	go send(t.Context(), 0)
	inLine(0)
	impatient, leave := context.WithCancel(t.Context())
	go send(impatient, 1) // the next to store
	inLine(1)
	for i := 2; i < 10; i++ {
		go send(t.Context(), i)
		inLine(i)
	}
	go send(impatient, 10)
	inLine(10)
	leave()
	for range 2 { // both are gone: one from the head of the line, one from its end
		if err := <-verdicts; !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v, want canceled", err)
		}
	}
	close(release)
	for range 9 {
		if err := <-verdicts; err != nil {
			t.Fatal(err)
		}
	}
	must(t, <-holder)
	ids := map[string]bool{}
	for _, r := range records(t, b) {
		ids[r.DeliveryID] = true
	}
	for i := range 10 {
		if i != 1 && !ids[fmt.Sprint("d", i)] {
			t.Errorf("d%d is not stored", i)
		}
	}
}

// W21: a store that fails is an error for each sender, and no verdict; when it
// is well again, so are the next.
//
// Guarantee: HOO2
func TestStoreFailureIsNoVerdict(t *testing.T) {
	d := storetest.SQLite(t)
	b := open(t, d, Config{})
	ctx := t.Context()
	must(t, b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `ALTER TABLE webhook_delivery RENAME TO away`)
		return err
	}))
	var senders sync.WaitGroup
	for i := range 20 {
		senders.Go(func() {
			if v, err := b.Ingest(ctx, delivery(fmt.Sprint(i), "7")); err == nil || v != 0 {
				t.Errorf("%v, %v, want an error", v, err)
			}
		})
	}
	senders.Wait()
	must(t, b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `ALTER TABLE away RENAME TO webhook_delivery`)
		return err
	}))
	ingest(t, b, Stored, delivery("after", "7"))
	if n := len(records(t, b)); n != 1 {
		t.Errorf("%d records, want 1", n)
	}

	b.sealer = noSealer{}
	if v, err := b.Ingest(ctx, delivery("unsealed", "7")); err == nil || v != 0 {
		t.Errorf("%v, %v, want an error when nothing can be sealed", v, err)
	}
}

type noSealer struct{ Sealer }

func (noSealer) Seal(_, _ []byte) ([]byte, error) { return nil, errors.New("no key") }

// A batch of every size is stored whole: statements take several rows.
func TestBatchSizes(t *testing.T) {
	each(t, func(t *testing.T, b *Inbox) {
		total := 0
		for _, n := range []int{1, maxRows - 1, maxRows, maxRows + 1, 2 * maxRows, maxBatch} {
			var batch []*arrival
			for i := range n {
				d := delivery(fmt.Sprintf("%d-%d", n, i), "7")
				a := &arrival{Delivery: d, digest: digest(d.Body), row: rowID(time.Now())}
				var err error
				a.sealed, err = b.seal(d, a.row)
				must(t, err)
				batch = append(batch, a)
			}
			batch = append(batch, batch[0]) // and one of them twice
			must(t, b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error { return b.insert(t.Context(), tx, batch) }))
			if slices.ContainsFunc(batch, func(a *arrival) bool { return a.verdict == 0 }) {
				t.Fatalf("%d deliveries: one has no verdict", n)
			}
			total += n
		}
		if s := stats(t, b); s.Waiting != total {
			t.Errorf("%d stored, want %d", s.Waiting, total)
		}
	})
}
