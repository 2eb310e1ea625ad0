package bench

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

const (
	webhookSenders = 64
	webhookRound   = 256 // deliveries
	webhookSecret  = "the secret of the benchmarks"
)

// webhookFloor holds rows as large as a stored delivery.
var webhookFloor = store.Migrations{Service: "floor", FS: fstest.MapFS{"00001_floor.sql": {
	Data: []byte("-- +goose Up\nCREATE TABLE floor (id BIGINT PRIMARY KEY, body BYTES NOT NULL);\n")}}}

// webhookHouse is a service on one database. It stores, and works only while it is run.
type webhookHouse struct {
	db      *store.DB
	handler http.Handler
	path    string
	body    string
	next    atomic.Int64
	service *webhooks.Service

	postgres bool
}

func newWebhookHouse(b *testing.B, address string) *webhookHouse {
	b.Helper()
	db, err := store.Open(b.Context(), store.Config{URL: address, Migrations: []store.Migrations{webhooks.Migrations(), inbox.Migrations(), webhookFloor}})
	must(b, err)
	b.Cleanup(func() { db.Close() })
	text, err := keys.Generate()
	must(b, err)
	ring, err := keys.Parse(text)
	must(b, err)
	in, err := inbox.New(inbox.Config{DB: db, Sealer: ring})
	must(b, err)
	decode := func(c connector.Connection, d inbox.Delivery) ([]inbox.Mark, error) {
		return []inbox.Mark{{Lane: inbox.Lane{Tenant: "acme", Provider: "sandbox", Connection: "c1", Kind: "ticket", Object: d.ID[:2]}}}, nil
	}
	s, err := webhooks.New(webhooks.Config{DB: db, Keys: ring, Inbox: in, Decoders: map[string]webhooks.Decoder{"sandbox": decode}, MaxBacklog: 1 << 30,
		Connection: func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error) {
			return connector.Connection{}, nil
		},
		Apply: func(ctx context.Context, l inbox.Lease) error {
			return db.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error { return in.Complete(ctx, tx, l) })
		}})
	must(b, err)
	added, err := s.Add(b.Context(), webhooks.AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "github", Secret: webhookSecret})
	must(b, err)
	return &webhookHouse{db: db, service: s, handler: s.Handler(), path: added.Path, body: strings.Repeat("x", 2000), postgres: !strings.HasPrefix(address, "sqlite:")}
}

// send has deliveries acknowledged at 64 senders and returns how long each took.
func (h *webhookHouse) send(b *testing.B, deliveries int) []time.Duration {
	var left atomic.Int64
	left.Store(int64(deliveries))
	took := make([][]time.Duration, webhookSenders)
	var senders sync.WaitGroup
	for i := range took {
		senders.Go(func() {
			for left.Add(-1) >= 0 {
				n := h.next.Add(1)
				body := fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, h.body)
				mac := hmac.New(sha256.New, []byte(webhookSecret))
				mac.Write([]byte(body))
				request := httptest.NewRequest(http.MethodPost, h.path, strings.NewReader(body))
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("X-Github-Delivery", fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.FormatInt(n, 10)))))
				request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
				answer := httptest.NewRecorder()
				began := time.Now()
				h.handler.ServeHTTP(answer, request)
				took[i] = append(took[i], time.Since(began))
				if answer.Code != http.StatusAccepted {
					b.Errorf("status %d", answer.Code)
					return
				}
			}
		})
	}
	senders.Wait()
	return slices.Concat(took...)
}

