package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/google/go-cmp/cmp"
)

// chained is an audit log with n records of writes of acme.
func chained(t *testing.T, b *bench, n int) *AuditLog {
	t.Helper()
	a := newAudit(t, AuditConfig{DB: b.db})
	for i := range n {
		record(t, a, fmt.Sprintf("call_%d", i))
	}
	return a
}

// record waits until the record is on disk.
func record(t *testing.T, a *AuditLog, call string) {
	t.Helper()
	r := auditRecord(call)
	r.Operation = "op_1"
	if err := a.Record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	err := b.db.UpdateFor(b.t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		n, err := tx.Exec(b.t.Context(), query, args...)
		if err == nil && n == 0 {
			err = errors.New("no row changed")
		}
		return err
	})
	if err != nil {
		b.t.Fatalf("%s: %v", query, err)
	}
}

// Guarantee: RUN7
func TestAuditChainShowsEveryChange(t *testing.T) {
	for name, tamper := range map[string]func(*bench){
		"record 3 is not as it was written": func(b *bench) { b.exec(`UPDATE audit SET principal = 'mallory' WHERE seq = 3`) },
		"record 4 is missing":               func(b *bench) { b.exec(`DELETE FROM audit WHERE seq = 4`) },
		"it ends at record 5":               func(b *bench) { b.exec(`DELETE FROM audit WHERE seq = 6`) },
		"record 1 is missing":               func(b *bench) { b.exec(`DELETE FROM audit WHERE seq = 1`) },
		"record 2 is not as it was": func(b *bench) { // moved within the chain
			b.exec(`UPDATE audit SET seq = 100 WHERE seq = 2`)
			b.exec(`UPDATE audit SET seq = 2 WHERE seq = 3`)
			b.exec(`UPDATE audit SET seq = 3 WHERE seq = 100`)
		},
		"1 records are not part of it": func(b *bench) {
			b.exec(`UPDATE audit SET seq = 0, tenant = 'acme', hash = NULL WHERE tenant = 'other'`)
		},
		"and 0 were written":        func(b *bench) { b.exec(`DELETE FROM audit_head WHERE tenant = 'acme'`) },
		"record 5 is not as it was": func(b *bench) { b.exec(`UPDATE audit SET run = run || step, step = '' WHERE seq = 5`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, storetest.SQLite(t))
			a := chained(t, b, 6)
			r := auditRecord("foreign")
			r.Tenant, r.Operation = other, "op_2"
			if err := a.Record(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			head, err := a.Verify(t.Context(), acme)
			if err != nil || head.Seq != 6 {
				t.Fatalf("before: %+v (%v)", head, err)
			}
			tamper(b)
			if head, err := a.Verify(t.Context(), acme); !errors.Is(err, ErrAuditChain) || !strings.Contains(err.Error(), name) {
				t.Errorf("verify: %+v (%v)", head, err)
			}
		})
	}
}

// Guarantee: RUN7
func TestKnownHeadShowsARewrittenChain(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		a := chained(t, b, 3)
		early, err := a.Verify(ctx, acme)
		if err != nil {
			t.Fatal(err)
		}
		record(t, a, "more")
		if _, err := a.Verify(ctx, acme, early, AuditHead{}); !errors.Is(err, ErrAuditChain) {
			t.Errorf("a head that never was: %v", err)
		}
		none, err := a.Verify(ctx, "nobody")
		if err != nil || none.Seq != 0 {
			t.Errorf("a tenant without records: %+v (%v)", none, err)
		}
		if _, err := a.Verify(ctx, acme, early); err != nil {
			t.Errorf("an early head: %v", err)
		}
		// Whoever owns the database throws all away and starts a sound chain.
		b.exec(`DELETE FROM audit`)
		b.exec(`DELETE FROM audit_head`)
		fresh := chained(t, b, 5)
		if _, err := fresh.Verify(ctx, acme); err != nil {
			t.Errorf("the forged chain: %v", err)
		}
		if _, err := fresh.Verify(ctx, acme, early); !errors.Is(err, ErrAuditChain) {
			t.Errorf("the forged chain with a head that was kept: %v", err)
		}
	})
}

