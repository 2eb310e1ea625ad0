package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

const (
	rollingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	rollingRounds = 4
)

// Two servers on one database are ended and started again in turn, under creates,
// deliveries and renewals of the token. The provider's ledger and the database say what
// was lost and what happened twice.
//
// Guarantee: OPS5
func TestARollingRestartLosesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		// So short that tokens are renewed all the time, by whichever process needs one.
		org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1, AccessTokenTTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer org.Close()
		c := newCLI(t, "acme/alice")
		c.more = []string{"--database", d.URL}
		c.connect(org, "alice")
		addresses := []string{freeAddress(t), freeAddress(t)}
		replicas := make([]*replica, len(addresses))
		start := func(i int) {
			r, ok := c.replica("--listen", addresses[i])
			if !ok {
				t.Fatalf("replica %d: %s", i, r.log.String())
			}
			replicas[i] = r
		}
		for i := range replicas {
			start(i)
		}
		added := c.json(0, "endpoints", "add", "--provider", "sandbox", "--url", "http://"+addresses[0], "--secret", rollingSecret)
		path := strings.TrimPrefix(text(added, "url"), "http://"+addresses[0])
		load := rolling{t: t, addresses: addresses, token: c.token(), path: path, client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}}
		defer load.client.CloseIdleConnections()

		ctx, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		defer writers.Wait()
		defer stop()
		for w := range 2 {
			writers.Go(func() { load.create(ctx, c, fmt.Sprint("w", w)) })
			writers.Go(func() { load.send(ctx, fmt.Sprint("s", w)) })
		}
		for round := range rollingRounds {
			for i := range replicas {
				made, sent := load.created.Load(), load.acknowledged.Load()
				if code := replicas[i].stop(); code != 0 {
					t.Errorf("round %d: replica %d ended with %d\n%s", round, i, code, replicas[i].log.String())
				}
				start(i)
				// Something of each has to happen between two restarts.
				for began := time.Now(); load.created.Load() == made || load.acknowledged.Load() == sent; time.Sleep(50 * time.Millisecond) {
					if t.Failed() || time.Since(began) > time.Minute {
						t.Fatalf("round %d: nothing goes on while replica %d is started again", round, i)
					}
				}
			}
		}
		stop()
		writers.Wait()
		for i, r := range replicas {
			if code := r.stop(); code != 0 {
				t.Errorf("replica %d ended with %d\n%s", i, code, r.log.String())
			}
		}

		for _, title := range load.titles {
			if n := org.Count(title); n != 1 {
				t.Errorf("%q: %d tickets, want 1", title, n)
			}
		}
		if s := org.OAuthStats(); s.KilledByRefreshReuse != 0 || s.Rotations == 0 {
			t.Errorf("%d of %d refresh tokens were used twice", s.KilledByRefreshReuse, s.Rotations)
		}
		stored, left := delivered(t, d, c.data)
		if stored != load.acknowledged.Load() || left != 0 {
			t.Errorf("%d deliveries were acknowledged, %d are stored, %d of those were not decoded", load.acknowledged.Load(), stored, left)
		}
		t.Logf("%d creates and %d deliveries over %d restarts", len(load.titles), stored, rollingRounds*len(replicas))
	})
}

// rolling is what goes on meanwhile. Every request goes to whichever replica answers.
type rolling struct {
	t         *testing.T
	addresses []string
	token     string
	path      string
	client    *http.Client

	created, acknowledged atomic.Int64
	mu                    sync.Mutex
	titles                []string // whose create was answered with success
	next                  atomic.Int64
}

func (l *rolling) base() string {
	return "http://" + l.addresses[int(l.next.Add(1))%len(l.addresses)]
}

// create proposes, has it approved and asks until the answer is success.
func (l *rolling) create(ctx context.Context, c *cli, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		title := fmt.Sprintf("rolling %s %d", name, n)
		approved := ""
		for began := time.Now(); ; {
			// Not cancelled: what was begun is carried through.
			got := callOver(l.t.Context(), l.client, l.base(), l.token, "sandbox.tickets.create",
				fmt.Sprintf(`{"project":"orders","title":%q,"body":"b","severity":"low"}`, title))
			if text(got, "status") == "success" {
				break
			}
			if approval := text(got, "error", "approval_id"); approval != "" && approval != approved && text(got, "error", "code") == "APPROVAL_REQUIRED" {
				var quiet cli // the counts of what is printed are not for two goroutines
				quiet.t, quiet.data, quiet.as, quiet.more = c.t, c.data, c.as, c.more
				if r := quiet.run("approvals", "approve", approval); r.code != 0 {
					l.t.Errorf("approve: %d %s\n%s\n%s", r.code, r.err, quiet.run("approvals", "show", approval).out, quiet.run("connections").out)
					return
				}
				approved = approval
			}
			if time.Since(began) > time.Minute {
				l.t.Errorf("%s never came through: %v", title, got)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		l.mu.Lock()
		l.titles = append(l.titles, title)
		l.mu.Unlock()
		l.created.Add(1)
	}
}

// send delivers events, each until it is acknowledged.
func (l *rolling) send(ctx context.Context, name string) {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rollingSecret, "whsec_"))
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s-%d", name, n)
		body := fmt.Sprintf(`{"type":"ticket.updated","n":%q,"data":{"ticket":{"id":"007","project":{"id":"web"}}}}`, id)
		for acknowledged := false; !acknowledged; {
			at := strconv.FormatInt(time.Now().Unix(), 10)
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(id + "." + at + "." + body))
			r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.base()+l.path, strings.NewReader(body))
			if err != nil {
				l.t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Webhook-Id", id)
			r.Header.Set("Webhook-Timestamp", at)
			r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
			if resp, err := l.client.Do(r); err == nil {
				resp.Body.Close()
				acknowledged = resp.StatusCode/100 == 2
				if resp.StatusCode/100 == 4 {
					l.t.Errorf("%s: status %d", id, resp.StatusCode)
					return
				}
			}
			time.Sleep(50 * time.Millisecond)
			if l.t.Context().Err() != nil {
				return
			}
		}
		l.acknowledged.Add(1)
	}
}

// delivered works off what is left, in this process, and counts.
func delivered(t *testing.T, d storetest.Database, data string) (stored, left int64) {
	t.Helper()
	instances, err := host.Instances(data)
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(t.Context(), host.Config{Data: data, Database: d.URL, Instances: instances, Policy: host.Local{}, Consent: host.Local{}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx, time.Second) })
	defer func() { stop(); running.Wait() }()
	for {
		s, err := h.Webhooks.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Waiting == 0 && s.Dirty == 0 || t.Context().Err() != nil {
			err := h.DB.QueryRowFor(t.Context(), store.AllTenants(), `SELECT count(*), count(CASE WHEN state <> 'decoded' THEN 1 END) FROM webhook_delivery`).Scan(&stored, &left)
			if err != nil {
				t.Fatal(err)
			}
			return stored, left
		}
		time.Sleep(20 * time.Millisecond)
	}
}