// age adds deliveries until there are n, as a month leaves them: ids and digests of
// their own, and a body in the tenth that is younger than the 72 hours that bodies are
// kept. The indexes are made at the end, since filling them at random takes hours.
func (h *webhookHouse) age(ctx context.Context, tx *store.Tx, have, n int) error {
	id, random, digest := "printf('00%026d', ?1 + row_number() OVER ())", "lower(hex(randomblob(16)))", "randomblob(32)"
	list := `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'webhook_delivery' AND sql IS NOT NULL`
	if h.postgres {
		id, random, digest = "'00' || lpad((?1::bigint + row_number() OVER ())::text, 26, '0')", "md5(random()::text)", "sha256(random()::text::bytea)"
		list = `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'webhook_delivery' AND indexname NOT LIKE '%pkey'`
	}
	rows, err := tx.Query(ctx, list)
	if err != nil {
		return err
	}
	indexes := map[string]string{}
	for rows.Next() {
		var name, statement string
		if err := rows.Scan(&name, &statement); err != nil {
			return err
		}
		indexes[name] = statement
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for name := range indexes {
		if _, err := tx.Exec(ctx, "DROP INDEX "+name); err != nil {
			return err
		}
	}
	for have < n {
		more := min(10_000, n-have)
		if _, err := tx.Exec(ctx, `INSERT INTO webhook_delivery (id, tenant, endpoint, delivery_id, digest, conflict_of, provider, connection, event_type, secret,
				id_signed, pull, received_at, state, reason, tries, claimed_until, decoded_at, marks, repeats, kept, body)
			SELECT `+id+`, tenant, endpoint, `+random+`, `+digest+`, conflict_of, provider, connection, event_type, secret,
				id_signed, pull, received_at, state, reason, tries, claimed_until, decoded_at, marks, repeats,
				CASE WHEN young THEN 1 ELSE 0 END, CASE WHEN young THEN body END
			FROM (SELECT *, id LIKE '%0' AS young FROM webhook_delivery WHERE id >= '01' LIMIT ?2) AS source`, have, more); err != nil {
			return err
		}
		have += more
	}
	for _, statement := range indexes {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// engines runs a benchmark on SQLite and, when there is a server, on PostgreSQL.
func engines(b *testing.B, fn func(b *testing.B, database func() string)) {
	b.Run("sqlite", func(b *testing.B) {
		fn(b, func() string { return "sqlite:" + filepath.Join(b.TempDir(), rand.Text()+".db") })
	})
	server := os.Getenv("DRAWBRIDGE_TEST_POSTGRES")
	if server == "" {
		return
	}
	b.Run("postgresql", func(b *testing.B) {
		admin, err := store.Open(b.Context(), store.Config{URL: server})
		must(b, err)
		b.Cleanup(func() { admin.Close() })
		run := func(statement string) error {
			return admin.Update(context.Background(), func(tx *store.Tx) error {
				_, err := tx.Exec(context.Background(), statement)
				return err
			})
		}
		fn(b, func() string {
			schema := "bench_" + strings.ToLower(rand.Text())
			must(b, run("CREATE SCHEMA "+schema))
			b.Cleanup(func() { must(b, run("DROP SCHEMA "+schema+" CASCADE")) })
			u, err := url.Parse(server)
			must(b, err)
			q := u.Query()
			q.Set("search_path", schema)
			u.RawQuery = q.Encode()
			return u.String()
		})
	})
}

// BenchmarkWebhooks is deliveries at 64 senders, from the request to the answer
// that says that they are on disk, against commits of one row of the same size,
// one after the other. Aim: three times the floor's throughput on SQLite, two
// and a half times on PostgreSQL, 99 in 100 answered within 250 ms.
func BenchmarkWebhooks(b *testing.B) {
	engines(b, func(b *testing.B, database func() string) {
		h := newWebhookHouse(b, database())
		row := 0
		floor := func(n int) {
			for range n {
				row++
				must(b, h.db.Update(b.Context(), func(tx *store.Tx) error {
					_, err := tx.Exec(b.Context(), `INSERT INTO floor (id, body) VALUES (?, ?)`, row, []byte(h.body))
					return err
				}))
			}
		}
		floor(20)
		h.send(b, webhookRound)
		var took, floors, ours []time.Duration
		for b.Loop() {
			began := time.Now()
			floor(webhookRound)
			floors = append(floors, time.Since(began))
			began = time.Now()
			took = append(took, h.send(b, webhookRound)...)
			ours = append(ours, time.Since(began))
		}
		floorTime, oursTime := median(floors), median(ours)
		slices.Sort(took)
		b.ReportMetric(0, "ns/op") // of both together: says nothing
		b.ReportMetric(webhookRound/floorTime.Seconds(), "floor/s")
		b.ReportMetric(webhookRound/oursTime.Seconds(), "acknowledged/s")
		b.ReportMetric(float64(floorTime)/float64(oursTime), "x-floor-throughput")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	})
}

// BenchmarkWebhooksApplied has the work behind the receiver run under the same load,
// with 256 resources and nothing to fetch, and reports how long after the last
// acknowledgement of a round all of it is applied.
func BenchmarkWebhooksApplied(b *testing.B) {
	engines(b, func(b *testing.B, database func() string) {
		h := newWebhookHouse(b, database())
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		running.Go(func() { h.service.Run(ctx) })
		defer running.Wait()
		defer stop()
		var lags, rounds []time.Duration
		for b.Loop() {
			began := time.Now()
			h.send(b, 4*webhookRound)
			acknowledged := time.Now()
			for {
				s, err := h.service.Stats(b.Context())
				must(b, err)
				if s.Waiting == 0 && s.Dirty == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			rounds, lags = append(rounds, acknowledged.Sub(began)), append(lags, time.Since(acknowledged))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(4*webhookRound/median(rounds).Seconds(), "acknowledged/s")
		b.ReportMetric(float64(median(lags).Microseconds())/1000, "lag-ms")
	})
}

// BenchmarkWebhooksStored is the same with many deliveries stored before,
// against ten thousand of them: DRAWBRIDGE_BENCH_STORED says how many, by
// default thirty thousand. Aim: as fast.
func BenchmarkWebhooksStored(b *testing.B) {
	many := 30_000
	if text := os.Getenv("DRAWBRIDGE_BENCH_STORED"); text != "" {
		n, err := strconv.Atoi(text)
		must(b, err)
		many = n
	}
	engines(b, func(b *testing.B, database func() string) {
		filled := func(n int) *webhookHouse {
			h := newWebhookHouse(b, database())
			h.send(b, 10_000)
			must(b, h.db.Update(b.Context(), func(tx *store.Tx) error {
				_, err := tx.Exec(b.Context(), `UPDATE webhook_delivery SET state = 'decoded', decoded_at = 1`)
				return err
			}))
			must(b, h.db.Update(b.Context(), func(tx *store.Tx) error { return h.age(b.Context(), tx, 10_000, n) }))
			return h
		}
		few, lots := filled(10_000), filled(many)
		var times [2][]time.Duration
		for b.Loop() {
			for i, h := range []*webhookHouse{few, lots} {
				began := time.Now()
				h.send(b, webhookRound)
				times[i] = append(times[i], time.Since(began))
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(webhookRound/median(times[0]).Seconds(), "few/s")
		b.ReportMetric(webhookRound/median(times[1]).Seconds(), "many/s")
		b.ReportMetric(float64(median(times[1]))/float64(median(times[0])), "x-few")
	})
}
