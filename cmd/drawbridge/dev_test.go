package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

// hello is a connector as new writes it. The provider that its test plays keeps its
// books in a file, too.
func (a *author) hello() (books string) {
	a.t.Helper()
	a.must("new", "hello", "--replace", a.root)
	a.edit("hello/provider_test.go", "\t\"net/http/httptest\"\n", "\t\"net/http/httptest\"\n\t\"os\"\n")
	a.edit("hello/provider_test.go", "\tp.notes[n.ID], p.owners[n.ID] = n, owner\n", `	p.notes[n.ID], p.owners[n.ID] = n, owner
	f, _ := os.OpenFile(os.Getenv("HELLO_BOOKS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	fmt.Fprintln(f, text)
	f.Close()
`)
	books = filepath.Join(a.dir, "books")
	a.t.Setenv("HELLO_BOOKS", books)
	return books
}

// devProcess is drawbridge dev as a process of its own.
type devProcess struct {
	*exec.Cmd
	dev.Greeting
	said *bytes.Buffer
}

func startDev(t *testing.T, temp string) devProcess {
	t.Helper()
	p := devProcess{Cmd: exec.CommandContext(t.Context(), os.Args[0], "dev", "hello", "--listen", "127.0.0.1:0", "--json"), said: &bytes.Buffer{}}
	p.Env = append(os.Environ(), asProcess+"=1", "TMPDIR="+temp)
	p.Stderr = p.said
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &p.Greeting) != nil {
		_ = p.Process.Kill()
		_ = p.Wait()
		t.Fatalf("it says %q, %v: %s", line, err, p.said)
	}
	return p
}

// gone waits until nobody listens at the address any more.
func (p devProcess) gone(t *testing.T) {
	t.Helper()
	address := strings.TrimPrefix(p.URL, "http://")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		c.Close()
	}
	t.Errorf("something still listens at %s", address)
}

