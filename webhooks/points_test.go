package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// The points at which a process is killed. Each has an object of its own, of the same
// name.
const (
	beforeInsert = "before-insert"
	afterInsert  = "after-insert" // and before the commit
	afterCommit  = "after-commit" // and before the answer
	afterClaim   = "after-claim"
	afterFetch   = "after-fetch"
	afterApply   = "after-apply"
)

// mortalSealer dies before a delivery is inserted, which is sealed first.
type mortalSealer struct {
	*keys.Ring
	o order
}

func (m mortalSealer) Seal(plaintext, context []byte) ([]byte, error) {
	m.o.reached(beforeInsert, string(plaintext))
	return m.Ring.Seal(plaintext, context)
}

// mortalHandler dies when an answer is to be written.
type mortalHandler struct {
	http.Handler
	o order
}

func (m mortalHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Handler.ServeHTTP(mortalWriter{w, m.o}, r)
}

type mortalWriter struct {
	http.ResponseWriter
	o order
}

func (m mortalWriter) WriteHeader(status int) {
	m.o.reached(afterCommit, m.o.Die) // such a child is sent one delivery
	m.ResponseWriter.WriteHeader(status)
}

func (m mortalWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// A process is killed at each point on the way of a delivery, after an older one of the
// same object was applied. What was acknowledged is there and applied once, what was not
// is stored wholly or not at all, and the sender's repeat finds that out.
//
// W19, W20, W32, W33; G1, G2, G3, G7
// Guarantee: HOO2, HOO3
func TestKillAtEachPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes on each engine")
	}
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		text, err := keys.Generate()
		must(t, err)
		r, err := keys.Parse(text)
		must(t, err)
		p := &points{t: t, d: d, db: d.Open(Migrations(), inbox.Migrations(), trial), o: order{Database: d.URL, Keys: text}}
		p.in, err = inbox.New(inbox.Config{DB: p.db, Sealer: r})
		must(t, err)
		s, err := New(Config{DB: p.db, Keys: r, Inbox: p.in, Connection: connection, Decoders: map[string]Decoder{"sandbox": decodeText},
			Apply: func(context.Context, inbox.Lease) error { return nil }})
		must(t, err)
		p.to, err = s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "github", Secret: githubSecret})
		must(t, err)
		p.run()
	})
}

type points struct {
	t  *testing.T
	d  storetest.Database
	db *store.DB
	in *inbox.Inbox
	o  order
	to Added
}

func (p *points) run() {
	t, all := p.t, []string{beforeInsert, afterInsert, afterCommit, afterClaim, afterFetch, afterApply}
	acknowledged := map[string]bool{}
	first := start(t, p.o)
	defer first.kill()
	for _, point := range all {
		id := "first-" + point
		if status := p.send(first, id, point); status != http.StatusAccepted {
			t.Errorf("%s: %d", id, status)
		}
		acknowledged[id] = true
	}
	p.finished(first)
	first.kill()
	for _, point := range all {
		if got, want := p.look(point), (found{stored: 1, marked: 1, version: 1, applies: 1}); got != want {
			t.Fatalf("%s, before anything is killed: %+v", point, got)
		}
	}

	for _, point := range all {
		id := "second-" + point
		status := p.dieAt(point, id)
		if acknowledged[id] = status == http.StatusAccepted; !acknowledged[id] && status != 0 {
			t.Errorf("%s: answered %d", point, status)
		}
		got := p.look(point)
		want := map[string]found{
			beforeInsert: {stored: 1, marked: 1, version: 1, applies: 1},
			afterInsert:  {stored: 1, marked: 1, version: 1, applies: 1},
			// Decoding may have begun, or even be over, in the moment of the answer.
			afterCommit: {stored: 2, marked: got.marked, version: got.version, applies: got.applies},
			afterClaim:  {stored: 2, marked: 2, version: 1, applies: 1},
			afterFetch:  {stored: 2, marked: 2, version: 1, applies: 1},
			afterApply:  {stored: 2, marked: 2, version: 2, applies: 2},
		}[point]
		if got != want {
			t.Errorf("%s: %+v, want %+v", point, got, want)
		}
		if acknowledged[id] && slices.Contains([]string{beforeInsert, afterInsert, afterCommit}, point) {
			t.Errorf("%s: acknowledged by a process that was dead", point)
		}
	}

	// What was not acknowledged is sent again, and to be sure the rest too.
	last := start(t, p.o)
	defer last.kill()
	for _, point := range all {
		id, want := "second-"+point, http.StatusOK
		if point == beforeInsert || point == afterInsert {
			want = http.StatusAccepted
		}
		if status := p.send(last, id, point); status != want {
			t.Errorf("%s, sent again: %d, want %d", id, status, want)
		}
		acknowledged[id] = true
	}
	p.finished(last)
	judge(t, p.db, acknowledged)
	for _, point := range all {
		if got, want := p.look(point), (found{stored: 2, marked: 2, version: 2, applies: 2}); got != want {
			t.Errorf("%s, in the end: %+v, want %+v", point, got, want)
		}
	}
	t.Logf("figure: kill at each point %s: %d points, %d acknowledged, failed %v", p.d.Engine, len(all), len(acknowledged), t.Failed())
}

