package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// pair runs floor and ours in turn and reports the ratio of their medians. What
// disturbs the machine then disturbs both alike.
func pair(b *testing.B, floor, ours func()) {
	b.Helper()
	for range 20 { // connections, statements and caches of both
		floor()
		ours()
	}
	times := [2][]time.Duration{}
	for b.Loop() {
		for i, f := range []func(){floor, ours} {
			start := time.Now()
			f()
			times[i] = append(times[i], time.Since(start))
		}
	}
	floorTime, oursTime := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op") // of both together: says nothing
	b.ReportMetric(float64(floorTime.Nanoseconds()), "floor-ns")
	b.ReportMetric(float64(oursTime.Nanoseconds()), "ours-ns")
	b.ReportMetric(float64(oursTime)/float64(floorTime), "x-floor")
	// Counted apart: reading the counters stops the world.
	b.ReportMetric(testing.AllocsPerRun(20, floor), "floor-allocs")
	b.ReportMetric(testing.AllocsPerRun(20, ours), "ours-allocs")
}

func median[T cmp.Ordered](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

const childVariable = "DRAWBRIDGE_BENCH_SANDBOX"

// TestMain is also the sandbox: a process of its own, so that its work is not
// counted as the client's.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1, Tickets: 400, AccessTokenTTL: time.Hour})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer org.Close()
	_ = json.NewEncoder(os.Stdout).Encode(org.Ready())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent goes
}

func startSandbox(b *testing.B) sandbox.Ready {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	var ready sandbox.Ready
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		b.Fatal(err)
	}
	return ready
}

// get is the floor's request: what a careful author writes by hand.
func get(client *http.Client, url, token string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	return client.Do(request)
}