// Guarantee: RUN7
func TestTwoProcessesWriteOneChainWithoutForks(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		const logs, callers, calls = 3, 4, 10
		var wg sync.WaitGroup
		all := make([]*AuditLog, logs)
		for n := range all {
			all[n] = newAudit(t, AuditConfig{DB: b.d.Open(Migrations())})
			for c := range callers {
				wg.Go(func() {
					for i := range calls {
						r := auditRecord(fmt.Sprintf("%d-%d-%02d", n, c, i))
						if c%2 == 0 {
							r.Tenant = other
						}
						if i%3 == 0 {
							r.Operation = "op_1" // waits for the disk
						}
						if err := all[n].Record(t.Context(), r); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		for _, a := range all {
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		for _, tenant := range []connector.TenantID{acme, other} {
			head, err := all[0].Verify(t.Context(), tenant)
			if want := int64(logs * callers * calls / 2); err != nil || head.Seq != want {
				t.Errorf("%s: %+v (%v), want %d records", tenant, head, err, want)
			}
			entries, err := all[0].After(t.Context(), tenant, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			// Each caller's records are in the order of its calls.
			last := map[string]string{}
			for _, e := range entries {
				caller, call := e.Record.CallID[:3], e.Record.CallID[4:]
				if last[caller] >= call && last[caller] != "" {
					t.Errorf("record %d: call %s of %s came after %s", e.Seq, call, caller, last[caller])
				}
				last[caller] = call
			}
		}
	})
}

// A commit of which the outcome was unknown is repeated: what it wrote is not
// written again, and what others wrote meanwhile stands between.
// Guarantee: RUN7
func TestRepeatedAuditBatchIsWrittenOnce(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		a := chained(t, b, 2)
		before, err := a.Verify(ctx, acme)
		if err != nil {
			t.Fatal(err)
		}
		batch := []*auditEntry{{id: "aud_x", values: auditValues(auditRecord("x"))}, {id: "aud_y", values: auditValues(auditRecord("y"))}}
		stale := chainHead{2, bytes.Repeat([]byte{1}, 32)} // a guess that no longer holds
		write := func(batch []*auditEntry) {
			err := b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
				_, err := appendAudit(ctx, tx, string(acme), stale, batch)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(batch[:1])
		record(t, a, "between")
		write(batch)
		write(batch)
		if head, err := a.Verify(ctx, acme, before); err != nil || head.Seq != 5 {
			t.Errorf("head %+v (%v), want 5 records", head, err)
		}
	})
}

// Guarantee: RUN7
func TestRecordsFromBeforeTheChainAreTakenIn(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		old := fstest.MapFS{}
		for _, name := range []string{"00001_ledger.sql", "00002_audit.sql"} {
			text, err := fs.ReadFile(migrationFiles, "migrations/"+name)
			if err != nil {
				t.Fatal(err)
			}
			old[name] = &fstest.MapFile{Data: text}
		}
		db := d.Open(store.Migrations{Service: "operations", FS: old})
		err := db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			for i := range 110 { // more than a page
				for _, tenant := range []connector.TenantID{acme, other} {
					r := auditRecord(fmt.Sprintf("call_%04d", i))
					r.Tenant = tenant
					r.At = r.At.Add(time.Duration(i/2) * time.Millisecond)
					if _, err := tx.Exec(t.Context(), `INSERT INTO audit (id, `+auditColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
						append([]any{fmt.Sprintf("aud_%s_%04d", tenant, i)}, auditValues(r)...)...); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, d)
		first, second := newAudit(t, AuditConfig{DB: b.db}), newAudit(t, AuditConfig{DB: d.Open(Migrations())})
		record(t, first, "new")
		record(t, second, "newer")
		head, err := first.Verify(t.Context(), acme)
		if err != nil || head.Seq != 112 {
			t.Fatalf("head %+v (%v)", head, err)
		}
		entries, err := first.After(t.Context(), acme, 0, 0)
		if err != nil || len(entries) == 0 || entries[0].Record.CallID != "call_0000" {
			t.Errorf("the chain begins with %v (%v)", entries[:min(1, len(entries))], err)
		}
		last, err := first.After(t.Context(), acme, head.Seq-2, 0)
		if err != nil || len(last) != 2 || last[0].Record.CallID != "new" || last[1].Record.CallID != "newer" {
			t.Errorf("the chain ends with %v (%v)", last, err)
		}
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := first.Verify(t.Context(), other); err != nil {
			t.Errorf("the other tenant: %v", err)
		}
	})
}

// Guarantee: RUN7
func TestAuditExportVerifiesWithoutTheDatabase(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		a := chained(t, b, 4)
		record(t, a, "<&>\u2028\"\\")
		want, err := a.Verify(ctx, acme)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		head, err := a.Export(ctx, acme, &out)
		if err != nil || head != want {
			t.Fatalf("export ends at %+v (%v), want %+v", head, err, want)
		}
		got, err := VerifyAuditExport(acme, bytes.NewReader(out.Bytes()))
		if err != nil || got != want {
			t.Errorf("verified %+v (%v), want %+v", got, err, want)
		}
		text := out.String()
		lines := strings.SplitAfter(text, "\n")
		for name, changed := range map[string]string{
			"another principal": strings.Replace(text, `"alice"`, `"mallory"`, 1),
			"a line less":       strings.Join(append(append([]string{}, lines[:2]...), lines[3:]...), ""),
			"a line twice":      lines[0] + text,
			"two lines swapped": lines[1] + lines[0] + strings.Join(lines[2:], ""),
			"a key twice":       strings.Replace(text, `"seq":1,`, `"seq":1,"principal":"mallory",`, 1),
			"a key more":        strings.Replace(text, `"seq":1,`, `"seq":1,"note":"",`, 1),
			"a key's case":      strings.Replace(text, `"principal"`, `"Principal"`, 1),
			"not JSON":          "x\n" + text,
			"no hash":           strings.Replace(text, `"hash":"`, `"hash":"zz`, 1),
		} {
			if _, err := VerifyAuditExport(acme, strings.NewReader(changed)); !errors.Is(err, ErrAuditChain) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := VerifyAuditExport(other, strings.NewReader(text)); !errors.Is(err, ErrAuditChain) {
			t.Errorf("another tenant's chain: %v", err)
		}
	})
}

// Guarantee: RUN7
func TestTailFollowsInTheOrderOfTheChain(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	a := chained(t, b, 3)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- a.Tail(ctx, acme, 1, func(e AuditEntry) error {
			got <- fmt.Sprint(e.Seq, " ", e.Record.CallID)
			return nil
		})
	}()
	var seen []string
	for range 2 {
		seen = append(seen, <-got)
	}
	record(t, a, "late")
	seen = append(seen, <-got)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("tail ended with %v", err)
	}
	if diff := cmp.Diff([]string{"2 call_1", "3 call_2", "4 late"}, seen); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
	stop := errors.New("enough")
	if err := a.Tail(t.Context(), acme, 0, func(AuditEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("tail whose reader had enough: %v", err)
	}
}

func FuzzVerifyAuditExport(f *testing.F) {
	e := auditEntry{id: "aud_1", values: auditValues(auditRecord("call"))}
	next := genesis(string(acme)).next(e.id, e.values)
	e.seq, e.hash = next.seq, next.hash
	line, err := e.line().text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(line, '\n'))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		head, err := VerifyAuditExport(acme, bytes.NewReader(raw))
		if err == nil && head.Seq > int64(bytes.Count(raw, []byte("{"))) {
			t.Errorf("%d records in %q", head.Seq, raw)
		}
	})
}
