package confine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/drawbridge-dev/drawbridge/confine"
)

// child is the folder of the test when this binary is the confined process: a
// process can't be freed again, so each test needs one of its own.
const child = "DRAWBRIDGE_CONFINED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(child); dir != "" {
		confined(dir)
		return
	}
	os.Exit(m.Run())
}

// confined tries everything, and prints what came of each attempt.
func confined(dir string) {
	ports := strings.Split(os.Getenv(child+"_PORTS"), ",")
	allowed, _ := strconv.ParseUint(ports[0], 10, 16)
	held, err := confine.Apply(confine.Rules{Read: append(confine.System, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "absent")),
		Write: []string{filepath.Join(dir, "data")}, Connect: []uint16{uint16(allowed)}})
	fmt.Printf("held %t %t %v\n", held.Files, held.Ports, err)
	say := func(what string, err error) {
		switch {
		case err == nil:
			fmt.Println(what, "done")
		case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EACCES):
			fmt.Println(what, "refused")
		default:
			fmt.Println(what, err)
		}
	}
	read := func(path string) error { _, err := os.ReadFile(path); return err }
	dial := func(port string) error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err
	}
	say("certificate", read(filepath.Join(dir, "cert.pem")))
	say("data", errors.Join(os.WriteFile(filepath.Join(dir, "data", "a"), []byte("x"), 0o600),
		os.Rename(filepath.Join(dir, "data", "a"), filepath.Join(dir, "data", "b")), read(filepath.Join(dir, "data", "b")), os.Remove(filepath.Join(dir, "data", "b"))))
	say("key outside", read(filepath.Join(dir, "key.pem")))
	say("way around", read(filepath.Join(dir, "data", "..", "key.pem")))
	say("link to it", read(filepath.Join(dir, "data", "link")))
	say("list outside", func() error { _, err := os.ReadDir(dir); return err }())
	say("write outside", os.WriteFile(filepath.Join(dir, "new"), nil, 0o600))
	say("environment of another", read("/proc/1/environ"))
	say("provider", dial(ports[0]))
	say("another port", dial(ports[1]))
	say("program", exec.Command("/bin/true").Run())
	say("own program", exec.Command(filepath.Join(dir, "data", "program")).Run())
	// A thread that is new since is held as well.
	other := make(chan error)
	go func() { other <- read(filepath.Join(dir, "key.pem")) }()
	say("in another goroutine", <-other)
}

func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A key is planted outside and a listener on another port; neither is reached.
//
// Guarantee: OPS7
func TestAConfinedProcessReachesWhatItNeedsAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"cert.pem": []byte("c"), "key.pem": []byte("secret"), "data/program": program} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "key.pem"), filepath.Join(dir, "data", "link")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+dir, child+"_PORTS="+listen(t)+","+listen(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		what, result, _ := cutLast(strings.TrimSpace(line))
		got[what] = result
	}
	switch {
	case strings.HasPrefix(string(out), "held false false <nil>"):
		t.Skip("this kernel has no Landlock")
	case !strings.HasPrefix(string(out), "held true true <nil>"):
		t.Fatalf("%s", out)
	}
	for what, want := range map[string]string{
		"certificate": "done", "data": "done", "provider": "done",
		"key outside": "refused", "way around": "refused", "link to it": "refused", "list outside": "refused", "write outside": "refused",
		"environment of another": "refused", "another port": "refused", "program": "refused", "own program": "refused", "in another goroutine": "refused",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndex(s, " ")
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Guarantee: OPS7
func TestRulesThatMakeNoSense(t *testing.T) {
	if held, err := confine.Apply(confine.Rules{Write: []string{filepath.Join(t.TempDir(), "absent")}}); err == nil && held.Files {
		t.Error("a folder that is not there was opened")
	}
}
