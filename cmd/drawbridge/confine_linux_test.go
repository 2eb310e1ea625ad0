package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server that holds itself still does its work: it reaches the provider, writes its
// database and ends cleanly. The rest is shown by package confine.
//
// Guarantee: OPS7
func TestAConfinedServerWorks(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], "serve", "--listen", "127.0.0.1:0", "--json", "--confine", "require", "--data", c.data, "--as", c.as)
	cmd.Env = append(os.Environ(), asProcess+"=1", "HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var log safeBuffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var greeting struct {
		URL string `json:"url"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &greeting) != nil {
		stop()
		cmd.Wait()
		if strings.Contains(log.String(), "this kernel can't confine") {
			t.Skip("this kernel has no Landlock for files and ports")
		}
		t.Fatalf("%q %v\n%s", line, err, log.String())
	}
	token, err := os.ReadFile(filepath.Join(c.data, localTokenFile))
	for err != nil {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // it is written after the greeting
		token, err = os.ReadFile(filepath.Join(c.data, localTokenFile))
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: greeting.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer{string(token), transport}}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sandbox.tickets.get", Arguments: map[string]any{"id": "007"}})
	if err != nil || got.IsError {
		t.Errorf("%+v %v\n%s", got, err, log.String())
	}
	session.Close()
	stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended with %d\n%s", cmd.ProcessState.ExitCode(), log.String())
	}
	u, _ := url.Parse(org.URL())
	if !strings.Contains(log.String(), "msg=confined files=true ports=true connect=["+u.Port()+"]") {
		t.Errorf("the ports that it may dial are not the provider's alone:\n%s", log.String())
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
