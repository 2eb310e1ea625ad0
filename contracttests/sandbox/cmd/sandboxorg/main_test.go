package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// The test binary plays the command when told to.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOXORG_MAIN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestPrintsItsReadyLineAndStopsOnTheSignal(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--json", "--seed", "5", "--access-ttl", "30s")
	cmd.Env = append(os.Environ(), "SANDBOXORG_MAIN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready sandbox.Ready
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(ready.URL + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 || ready.AdminToken == "" || len(ready.Users) != 4 {
		t.Errorf("status %d, ready %+v", res.StatusCode, ready)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}
