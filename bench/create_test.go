package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// Durable commits of one create: propose with the audit record of the refusal,
// approve, dispatch, applied with the audit record, receipt after the read-back.
const commitsPerCreate = 5

// BenchmarkCreate is one ticket from the proposal to the verified receipt,
// against a plain POST and the read-back GET with as many durable one-row
// commits on the same engine. Aim: at most 1.3 times.
func BenchmarkCreate(b *testing.B) {
	s := setup(b)
	db, err := store.Open(b.Context(), store.Config{URL: filepath.Join(b.TempDir(), "floor.db"), Migrations: []store.Migrations{{
		Service: "floor", FS: fstest.MapFS{"00001_floor.sql": {Data: []byte("-- +goose Up\nCREATE TABLE floor (id BIGINT PRIMARY KEY, body BYTES NOT NULL);\n")}}}}})
	must(b, err)
	b.Cleanup(func() { db.Close() })
	n, row := 0, 0
	floor := func() {
		n++
		body, err := json.Marshal(map[string]any{"project": "orders", "title": fmt.Sprintf("floor %d", n), "body": "text", "severity": "low"})
		must(b, err)
		for range commitsPerCreate {
			row++
			must(b, db.Update(b.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec(b.Context(), `INSERT INTO floor (id, body) VALUES (?, ?)`, row, body)
				return err
			}))
		}
		request, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/tickets", bytes.NewReader(body))
		must(b, err)
		request.Header.Set("Authorization", "Bearer "+s.token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", fmt.Sprintf("floor-%d", n))
		resp, err := s.client.Do(request)
		must(b, err)
		raw, err := drain(resp)
		must(b, err)
		var made struct {
			ID string `json:"id"`
		}
		must(b, json.Unmarshal(raw, &made))
		back, err := get(s.client, s.url+"/api/v1/tickets/"+made.ID, s.token)
		must(b, err)
		raw, err = drain(back)
		must(b, err)
		must(b, json.Unmarshal(raw, &made))
	}
	ours := func() {
		n++
		draft, err := json.Marshal(tickets.Draft{Project: "orders", Title: fmt.Sprintf("ours %d", n), Body: "text", Severity: "low"})
		must(b, err)
		call := connector.Call{Tool: "tickets.create", Arguments: draft}
		asked := s.runtime.Execute(b.Context(), s.caller, call)
		mustBe(b, asked, connector.StatusError)
		_, err = s.host.Ledger.Approve(b.Context(), s.caller.Tenant, string(asked.Pending.Approval), "maria")
		must(b, err)
		mustBe(b, s.runtime.Execute(b.Context(), s.caller, call), connector.StatusSuccess)
	}
	pair(b, floor, ours)
}

// BenchmarkCreatesAtOnce is the throughput of 64 callers who each create, one
// ticket after the other, against a single one: shared commits on SQLite. The
// provider is a process on the same two cores, and its work is in both. Aim: at
// least 3 times.
func BenchmarkCreatesAtOnce(b *testing.B) {
	const callers, each = 64, 4
	s := setup(b)
	var n atomic.Int64
	create := func() error {
		draft, err := json.Marshal(tickets.Draft{Project: "orders", Title: fmt.Sprintf("at once %d", n.Add(1)), Body: "text", Severity: "low"})
		if err != nil {
			return err
		}
		call := connector.Call{Tool: "tickets.create", Arguments: draft}
		asked := s.runtime.Execute(b.Context(), s.caller, call)
		if asked.Pending == nil {
			return fmt.Errorf("proposed as %s: %s", asked.Status, asked.Summary)
		}
		if _, err = s.host.Ledger.Approve(b.Context(), s.caller.Tenant, string(asked.Pending.Approval), "maria"); err != nil {
			return err
		}
		if made := s.runtime.Execute(b.Context(), s.caller, call); made.Status != connector.StatusSuccess {
			return fmt.Errorf("created as %s: %s", made.Status, made.Summary)
		}
		return nil
	}
	must(b, create())
	var alone, together time.Duration
	for b.Loop() {
		start := time.Now()
		for range callers {
			must(b, create())
		}
		alone += time.Since(start)
		start = time.Now()
		var group errgroup.Group
		for range callers {
			group.Go(func() error {
				for range each {
					if err := create(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		must(b, group.Wait())
		together += time.Since(start)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(callers*b.N)/alone.Seconds(), "serial/s")
	b.ReportMetric(float64(callers*each*b.N)/together.Seconds(), "at-once/s")
	b.ReportMetric(each*alone.Seconds()/together.Seconds(), "x-serial")
}
