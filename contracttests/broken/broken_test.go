package broken

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector/surface"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write testdata/connector.lock.json")

// recorder is a test that may fail.
type recorder struct {
	ctx    context.Context
	dir    string
	errors []string
}

func (*recorder) Helper()                    {}
func (*recorder) Logf(string, ...any)        {}
func (r *recorder) TempDir() string          { return r.dir }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// atOnce is how many run side by side: most of a run is waiting, for the backoff
// of a read and for settle times.
const atOnce = 24

// Each is found by exactly the check that it is made for, and the failure says
// which promise broke.
//
// Guarantee: TST1
func TestEachFailsItsOwnCheck(t *testing.T) {
	all := Connectors()
	if len(all) < 25 {
		t.Fatalf("there are %d broken connectors only", len(all))
	}
	if os.Getenv("DRAWBRIDGE_CONTRACT") != "full" { // make contract
		all = slices.Collect(func(yield func(Connector) bool) {
			for i := 0; i < len(all) && yield(all[i]); i += 5 {
			}
		})
	}
	started := time.Now()
	reports, said := make([]kit.Report, len(all)), make([]recorder, len(all))
	var runs sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, b := range all {
		said[i] = recorder{ctx: t.Context(), dir: t.TempDir()}
		runs.Go(func() {
			slots <- struct{}{}
			reports[i] = kit.Run(&said[i], b.Subject())
			if b.Done != nil {
				b.Done()
			}
			<-slots
		})
	}
	runs.Wait()
	for i, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			if got := reports[i].Broken(); !slices.Equal(got, []string{b.Check}) {
				t.Errorf("it breaks %s, and the kit found %v: %s", b.Check, got, strings.Join(said[i].errors, "\n"))
			}
			if len(said[i].errors) != 1 || !strings.HasPrefix(said[i].errors[0], b.Check+" ") {
				t.Errorf("the failure reads %q", said[i].errors)
			}
		})
	}
	fmt.Printf("figure: broken connectors  %d  %.1f s\n", len(all), time.Since(started).Seconds())
}

// unbroken are the checks that no broken connector fails, and why.
var unbroken = map[string]string{
	"A6": "the shapes are made of the definitions; package toolshape shows how they fail",
}

// The honest one passes every check, so that what a broken one fails is its own
// fault; and each check is failed by a broken one or says why none can.
//
// Guarantee: TST1
func TestTheHonestOnePasses(t *testing.T) {
	t.Parallel()
	s := subject(&driver{})
	s.Fixed = fixed()
	s.LockFile = filepath.Join("testdata", surface.FileName)
	if *update {
		var text bytes.Buffer
		if err := surface.Write(&text, surface.Of(s.Connector)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.LockFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	report := kit.Run(t, s)
	if n := report.Count(kit.Passed); n != len(report.Checks) {
		t.Errorf("%d of %d checks passed", n, len(report.Checks))
	}
	broken := map[string]bool{}
	for _, b := range Connectors() {
		broken[b.Check] = true
	}
	for _, o := range report.Checks {
		if why := unbroken[o.ID]; broken[o.ID] == (why != "") {
			t.Errorf("%s is failed by a broken connector: %t; and by none, because %q", o.ID, broken[o.ID], why)
		}
	}
}
