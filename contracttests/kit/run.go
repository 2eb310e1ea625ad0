package kit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// Run runs all checks on a subject and reports each promise that broke as an
// error of t. When drawbridge dev runs the test, it serves the pages of package dev
// in place of the checks, and the report is empty.
func Run(t T, s Subject) Report {
	t.Helper()
	if serveInstead(t, s) {
		return Report{}
	}
	report := run(t, s)
	for _, o := range report.Checks {
		if o.Result == Failed {
			t.Errorf("%s (%s) broken: %s\n    %s", o.ID, o.Guarantee, o.Promise, strings.Join(o.Details, "\n    "))
		}
	}
	if report.Fault != "" {
		t.Errorf("the run itself failed: %s", report.Fault)
	}
	if dir := os.Getenv("DRAWBRIDGE_CONTRACT_REPORT"); dir != "" {
		if err := report.Save(dir); err != nil {
			t.Errorf("the report can't be written: %v", err)
		}
	}
	t.Logf("%s", report)
	return report
}

// A check is one promise, and how it is tried.
type check struct {
	id        string
	guarantee string
	promise   string
	evidence  Evidence // Unit, or empty: what the harness is
	// needs are checks without which this one would say nothing of its own.
	needs []string
	try   func(*trial)
}

var checks = slices.Concat(definitionChecks, readChecks, accessChecks, wireChecks, writeChecks, hygieneChecks)

// patience bounds one check: a look-up may have to wait for a settle time.
const patience = 2 * time.Minute

func run(t T, s Subject) (report Report) {
	started := time.Now()
	seed := s.Seed
	if seed == 0 {
		seed = int64(1 + rand.IntN(1<<30))
	}
	report = Report{Started: started.UTC(), Seed: seed, Connector: s.Connector.ID, Version: s.Connector.Version, SDK: sdkVersion(), NotMeasured: notMeasured}
	defer func() {
		report.Seconds = time.Since(started).Seconds()
	}()
	for id := range s.NotClaimed {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.id == id }) && id != leakCheck.id {
			report.Fault = fmt.Sprintf("NotClaimed names %q, which is no check", id)
			return report
		}
	}
	r := &runner{subject: s, seed: seed, label: fmt.Sprintf("contract-%d-%d", seed, rand.Uint64())}
	// A definition that does not load can't be mounted: its own checks still say why.
	r.lint = connector.Lint(s.Connector)
	switch {
	case updating():
		r.alone = "the files of fixed cases are being written"
	case s.Harness == nil:
		r.alone = "the subject has no harness"
	}
	if r.alone != "" {
		report.Evidence = Unit
	}
	if r.lint == nil && r.alone == "" {
		house, err := openHouse(t.Context(), s, t.TempDir(), seed)
		r.house = house
		if err != nil {
			report.Fault = err.Error()
			_ = house.close()
			return report
		}
		report.Provider, report.ProviderVersion, report.Evidence = house.facts.Name, house.facts.Version, house.facts.Evidence
		report.ProviderDigest = house.facts.Digest
	}
	inLabel(t.Context(), r.label, func(ctx context.Context) {
		for _, c := range checks {
			report.Checks = append(report.Checks, r.one(ctx, c, report.Checks))
			report.Faults = append(report.Faults, r.faults(ctx, c.id)...)
			tellProgress(t, len(report.Checks))
		}
	})
	if r.house != nil {
		if err := r.house.close(); err != nil {
			report.Fault = "close: " + err.Error()
		}
		// The last check needs the house gone: what still runs then was started
		// by the connector.
		r.closed = true
	}
	report.Checks = append(report.Checks, r.one(t.Context(), leakCheck, report.Checks))
	tellProgress(t, len(report.Checks))
	return report
}

// runner is what outlives one check.
type runner struct {
	subject  Subject
	house    *house
	lint     error
	alone    string // why no provider runs; empty: one does
	seed     int64
	label    string // of goroutines
	closed   bool   // the house
	n        int
	reported int // exchanges
	mu       sync.Mutex
	results  []string // all that callers were told, as JSON
}

