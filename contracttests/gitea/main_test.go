package gitea

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The test binary also plays two parts in child processes: a Gitea that starts at once,
// so that starting and ending are tested where there is no real one, and a test process
// that is killed while its server runs.
func TestMain(m *testing.M) {
	if ini := os.Getenv("PRETEND_GITEA"); ini != "" {
		os.Exit(pretendWeb(ini))
	}
	if binary := os.Getenv("PRETEND_TEST"); binary != "" {
		os.Exit(pretendTest(binary))
	}
	goleak.VerifyTestMain(m)
}

// pretendServer writes a program that behaves like Gitea's command line, with one fault.
// The harness passes nothing of its environment on, so the fault is in the program.
func pretendServer(t *testing.T, mode string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "gitea")
	script := fmt.Sprintf(`#!/bin/sh
case "$3-%[1]s" in
migrate-nomigrate) echo cannot open the database; exit 1 ;;
migrate-unlucky) until [ -e taken ]; do sleep 0.01; done ;;
admin-*) while [ "$1" != --password ]; do shift; done; printf %%s "$2" >password ;;
web-dies) echo cannot find the templates; exit 3 ;;
web-deaf) PRETEND_DEAF=1 PRETEND_GITEA="$2" exec '%[2]s' ;;
web-*) PRETEND_GITEA="$2" exec '%[2]s' ;;
esac
`, mode, self)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{Binary: program, Static: t.TempDir(), Dir: filepath.Join(t.TempDir(), "work")}
}

var portSetting = regexp.MustCompile(`(?m)^HTTP_PORT = (\d+)$`)

func pretendWeb(ini string) int {
	if os.Getenv("PRETEND_DEAF") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	b, _ := os.ReadFile(ini)
	want, _ := os.ReadFile("password")
	l, err := net.Listen("tcp", "127.0.0.1:"+portSetting.FindStringSubmatch(string(b))[1])
	if err != nil {
		return 1
	}
	asked := 0
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if _, password, _ := r.BasicAuth(); password != string(want) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		if asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // still loading
		}
		_, _ = fmt.Fprintf(w, `{"environment":%q}`, strings.Join(os.Environ(), "\n"))
	}))
	return 1
}

// pretendTest starts a server, says where, and waits for its own violent end.
func pretendTest(binary string) int {
	s, err := Start(context.Background(), Config{Binary: binary, Static: ".", Dir: os.Getenv("PRETEND_DIR")})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.URL)
	select {}
}
