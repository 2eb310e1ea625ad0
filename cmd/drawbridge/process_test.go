package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// asProcess makes this binary the command itself, for what can only be shown with a
// process of its own.
const asProcess = "DRAWBRIDGE_TEST_AS_PROCESS"

// replica is a server in a process of its own.
type replica struct {
	base string
	log  *lockedBuffer
	stop func() int // asks it to end, waits, and returns its exit code
}

// replica starts one, and returns when it has greeted. It returns false if it ended
// before that.
func (c *cli) replica(args ...string) (*replica, bool) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := append([]string{"serve", "--json", "--data", c.data, "--as", c.as}, c.more...)
	cmd := exec.CommandContext(ctx, os.Args[0], append(all, args...)...)
	cmd.Env = append(os.Environ(), asProcess+"=1", "HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	r := &replica{log: &lockedBuffer{}}
	cmd.Stderr = r.log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	var end sync.Once
	r.stop = func() int {
		end.Do(func() { cancel(); cmd.Wait() })
		return cmd.ProcessState.ExitCode()
	}
	c.t.Cleanup(func() { r.stop() })
	var greeting struct {
		URL string `json:"url"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &greeting) != nil {
		r.stop()
		return r, false
	}
	r.base = greeting.URL
	return r, true
}

// token is what opens the MCP endpoint of this data folder. A server writes it after
// its greeting.
func (c *cli) token() string {
	c.t.Helper()
	for {
		raw, err := os.ReadFile(filepath.Join(c.data, localTokenFile))
		if err == nil && len(raw) > 0 {
			return string(raw)
		}
		select {
		case <-c.t.Context().Done():
			c.t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// callOver calls a tool over HTTP, and returns the result envelope. It returns nil
// when nothing of the kind came back.
func callOver(ctx context.Context, client *http.Client, base, token, tool, arguments string) map[string]any {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var message map[string]any
		if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &message) != nil {
			continue
		}
		if envelope, ok := at(message, "result", "structuredContent").(map[string]any); ok {
			return envelope
		}
	}
	return nil
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *lockedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *lockedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