// faults are what was done on the wire since the last time.
func (r *runner) faults(ctx context.Context, id string) (all []string) {
	if r.house == nil {
		return nil
	}
	// An exchange whose caller has gone is still under way, without a status.
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	_ = r.house.proxy.Settled(ctx) // what still hangs then is listed as it is
	seen := r.house.proxy.Seen()
	for _, e := range seen[r.reported:] {
		if e.Action != fault.Pass {
			all = append(all, fmt.Sprintf("%s %s %d", id, e.Action, e.Status))
		}
	}
	r.reported = len(seen)
	return slices.Compact(all)
}

type stop struct{ result, why string }

func (r *runner) one(ctx context.Context, c check, before []Outcome) (o Outcome) {
	o = Outcome{ID: c.id, Guarantee: c.guarantee, Promise: c.promise, Result: Passed, Evidence: c.evidence}
	if why, ok := r.subject.NotClaimed[c.id]; ok {
		o.Result, o.Why = NotClaimed, why
		return o
	}
	for _, id := range c.needs {
		i := slices.IndexFunc(before, func(b Outcome) bool { return b.ID == id })
		if i < 0 || before[i].Result == Failed || before[i].Result == Blocked {
			o.Result, o.Why = Blocked, id+" failed"
			return o
		}
		if before[i].Result == NotClaimed {
			o.Result, o.Why = NotClaimed, before[i].Why
			return o
		}
	}
	if c.evidence == "" {
		if r.lint == nil && r.alone != "" {
			o.Result, o.Why = NotClaimed, r.alone
			return o
		}
		if r.house == nil {
			o.Result, o.Why = Blocked, "A1 failed"
			return o
		}
		o.Evidence = r.house.facts.Evidence
		if !r.closed {
			if err := r.house.fresh(); err != nil {
				o.Result, o.Details = Failed, []string{err.Error()}
				return o
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.n++
	t := &trial{runner: r, ctx: ctx, out: &o, marker: fmt.Sprintf("marker%dq%x", r.n, r.seed)}
	began := time.Now()
	defer func() {
		o.Seconds = time.Since(began).Seconds()
		switch p := recover().(type) {
		case nil:
		case stop:
			o.Result, o.Why = p.result, p.why
		case enough:
		default:
			o.Result, o.Details = Failed, append(o.Details, fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
		}
		if len(o.Details) > 0 {
			o.Result = Failed
		}
	}()
	c.try(t)
	return o
}

// trial is one check being tried.
type trial struct {
	*runner
	ctx    context.Context
	out    *Outcome
	marker string // a word that no other check uses
}

func (t *trial) errorf(format string, args ...any) {
	t.out.Details = append(t.out.Details, fmt.Sprintf(format, args...))
}

// enough ends a trial that has already said what is wrong.
type enough struct{}

func (t *trial) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	panic(enough{})
}

func (t *trial) must(err error) {
	if err != nil {
		t.fatalf("%v", err)
	}
}

// notClaimed ends a trial that does not apply.
func (t *trial) notClaimed(format string, args ...any) {
	panic(stop{NotClaimed, fmt.Sprintf(format, args...)})
}

func sdkVersion() string {
	const module = "github.com/drawbridge-dev/drawbridge"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	return ""
}

// leakCheck looks for goroutines that were started inside the checks and have
// not ended with the house. Labels are inherited, so other tests don't disturb it.
var leakCheck = check{"G2", "TST1", "When the host has closed, nothing that the connector started still runs.", "", []string{"A1"}, nothingLeft}

func nothingLeft(t *trial) {
	var text string
	for wait := time.Millisecond; wait < 2*time.Second; wait *= 2 {
		if text = labelled(t.label); text == "" {
			return
		}
		time.Sleep(wait)
	}
	t.errorf("still running:\n%s", text)
}

// inLabel runs the checks so that every goroutine that they start has the label.
func inLabel(ctx context.Context, label string, do func(context.Context)) {
	pprof.Do(ctx, pprof.Labels("contract", label), do)
}

// labelled are the stacks of goroutines with the label, as the profile has them.
func labelled(label string) string {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return err.Error()
	}
	var found []string
	for _, block := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(block, label) {
			found = append(found, block)
		}
	}
	return strings.Join(found, "\n\n")
}
