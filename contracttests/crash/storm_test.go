package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// stormPart is one process's share of a storm: drafts From to To, of which
// other processes propose some as well.
type stormPart struct {
	Process, Processes, Workers, Total int
}

// stormCounts is what one process saw.
type stormCounts struct {
	Done     int            `json:"done"`   // drafts that ended applied
	Shared   int            `json:"shared"` // of them, proposed by several processes
	Calls    int            `json:"calls"`
	Answers  map[string]int `json:"answers"`
	Receipts int            `json:"receipts"`
}

// mine tells whether this process proposes draft i. Every tenth draft is
// proposed by everyone.
func (p *stormPart) mine(i int) bool { return i%10 == 0 || i%p.Processes == p.Process }

// run works the drafts off, each until it is applied, beside the periodic work
// of a host.
func (p *stormPart) run(ctx context.Context, h *house) error {
	counts := stormCounts{Answers: map[string]int{}}
	var mu sync.Mutex
	var failed atomic.Pointer[error]
	work := make(chan int)
	quit, stop := context.WithCancel(ctx)
	var helpers, workers sync.WaitGroup
	helpers.Go(func() {
		for quit.Err() == nil {
			_, _ = h.tick(quit) // what it can't do now it does the next time
			select {
			case <-time.After(100 * time.Millisecond):
			case <-quit.Done():
			}
		}
	})
	for range p.Workers {
		workers.Go(func() {
			for i := range work {
				if err := p.one(ctx, h, i, &mu, &counts); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	for i := range p.Total {
		if p.mine(i) {
			work <- i
		}
	}
	close(work)
	workers.Wait()
	stop()
	helpers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

// one proposes a draft, has it approved, and asks again until it is applied.
func (p *stormPart) one(ctx context.Context, h *house, i int, mu *sync.Mutex, counts *stormCounts) error {
	title := fmt.Sprintf("storm %d", i)
	pause := 10 * time.Millisecond
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		r := h.create(ctx, title)
		answer := string(r.Status)
		if r.Error != nil {
			answer = r.Error.Code.String()
		}
		mu.Lock()
		counts.Calls++
		counts.Answers[answer]++
		mu.Unlock()
		switch {
		case r.Status == connector.StatusSuccess || r.Status == connector.StatusPartial:
			mu.Lock()
			defer mu.Unlock()
			counts.Done++
			if i%10 == 0 {
				counts.Shared++
			}
			if r.Receipt != nil {
				counts.Receipts++
			}
			return nil
		case r.Pending != nil:
			// CONFLICT: another process's person decided, or it ended meanwhile.
			switch err := h.approve(ctx, r.Pending.Approval); connector.CodeOf(err) {
			case 0, connector.CodeConflict, connector.CodeUnavailable:
			default:
				return fmt.Errorf("%s: approve: %w", title, err)
			}
			continue
		case r.Error.Code == connector.CodeOutcomeUnknown, r.Error.Code == connector.CodeUnavailable,
			r.Error.Code == connector.CodeApprovalRequired, r.Error.Code == connector.CodeOverloaded,
			r.Error.Code == connector.CodeRateLimited, r.Error.Code == connector.CodeDeadline:
		default:
			return fmt.Errorf("%s: %s %v: %s", title, r.Status, r.Error.Code, r.Error.Message)
		}
		time.Sleep(pause)
		pause = min(2*pause, 500*time.Millisecond)
	}
	return errors.New(title + " did not end in five minutes")
}

// stormFaults hits two creates in a hundred with each kind of fault.
func stormFaults() sandbox.Behaviour {
	var b sandbox.Behaviour
	for i, e := range []sandbox.Effect{
		{Kind: "lose_answer_after_commit"},
		{Kind: "reset_before"},
		{Kind: "status", Status: 500},
		{Kind: "status", Status: 503, RetryAfter: "1"},
		{Kind: "slow_body", Bytes: 200, DelayMS: 20},
		{Kind: "truncate"},
	} {
		b.Rules = append(b.Rules, sandbox.Rule{Effect: e,
			Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Probability: 0.02, Seed: int64(i + 1)}})
	}
	return b
}

// TestStorm lets several processes with many workers each create tickets on
// one database, with faults and duplicate proposals among them.
//
// T01, T02, T12; E4, E5, E7, E9.
// Guarantee: TIX5, TIX6
func TestStorm(t *testing.T) {
	t.Parallel()
	total, processes, workers := 300, 2, 64
	if text := os.Getenv("DRAWBRIDGE_STORM"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("DRAWBRIDGE_STORM is %q, not a number of creates", text)
		}
		total, processes, workers = n, 4, 64
		storetest.Each(t, func(t *testing.T, d storetest.Database) { storm(t, d, total, processes, workers) })
		return
	}
	storm(t, storetest.SQLite(t), total, processes, workers)
}

func storm(t *testing.T, d storetest.Database, total, processes, workers int) {
	ctx := t.Context()
	org, err := sandbox.Start(ctx, sandbox.Config{Seed: 1, AccessTokenTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer org.Close()
	p := place{Data: t.TempDir(), Database: d.URL, Provider: org.URL(), Lease: 30 * time.Second, GiveUp: time.Hour}
	h, err := open(ctx, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := h.connect(ctx, org); err != nil {
		t.Fatal(err)
	}
	if err := org.SetBehaviour(stormFaults()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var sum stormCounts
	sum.Answers = map[string]int{}
	var wait []func()
	for i := range processes {
		cmd, out := start(t, order{place: p, Storm: &stormPart{i, processes, workers, total}})
		wait = append(wait, func() {
			err := cmd.Wait()
			var c stormCounts
			if err == nil {
				err = json.Unmarshal(out.Bytes(), &c)
			}
			if err != nil {
				t.Errorf("process %d: %v: %s", i, err, out)
				return
			}
			sum.Done, sum.Shared, sum.Calls = sum.Done+c.Done, sum.Shared+c.Shared, sum.Calls+c.Calls
			sum.Receipts += c.Receipts
			for code, n := range c.Answers {
				sum.Answers[code] += n
			}
		})
	}
	for _, w := range wait {
		w()
	}
	took := time.Since(began)
	fired := org.Fired()
	if err := org.SetBehaviour(sandbox.Behaviour{}); err != nil {
		t.Fatal(err)
	}
	judge(t, ctx, h, org)
	tickets := map[string]int{}
	for _, w := range org.Ledger() {
		tickets[w.Title]++
	}
	duplicates, lost := 0, 0
	for i := range total {
		switch n := tickets[fmt.Sprintf("storm %d", i)]; {
		case n == 0:
			lost++
		case n > 1:
			duplicates++
		}
	}
	if duplicates > 0 || lost > 0 || sum.Receipts != sum.Done || t.Failed() {
		t.Errorf("%d duplicates, %d lost, %d receipts for %d answers", duplicates, lost, sum.Receipts, sum.Done)
	}
	if i := slices.Index(fired, 0); i >= 0 && total >= 300 {
		t.Errorf("fault %d never happened: %v", i, fired)
	}
	var answers []string
	for _, code := range slices.Sorted(maps.Keys(sum.Answers)) {
		answers = append(answers, fmt.Sprintf("%s %d", code, sum.Answers[code]))
	}
	t.Logf("%d calls: %s; faults %v", sum.Calls, strings.Join(answers, ", "), fired)
	fmt.Printf("figure: storm_%s creates %d  processes %d  workers %d  faults %d  proposed_twice %d  duplicates %d  lost %d  seconds %.1f  per_second %.0f  failed %v\n",
		d.Engine, total, processes, workers, added(fired), (total+9)/10, duplicates, lost, took.Seconds(), float64(total)/took.Seconds(), t.Failed())
}

func added(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
