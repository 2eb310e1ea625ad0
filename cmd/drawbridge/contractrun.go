package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// contractTest is a built TestContract. It is built and started apart, and not
// by go test, because an interrupt that reaches the go command alone would leave
// the test running.
type contractTest struct {
	pkg    goPackage
	binary string
}

func buildContract(ctx context.Context, dir, temp string) (contractTest, error) {
	pkg, err := goList(ctx, dir)
	if err != nil {
		return contractTest{}, err
	}
	c := contractTest{pkg, filepath.Join(temp, "contract.test")}
	if _, err := goCommand(ctx, pkg.Dir, "test", "-c", "-o", c.binary, "."); err != nil {
		return c, err
	}
	if _, err := os.Stat(c.binary); err != nil {
		return c, fmt.Errorf("%s has no tests, so no TestContract: docs/writing-a-connector.md says how to write one", pkg.ImportPath)
	}
	return c, nil
}

// command runs it where go test would. It is interrupted, not killed, when ctx
// ends: what it started must be stopped, too.
func (c contractTest) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"-test.run=^TestContract$", "-test.count=1"}, args...)...)
	cmd.Dir = c.pkg.Dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// ownRun is the kit's T for a run in this process. What it would be told stands in
// the report.
type ownRun struct {
	ctx      context.Context
	temp     string
	progress *progress
}

func (r *ownRun) Helper()                  {}
func (r *ownRun) Errorf(string, ...any)    {}
func (r *ownRun) Logf(string, ...any)      {}
func (r *ownRun) TempDir() string          { return r.temp }
func (r *ownRun) Context() context.Context { return r.ctx }
func (r *ownRun) Progress(done, total int) { r.progress.show(done, total) }

// progress is one line that counts, on a terminal and nowhere else.
type progress struct {
	out     io.Writer // nil: nobody watches
	started time.Time
	shown   bool
}

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		out = nil
	}
	return &progress{out: out, started: time.Now()}
}

const eraseLine = "\r\x1b[K"

func (p *progress) show(done, total int) {
	if p.out == nil || done == 0 {
		return
	}
	spent := time.Since(p.started)
	rest := spent / time.Duration(done) * time.Duration(total-done)
	fmt.Fprintf(p.out, "%s%d of %d checks, about %s to go", eraseLine, done, total, span(rest))
	p.shown = true
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.out, eraseLine)
		p.shown = false
	}
}

// lineWriter hands whole lines to a function.
type lineWriter struct {
	rest string
	take func(line string)
}

func lines(take func(line string)) *lineWriter { return &lineWriter{take: take} }

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest += string(p)
	for {
		line, after, whole := strings.Cut(w.rest, "\n")
		if !whole {
			return len(p), nil
		}
		w.take(line)
		w.rest = after
	}
}
