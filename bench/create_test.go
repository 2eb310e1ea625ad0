package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"testing/fstest"

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
