package webhooks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

const childVariable = "DRAWBRIDGE_WEBHOOKS_CHILD"

// killLease is how long the lanes of a killed process rest in these tests.
const killLease = 2 * time.Second

// order is what a child process is told: to be a service on this database, and to
// kill itself when it comes to a point with what is named after that point.
type order struct {
	Database, Keys string
	Die            string // empty: somebody else kills it
}

// reached is SIGKILL at that point: no deferred function, no buffer, no goodbye.
func (o order) reached(point, what string) {
	if o.Die != point || !strings.Contains(what, point) {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// The state that applies write: per object the count of marks that the last
// apply had seen, and one row for each apply. The same state applied twice
// violates the key; a version that goes back is refused by what apply does.
var trial = store.Migrations{Service: "trial", FS: fstest.MapFS{"00001_trial.sql": {Data: []byte(`-- +goose Up
CREATE TABLE trial_object (lane TEXT PRIMARY KEY, version BIGINT NOT NULL, fence BIGINT NOT NULL);
CREATE TABLE trial_apply (lane TEXT NOT NULL, version BIGINT NOT NULL, fence BIGINT NOT NULL, PRIMARY KEY (lane, version));
CREATE TABLE trial_fault (what TEXT NOT NULL);
`)}}}

// child serves and works until it is killed.
func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	r, err := keys.Parse(o.Keys)
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Config{URL: o.Database, Migrations: []store.Migrations{Migrations(), inbox.Migrations(), trial}})
	if err != nil {
		return err
	}
	in, err := inbox.New(inbox.Config{DB: db, Sealer: mortalSealer{r, o}, Lease: killLease, PerConnection: 8})
	if err != nil {
		return err
	}
	s, err := New(Config{DB: db, Keys: r, Inbox: in, Connection: connection, Decoders: map[string]Decoder{"sandbox": decodeText},
		Log:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Apply: func(ctx context.Context, l inbox.Lease) error { return applyTrial(ctx, db, in, l, o) }})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go s.Run(ctx)
	fmt.Println("http://" + listener.Addr().String())
	return (&http.Server{Handler: mortalHandler{s.Handler(), o}, ReadHeaderTimeout: 5 * time.Second}).Serve(listener)
}

func applyTrial(ctx context.Context, db *store.DB, in *inbox.Inbox, l inbox.Lease, o order) error {
	o.reached(afterClaim, l.Object)
	time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond) // the fetch
	o.reached(afterFetch, l.Object)
	err := db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		if err := in.Complete(ctx, tx, l); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO trial_object (lane, version, fence) VALUES (?1, ?2, ?3)
			ON CONFLICT (lane) DO UPDATE SET version = ?2, fence = ?3 WHERE trial_object.version < ?2 AND trial_object.fence < ?3`,
			l.ID(), l.Dirty, l.Fence)
		if err != nil {
			return err
		}
		if n == 0 {
			_, err = tx.Exec(ctx, `INSERT INTO trial_fault (what) VALUES (?)`, fmt.Sprintf("lane %s went back to %d", l.Object, l.Dirty))
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO trial_apply (lane, version, fence) VALUES (?, ?, ?)`, l.ID(), l.Dirty, l.Fence)
		return err
	})
	o.reached(afterApply, l.Object)
	return err
}

// process is a child that was started.
type process struct {
	cmd *exec.Cmd
	url string
	err *bytes.Buffer
}

func start(t *testing.T, o order) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	raw, err := json.Marshal(o)
	must(t, err)
	p := &process{cmd: exec.Command(self), err: new(bytes.Buffer)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(raw))
	p.cmd.Stderr = p.err
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		t.Fatalf("the child did not start: %v: %s", err, p.err)
	}
	p.url = strings.TrimSpace(line)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // SIGKILL: no deferred function, no buffer, no goodbye
	_ = p.cmd.Wait()
}

// TestKill sends at full speed and repeats what was not acknowledged, as a
// provider does, while the receiving processes are killed at random moments and
// started again. Two of them share the database, also on SQLite.
//
// W19, W20, W32, W33, W34; G1, G2, G3, G7, G9; OPS5 with sudden instead of
// orderly ends.
// Guarantee: HOO2, HOO3
func TestKill(t *testing.T) {
	full := os.Getenv("DRAWBRIDGE_KILL") == "full"
	lasts := 3 * time.Second
	if full {
		lasts = time.Minute
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { killTrial(t, d, lasts) })
}