// A page of the author's own connector: a write by approval arrives in the
// provider's books once, and when the command ends nothing is left of it.
// Guarantee: OPS3
func TestDevCommand(t *testing.T) {
	a := newAuthor(t)
	books := a.hello()
	temp := filepath.Join(a.dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	p := startDev(t, temp)

	jar, _ := cookiejar.New(nil)
	wires := &http.Transport{}
	defer wires.CloseIdleConnections()
	web := &http.Client{Jar: jar, Transport: wires, Timeout: time.Minute}
	post := func(path string, form url.Values) string {
		t.Helper()
		resp, err := web.PostForm(p.URL+path, form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return html.UnescapeString(string(body))
	}
	link, _ := url.Parse(p.SignIn)
	post("/enter", url.Values{"t": {link.Query().Get("t")}})
	resp, err := web.Get(p.URL + "/tools/hello.create")
	if err != nil {
		t.Fatal(err)
	}
	form, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindSubmatch(form)
	if csrf == nil {
		t.Fatalf("no form: %s", form)
	}
	token := url.Values{"csrf": {string(csrf[1])}}
	page := post("/tools/hello.create", url.Values{"csrf": token["csrf"], "/text": {"buy milk"}})
	operation := regexp.MustCompile(`/operations/[^"/]+`).FindString(page)
	if _, err := os.Stat(books); err == nil || !strings.Contains(page, `{"text":"buy milk"}`) || operation == "" {
		t.Fatalf("proposed (%v):\n%s", err, page)
	}
	if page := post(operation+"/approve", token); !strings.Contains(page, "Receipt") {
		t.Errorf("approved:\n%s", page)
	}
	if raw, err := os.ReadFile(books); err != nil || string(raw) != "buy milk\n" {
		t.Errorf("the provider's books say %q, %v", raw, err)
	}

	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("an interrupt ends it with %v: %s", err, p.said)
	}
	p.gone(t)
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// A command that has no time to clean up leaves no server behind either.
	p = startDev(t, temp)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // killed
	p.gone(t)
}

// Guarantee: TST1, OPS3
func TestContractCommand(t *testing.T) {
	a := newAuthor(t)
	a.hello()
	r := a.must("contract", "hello", "--report", "evidence")
	if !strings.Contains(r.out, "  E5   The look-up finds the write whose answer was lost") || !strings.Contains(r.out, ", 0 failed,") ||
		!strings.Contains(r.out, "the connector has no list operation") || r.err != "" {
		t.Errorf("it prints\n%s%s", r.out, r.err)
	}
	if kept, _ := filepath.Glob("evidence/*/contract-report.json"); len(kept) != 1 {
		t.Errorf("kept: %v", kept)
	}

	a.edit("hello/hello.go", "made.Note != nil {", `made.Note != nil && id == "" {`)
	broken := map[string]string{}
	for _, o := range at(a.json(1, "contract", "hello"), "checks").([]any) {
		broken[text(o, "id")] = text(o, "result")
	}
	if broken["E5"] != "failed" || broken["E4"] != "passed" {
		t.Errorf("of a look-up that finds nothing: E4 %s, E5 %s", broken["E4"], broken["E5"])
	}

	a.edit("hello/hello_test.go", "func TestContract(t *testing.T) {", "func TestContract(t *testing.T) {\n\tt.Fatal(\"no organisation to test with\")")
	for _, command := range []string{"contract", "dev"} {
		if r := a.run(command, "hello"); r.code != 1 || !strings.Contains(r.err, "no organisation to test with") {
			t.Errorf("%s of a test that fails by itself: exit code %d\n%s%s", command, r.code, r.out, r.err)
		}
	}
	a.edit("hello/hello_test.go", "func TestContract(", "func TestAnotherThing(")
	if r := a.run("contract", "hello"); r.code != 1 || !strings.Contains(r.err, "no TestContract") {
		t.Errorf("without a contract: exit code %d, %s%s", r.code, r.out, r.err)
	}
}

// What failed comes last, with its promise first; what is not claimed has its reason.
func TestContractInWords(t *testing.T) {
	var out bytes.Buffer
	(&app{out: &out}).showContract(kit.Report{Connector: "hello", Version: "0.1.0", Provider: "desk", Evidence: kit.Sandbox, Seed: 7, Fault: "close: no", Checks: []kit.Outcome{
		{ID: "E4", Promise: "It is not sent again.", Result: kit.Failed, Details: []string{"it was\x1b[2J sent twice", "and again"}},
		{ID: "A1", Promise: "It loads.", Result: kit.Passed},
		{ID: "E5", Promise: "It is found.", Result: kit.Blocked, Why: "E4 failed"},
		{ID: "D0", Promise: "It walks.", Result: kit.NotClaimed, Why: "no list"},
	}})
	want := `hello 0.1.0 against desk (sandbox), seed 7

passed
  A1   It loads.

not claimed
  D0   It walks.
       no list

blocked
  E5   It is found.
       E4 failed

failed
  E4   It is not sent again.
       it was⟨U+001B⟩[2J sent twice
       and again

1 passed, 1 failed, 1 not claimed, 1 blocked, in 0.0 s
the run itself failed: close: no
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Nothing moves where nobody watches.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.show(1, 2)
	p.end()
	if out.Len() > 0 {
		t.Errorf("into a pipe: %q", out.String())
	}
	p = &progress{out: &out, started: time.Now().Add(-10 * time.Second)}
	p.show(0, 2)
	p.show(1, 2)
	p.end()
	if got := out.String(); got != eraseLine+"1 of 2 checks, about 10 s to go"+eraseLine {
		t.Errorf("on a terminal: %q", got)
	}
}

func TestContractOfThisProgram(t *testing.T) {
	if testing.Short() || os.Getenv("DRAWBRIDGE_GUIDE") == "" {
		t.Skip("runs the whole contract, as contracttests/kit does; make guide runs it")
	}
	c := newCLI(t, "acme/alice")
	if v := c.json(0, "contract", "--provider", "sandbox"); text(v, "connector") != "tickets" || text(v, "evidence") != "sandbox" || len(at(v, "checks").([]any)) < 50 {
		t.Errorf("it ran %v", v)
	}
	for _, args := range [][]string{{"contract", "--provider", "other"}, {"contract", "--provider", "sandbox", "dir"}, {"contract", "none"}, {"dev", "--provider", "other"},
		{"dev", "none"}} {
		if r := c.run(args...); r.code != 2 {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.err)
		}
	}
	if r := c.run("dev", "--provider", "sandbox", "--listen", "0.0.0.0:0"); r.code != 1 || !strings.Contains(r.err, "no loopback address") {
		t.Errorf("for all the world: exit code %d, %s", r.code, r.err)
	}
}
