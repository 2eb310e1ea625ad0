package operations

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/google/go-cmp/cmp"
)

func auditRecord(call string) connector.AuditRecord {
	return connector.AuditRecord{
		At: time.UnixMilli(1_700_000_000_123).UTC(), Run: "run_1", Step: "s", CallID: call, Tenant: acme, Principal: "alice", Connection: "con_1",
		Tool: "tickets.search", Connector: "tickets", Version: "1.2.3", PolicyVersion: "p4", Decision: "allowed", ArgsDigest: "d",
		Status: connector.StatusSuccess, Code: "NOT_FOUND", RequestID: "req", Correlation: "cor_1", Attempts: 2,
		Stages: []connector.Stage{{Name: "lookup", Took: time.Millisecond}},
	}
}

func newAudit(t *testing.T, c AuditConfig) *AuditLog {
	t.Helper()
	a, err := NewAuditLog(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

func auditCount(t *testing.T, db *store.DB) int {
	t.Helper()
	var n int
	if err := db.QueryRowFor(t.Context(), store.AllTenants(), "SELECT count(*) FROM audit").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Guarantee: RUN7
func TestAuditRecordIsKeptCompletely(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		want := auditRecord("call_1")
		want.Operation = "op_1"
		for i := range reflect.TypeOf(want).NumField() {
			if reflect.ValueOf(want).Field(i).IsZero() {
				t.Fatalf("this test doesn't fill AuditRecord.%s", reflect.TypeOf(want).Field(i).Name)
			}
		}
		a := newAudit(t, AuditConfig{DB: b.db})
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		// A record of a write is on disk when Record returns, also for a caller
		// who has gone.
		if err := a.Record(gone, want); err != nil {
			t.Fatal(err)
		}
		got, err := a.List(t.Context(), acme, AuditFilter{Operation: "op_1"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]connector.AuditRecord{want}, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if foreign, err := a.List(t.Context(), other, AuditFilter{}); err != nil || len(foreign) != 0 {
			t.Errorf("another tenant reads %v (%v)", foreign, err)
		}
	})
}

// Guarantee: RUN7
func TestCloseLosesNoAuditRecord(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const callers, calls = 10, 30
		a := newAudit(t, AuditConfig{DB: b.db, Buffer: 7}) // small: callers must wait for room
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range calls {
					if err := a.Record(t.Context(), auditRecord(fmt.Sprintf("call_%d_%d", c, i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := auditCount(t, b.db); n != callers*calls {
			t.Errorf("%d records, want %d", n, callers*calls)
		}
		fails(t, a.Record(t.Context(), auditRecord("late")), connector.CodeUnavailable)
		if err := a.Close(t.Context()); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// Guarantee: RUN7
func TestAcceptedMeansWrittenWhenCloseRacesWithCallers(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	a := newAudit(t, AuditConfig{DB: b.db, Buffer: 2})
	var mu sync.Mutex
	accepted := 0
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := a.Record(t.Context(), auditRecord(fmt.Sprint(c, "-", i)))
				if err != nil {
					if connector.CodeOf(err) != connector.CodeUnavailable {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				accepted++
				mu.Unlock()
				if i == 3 {
					started <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n := auditCount(t, b.db); n != accepted {
		t.Errorf("%d records on disk, %d were accepted", n, accepted)
	}
}

func TestFullAuditLogSaysSo(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	a := newAudit(t, AuditConfig{DB: b.db, Buffer: 1, Patience: time.Millisecond})
	var accepted int
	var refusal error
	// While this transaction runs the writer can't get anything to disk.
	err := b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		for refusal == nil && accepted < 2*auditBatch {
			if refusal = a.Record(t.Context(), auditRecord(fmt.Sprint(accepted))); refusal == nil {
				accepted++
			}
		}
		write := auditRecord("write")
		write.Operation = "op_1"
		if err := a.Record(t.Context(), write); connector.CodeOf(err) != connector.CodeOverloaded {
			t.Errorf("a write's record that isn't on disk: %v, want OVERLOADED", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, refusal, connector.CodeOverloaded)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := auditCount(t, b.db); n < accepted {
		t.Errorf("%d records on disk, %d were accepted", n, accepted)
	}
}

func TestAuditCloseThatRunsOutOfTimeSaysWhatIsLost(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	a := newAudit(t, AuditConfig{DB: b.db})
	// A table that is gone stands for a disk that takes nothing any more.
	err := b.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), "ALTER TABLE audit RENAME TO away")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := a.Record(t.Context(), auditRecord(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(ctx); err == nil || !strings.Contains(err.Error(), "3 audit records") {
		t.Errorf("close: %v, want it to say that 3 records are lost", err)
	}
}

func TestHostileAuditTextIsStored(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		a := newAudit(t, AuditConfig{DB: b.db})
		r := auditRecord("a\x00b\xff" + strings.Repeat("é", 1000))
		r.RequestID = "\xc3\x28"
		r.Operation = "op_1"
		if err := a.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n := auditCount(t, b.db); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}