func killTrial(t *testing.T, d storetest.Database, lasts time.Duration) {
	text, err := keys.Generate()
	must(t, err)
	r, err := keys.Parse(text)
	must(t, err)
	db := d.Open(Migrations(), inbox.Migrations(), trial)
	in, err := inbox.New(inbox.Config{DB: db, Sealer: r})
	must(t, err)
	s, err := New(Config{DB: db, Keys: r, Inbox: in, Connection: connection, Decoders: map[string]Decoder{"sandbox": decodeText},
		Apply: func(context.Context, inbox.Lease) error { return nil }})
	must(t, err)
	added, err := s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "github", Secret: githubSecret})
	must(t, err)

	var urls [2]atomic.Pointer[string]
	end := time.Now().Add(lasts)
	var kills, refused, repeats atomic.Int64
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	// A busy machine takes longer for as much, and no less of it shows anything.
	const least = 50
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().After(end) && (len(acknowledged) >= least || time.Now().After(end.Add(2*time.Minute)))
	}
	o := order{Database: d.URL, Keys: text}

	var parts sync.WaitGroup
	ready := make(chan struct{}, len(urls))
	for i := range urls {
		parts.Go(func() {
			p := start(t, o)
			defer func() { p.kill() }()
			for {
				urls[i].Store(&p.url)
				ready <- struct{}{}
				time.Sleep(time.Duration(100+rand.IntN(900)) * time.Millisecond)
				if over() {
					return
				}
				p.kill()
				kills.Add(1)
				p = start(t, o)
			}
		})
	}
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case <-ready:
			case <-quit:
				return
			}
		}
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 5 * time.Second}
	var senders sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		senders.Go(func() {
			for !over() {
				n := next.Add(1)
				id, body := fmt.Sprint("k", n), fmt.Sprintf("orders/%d#%d", n%50, n)
				for try := 0; !over(); try++ {
					url := urls[rand.IntN(len(urls))].Load()
					if url == nil {
						time.Sleep(5 * time.Millisecond)
						continue
					}
					req, err := http.NewRequest(http.MethodPost, *url+added.Path, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header = github(id, body)
					resp, err := client.Do(req)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if err != nil || resp.StatusCode >= 500 {
						refused.Add(1)
						time.Sleep(5 * time.Millisecond)
						continue
					}
					if resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %s", id, resp.Status)
						return
					}
					if resp.StatusCode == http.StatusOK {
						repeats.Add(1) // it was stored, and its process died before the answer
					}
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
					break
				}
			}
		})
	}
	senders.Wait()
	parts.Wait()
	close(quit)
	client.CloseIdleConnections()

	// One process more finishes the work; nobody kills it.
	last := start(t, o)
	defer last.kill()
	began := time.Now()
	for {
		v, err := in.Stats(t.Context())
		must(t, err)
		if v.Waiting == 0 && v.Dirty == 0 && v.Parked == 0 {
			break
		}
		if time.Since(began) > time.Minute {
			lanes, err := in.Lanes(t.Context(), inbox.LaneFilter{Tenant: "acme"})
			t.Fatalf("not finished after a minute: %+v, %v %v; %s", v, lanes, err, last.err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	recovery := time.Since(began)
	judge(t, db, acknowledged)
	t.Logf("figure: kill %s: %d acknowledged, %d kills, %d requests broken off, %d repeats recognised, 0 lost, 0 applied twice; finished %.1f s after the last kill (lease %v)",
		d.Engine, len(acknowledged), kills.Load(), refused.Load(), repeats.Load(), recovery.Seconds(), killLease)
	if kills.Load() == 0 || len(acknowledged) < least {
		t.Errorf("%d kills and %d acknowledged: that shows nothing", kills.Load(), len(acknowledged))
	}
}

// judge reads the tables directly, not through the code under test.
func judge(t *testing.T, db *store.DB, acknowledged map[string]bool) {
	t.Helper()
	count := func(query string) (n int) {
		t.Helper()
		must(t, db.QueryRowFor(t.Context(), store.AllTenants(), query).Scan(&n))
		return n
	}
	there := map[string]string{}
	must(t, db.EachFor(t.Context(), store.AllTenants(), func(row store.Scanner) error {
		var id, state string
		err := row.Scan(&id, &state)
		if there[id] != "" {
			t.Errorf("%s is stored twice", id)
		}
		there[id] = state
		return err
	}, `SELECT delivery_id, state FROM webhook_delivery`))
	lost := 0
	for id := range acknowledged {
		if there[id] != inbox.StateDecoded {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged deliveries are not there or not decoded", lost, len(acknowledged))
	}
	if n := count(`SELECT COUNT(*) FROM trial_fault`); n > 0 {
		t.Errorf("%d applies went back to an older version", n)
	}
	if n := count(`SELECT COUNT(*) FROM webhook_lane l LEFT JOIN trial_object o ON o.lane = l.id WHERE o.version IS NULL OR o.version <> l.dirty`); n > 0 {
		t.Errorf("%d lanes are not applied as far as they were marked", n)
	}
	if n := count(`SELECT COUNT(*) FROM trial_apply a JOIN trial_apply b ON a.lane = b.lane AND a.version < b.version AND a.fence >= b.fence`); n > 0 {
		t.Errorf("%d applies of a lane are out of order", n)
	}
}