// dieAt delivers to a process that is killed at the point, and returns what it answered.
func (p *points) dieAt(point, id string) (status int) {
	t, o := p.t, p.o
	o.Die = point
	child := start(t, o)
	defer child.kill()
	kill := func() {} // the child does it
	if point == afterInsert {
		kill = p.hold(child, id)
	}
	answer := make(chan int, 1)
	go func() { answer <- p.send(child, id, point) }()
	kill()
	status = <-answer
	if err := child.cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%s: the child was not killed (%v): %s", point, err, child.err)
	}
	return status
}

// send delivers an event of the object that a point is named after; 0 is no answer.
func (p *points) send(to *process, id, object string) (status int) {
	body := "orders/" + object + "#" + id
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, to.url+p.to.Path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return 0
	}
	req.Header = github(id, body)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (p *points) until(what string, done func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: not after a minute", what)
		}
	}
}

func (p *points) finished(by *process) {
	p.t.Helper()
	p.until("the work of "+by.url, func() bool {
		v, err := p.in.Stats(p.t.Context())
		must(p.t, err)
		return v.Waiting == 0 && v.Dirty == 0 && v.Parked == 0
	})
}

// found is what the tables hold of an object: deliveries, how often its lane was marked,
// the version that was applied last, and how many were.
type found struct{ stored, marked, version, applies int }

func (p *points) look(object string) (f found) {
	p.t.Helper()
	lane := inbox.Lane{Tenant: "acme", Provider: "sandbox", Connection: "c1", Kind: "ticket", Object: object}.ID()
	for _, x := range []struct {
		into       *int
		query, arg string
	}{
		{&f.stored, `SELECT COUNT(*) FROM webhook_delivery WHERE delivery_id LIKE ?`, "%-" + object},
		{&f.marked, `SELECT dirty FROM webhook_lane WHERE id = ?`, lane},
		{&f.version, `SELECT version FROM trial_object WHERE lane = ?`, lane},
		{&f.applies, `SELECT COUNT(*) FROM trial_apply WHERE lane = ?`, lane},
	} {
		if err := p.db.QueryRowFor(p.t.Context(), store.AllTenants(), x.query, x.arg).Scan(x.into); err != nil && !errors.Is(err, sql.ErrNoRows) {
			p.t.Fatal(err)
		}
	}
	return f
}

func (p *points) exec(statements ...string) {
	p.t.Helper()
	must(p.t, p.db.Update(p.t.Context(), func(tx *store.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(p.t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	}))
}

// hold has the database stop in the middle of the transaction that has inserted a
// delivery, and returns what kills the child there.
func (p *points) hold(child *process, id string) (kill func()) {
	if p.d.Engine == store.SQLite {
		return p.holdSQLite(child, id)
	}
	return p.holdPostgreSQL(child, id)
}

// holdSQLite goes on writing behind the insert, so that the log grows by what is not
// committed.
func (p *points) holdSQLite(child *process, id string) (kill func()) {
	p.exec(`CREATE TABLE trial_ballast (b BLOB)`,
		`CREATE VIEW trial_endless AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) SELECT i FROM n`,
		fmt.Sprintf(`CREATE TRIGGER trial_hold AFTER INSERT ON webhook_delivery WHEN NEW.delivery_id = '%s'
			BEGIN INSERT INTO trial_ballast SELECT zeroblob(65536) FROM trial_endless; END`, id))
	log := strings.TrimPrefix(p.d.URL, "sqlite:") + "-wal"
	size := func() int64 {
		f, err := os.Stat(log)
		must(p.t, err)
		return f.Size()
	}
	before := size()
	return func() {
		p.until("the log grows", func() bool { return size() > before+1<<20 })
		_ = child.cmd.Process.Kill()
		p.exec(`DROP TRIGGER trial_hold`)
		if n := p.count(`SELECT COUNT(*) FROM trial_ballast`); n != 0 {
			p.t.Errorf("the transaction was committed: %d rows", n)
		}
	}
}

// holdPostgreSQL waits for a lock behind the insert.
func (p *points) holdPostgreSQL(child *process, id string) (kill func()) {
	p.exec(`CREATE FUNCTION trial_hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$`,
		fmt.Sprintf(`CREATE TRIGGER trial_hold AFTER INSERT ON webhook_delivery FOR EACH ROW WHEN (NEW.delivery_id = '%s') EXECUTE FUNCTION trial_hold()`, id))
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- p.db.Update(p.t.Context(), func(tx *store.Tx) error {
			if _, err := tx.Exec(p.t.Context(), `SELECT pg_advisory_xact_lock(4711)`); err != nil {
				return err
			}
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	const locks = `SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	return func() {
		p.until("the insert waits", func() bool { return p.count(locks+` AND NOT granted`) == 1 })
		_ = child.cmd.Process.Kill()
		close(release)
		must(p.t, <-ended)
		p.until("the server notices", func() bool { return p.count(locks) == 0 })
		p.exec(`DROP TRIGGER trial_hold ON webhook_delivery`)
	}
}

func (p *points) count(query string) (n int) {
	p.t.Helper()
	must(p.t, p.db.QueryRow(p.t.Context(), query).Scan(&n))
	return n
}
