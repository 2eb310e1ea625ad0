//go:build unix

package gitea

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func waitForFile(name string) int {
	for {
		if _, err := os.Stat(name); err == nil {
			return 0
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func pretending(t *testing.T, mode string) *Server {
	t.Helper()
	s, err := Start(t.Context(), pretendServer(t, mode))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStartAndClose(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.test")
	t.Setenv("SOME_TOKEN", "secret")
	s := pretending(t, "works")
	pid := s.cmd.Process.Pid

	var me struct{ Environment string }
	login, _ := s.Admin()
	if err := s.API(t.Context(), login, "GET", "/user", nil, &me); err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{"proxy.test", "SOME_TOKEN"} {
		if strings.Contains(me.Environment, leak) {
			t.Errorf("the server was handed %s", leak)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process after Close: %v, want none", err)
	}
	if _, err := os.Stat(s.Log); err != nil {
		t.Errorf("Close took the caller's folder away: %v", err)
	}
}

func TestTemporaryFolderIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c := pretendServer(t, "works")
	c.Dir = ""
	s, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestStartFailures(t *testing.T) {
	for mode, want := range map[string]string{
		"nomigrate": "cannot open the database",
		"dies":      "cannot find the templates",
	} {
		c := pretendServer(t, mode)
		s, err := Start(t.Context(), c)
		if err == nil {
			_ = s.Close()
			t.Fatalf("%s: started", mode)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q lacks the server's last words", mode, err)
		}
	}
}

func TestStartRefusesBadConfig(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_GITEA", "")
	t.Setenv("DRAWBRIDGE_TEST_GITEA_STATIC", "")
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{
		"no program":         {Static: "."},
		"no templates":       {Binary: "gitea"},
		"missing program":    {Binary: "/nonexistent/gitea", Static: "."},
		"used folder":        {Binary: "gitea", Static: ".", Dir: used},
		"fraction of second": {Binary: "gitea", Static: ".", AccessTokenLife: time.Millisecond},
		"negative life":      {Binary: "gitea", Static: ".", AccessTokenLife: -time.Second},
	} {
		if s, err := Start(t.Context(), c); err == nil {
			_ = s.Close()
			t.Errorf("%s: started", name)
		}
	}
}

func TestCanceledStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := pretendServer(t, "unlucky") // migrate waits for a file that nobody makes
	done := make(chan error)
	go func() {
		_, err := Start(ctx, c)
		done <- err
	}()
	waitForFile(filepath.Join(c.Dir, "app.ini"))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
}

// The port was free when it was chosen and is a stranger's when the server wants it.
func TestLostPortIsNotMistakenForTheServer(t *testing.T) {
	c := pretendServer(t, "unlucky")
	type started struct {
		*Server
		error
	}
	done := make(chan started)
	go func() {
		s, err := Start(context.Background(), c)
		done <- started{s, err}
	}()
	waitForFile(filepath.Join(c.Dir, "app.ini"))
	var port []string
	for port == nil { // the file may be half written
		b, _ := os.ReadFile(filepath.Join(c.Dir, "app.ini"))
		port = portSetting.FindStringSubmatch(string(b))
	}
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = stranger.Listener.Close()
	var err error
	if stranger.Listener, err = net.Listen("tcp", "127.0.0.1:"+port[1]); err != nil {
		t.Skipf("somebody else took the port first: %v", err)
	}
	stranger.Start()
	defer stranger.Close()
	if err := os.WriteFile(filepath.Join(c.Dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := <-done
	if s.error != nil {
		t.Fatal(s.error)
	}
	defer s.Close()
	if s.URL == stranger.URL {
		t.Error("the stranger was taken for the server")
	}
}

func TestServerThatEndsByItselfFailsClose(t *testing.T) {
	s := pretending(t, "works")
	_ = s.cmd.Process.Kill()
	<-s.exited
	if err := s.Close(); err == nil {
		t.Error("Close hides that the server had ended")
	}
}

func TestDeafServerIsKilled(t *testing.T) {
	s := pretending(t, "deaf")
	s.grace = 10 * time.Millisecond
	if err := s.Close(); err == nil {
		t.Error("Close hides that the server had to be killed")
	}
	if err := syscall.Kill(s.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process after Close: %v, want none", err)
	}
}

func TestServerEndsWithAKilledTest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's death signal is Linux only")
	}
	c := pretendServer(t, "works")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	test := exec.Command(self)
	test.Env = append(os.Environ(), "PRETEND_TEST="+c.Binary, "PRETEND_DIR="+c.Dir)
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := test.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimSpace(line), "http://"))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	defer conn.Close()
	_ = test.Process.Kill()
	_ = test.Wait()
	// The connection ends when the server does; if it outlives its test this never returns.
	_, _ = io.Copy(io.Discard, conn)
}

func TestForTestWithoutGitea(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_GITEA", "")
	for require, want := range map[string]string{"1": "fatal", "": "skip"} {
		t.Setenv("CI_REQUIRE_GITEA", require)
		tb := &verdict{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); ForTest(tb, Config{}) }()
		<-done
		if tb.got != want {
			t.Errorf("CI_REQUIRE_GITEA=%q: %q, want %q", require, tb.got, want)
		}
	}
}

// verdict notes how a test ended instead of ending it.
type verdict struct {
	testing.TB
	got string
}

func (v *verdict) Fatal(...any) { v.got = "fatal"; runtime.Goexit() }
func (v *verdict) Skip(...any)  { v.got = "skip"; runtime.Goexit() }
func (v *verdict) Helper()      {}
