package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The guide is what it says: its commands are run as they stand, what it shows
// of their output is there, and what it says of the compiler is what that says.
// Guarantee: OPS3
func TestTheGuide(t *testing.T) {
	if os.Getenv("DRAWBRIDGE_GUIDE") == "" {
		t.Skip("builds and tests a connector several times: make guide")
	}
	a := newAuthor(t)
	raw, err := os.ReadFile(filepath.Join(a.root, "docs/writing-a-connector.md"))
	if err != nil {
		t.Fatal(err)
	}
	guide := string(raw)
	bin := t.TempDir()
	a.goTool(a.root, "build", "-o", bin, "./cmd/drawbridge")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DRAWBRIDGE", a.root)

	steps := guideSteps(guide)
	if len(steps) < 20 {
		t.Fatalf("the guide has %d commands only", len(steps))
	}
	dir, started := a.dir, time.Now()
	for i, s := range steps {
		if folder, ok := strings.CutPrefix(s.command, "cd "); ok {
			dir = filepath.Join(dir, folder)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", s.command)
		cmd.Dir = dir
		out := s.run(cmd)
		if code := cmd.ProcessState.ExitCode(); code != s.code {
			t.Fatalf("%s: exit code %d, want %d\n%s", s.command, code, s.code, out)
		}
		for _, line := range s.shown {
			if !strings.Contains(string(out), line) {
				t.Errorf("%s does not print %q but\n%s", s.command, line, out)
			}
		}
		if i == 0 {
			theCode(t, guide, "hello/hello.go")
			theTest(t, guide, "hello/hello_test.go")
		}
	}
	wrongShapes(t, a, guide)
	t.Logf("figure: the guide: %d commands and what they show, in %.0f s without reading", len(steps), time.Since(started).Seconds())
}

type guideStep struct {
	command string
	code    int
	ctrlC   bool // it runs until it is interrupted
	shown   []string
}

// run runs a command to its end, or interrupts it when it has shown all.
func (s guideStep) run(cmd *exec.Cmd) []byte {
	if !s.ctrlC {
		out, _ := cmd.CombinedOutput() // its exit code is looked at
		return out
	}
	var out bytes.Buffer
	output := lines(func(line string) {
		out.WriteString(line + "\n")
		missing := func(text string) bool { return !strings.Contains(out.String(), text) }
		if !slices.ContainsFunc(s.shown, missing) {
			_ = cmd.Process.Signal(os.Interrupt)
		}
	})
	cmd.Stdout, cmd.Stderr = output, output
	_ = cmd.Run() // as above
	return out.Bytes()
}

// guideSteps reads the indented commands and what is shown below each.
func guideSteps(guide string) (steps []guideStep) {
	exits := regexp.MustCompile(`\s+# exits (\d+)$`)
	for line := range strings.Lines(guide) {
		text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		command, isCommand := strings.CutPrefix(text, "$ ")
		switch {
		case !indented:
		case isCommand:
			s := guideStep{command: command}
			if m := exits.FindStringSubmatch(command); m != nil {
				s.command = strings.TrimSuffix(command, m[0])
				s.code, _ = strconv.Atoi(m[1])
			}
			if forever, ok := strings.CutSuffix(command, "    # until Ctrl-C"); ok {
				s.command, s.ctrlC = "exec "+forever, true
			}
			steps = append(steps, s)
		case len(steps) > 0:
			last := &steps[len(steps)-1]
			last.shown = append(last.shown, text)
		}
	}
	return steps
}

// theCode: what the guide prints is what the command wrote, and as short as the
// guide says.
func theCode(t *testing.T, guide, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(guide, "```go\n"+string(raw)+"```\n") {
		t.Errorf("the guide does not show %s as drawbridge new writes it", file)
	}
	lines := strings.Count(string(raw), "\n")
	if stated := fmt.Sprintf("in %d lines", lines); lines > 80 || !strings.Contains(guide, stated) {
		t.Errorf("%s has %d lines; 80 are the limit, and the guide has to say %q", file, lines, stated)
	}
}

// theTest: the same for its test, without the imports.
func theTest(t *testing.T, guide, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, ok := strings.Cut(string(raw), "\n)\n\n")
	if !ok || !strings.Contains(guide, "```go\n"+body+"```\n") {
		t.Errorf("the guide does not show %s as drawbridge new writes it", file)
	}
}

// wrongShapes compiles each wrong example and looks for the message below it.
func wrongShapes(t *testing.T, a *author, guide string) {
	t.Helper()
	examples := regexp.MustCompile("(?s)```go\n([^`]*)```\n\n```\n([^`]*)\n```").FindAllStringSubmatch(guide, -1)
	if len(examples) < 5 {
		t.Errorf("the guide shows %d wrong shapes only", len(examples))
	}
	dir := filepath.Join(a.dir, "hello", "wrong")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		source := "package wrong\n\nimport (\n\t\"context\"\n\n\t\"github.com/drawbridge-dev/drawbridge/connector\"\n)\n\ntype (\n\tbyID struct{}\n\tNote struct{}\n)\n\n" + e[1]
		if err := os.WriteFile(filepath.Join(dir, "wrong.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "./wrong")
		cmd.Dir = filepath.Dir(dir)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), e[2]) {
			t.Errorf("the compiler says\n%s\nof\n%s\nnot\n%s", out, e[1], e[2])
		}
	}
}
