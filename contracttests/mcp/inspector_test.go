package mcp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inspector is the official one on the command line, with a home of its own.
type inspector struct {
	modules, home string
}

func newInspector(t *testing.T, modules string) inspector { return inspector{modules, t.TempDir()} }

func (i inspector) command(ctx context.Context, args ...string) *exec.Cmd {
	entry := filepath.Join(i.modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	cmd := node(ctx, i.modules, append([]string{entry, "--cli", "--format", "json"}, args...)...)
	// It signs in only where it may open a browser. With this path it finds none, and
	// says what to open.
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(i.modules, "node", "bin"), "HOME="+i.home, "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file")
	return cmd
}

// check lists the tools and calls one.
func (i inspector) check(t *testing.T, ask func(args ...string) []byte) {
	t.Helper()
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	decode(t, ask("--method", "tools/list"), &list)
	var names []string
	for _, tool := range list.Result.Tools {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff(tools, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	var call struct {
		Result struct{ StructuredContent envelope }
	}
	decode(t, ask("--method", "tools/call", "--tool-name", "sandbox.tickets.search", "--tool-args-json", `{"query":"customer","page_size":2,"cursor":null}`), &call)
	if found := call.Result.StructuredContent; found.Error != nil || len(found.Data.Items) != 2 {
		t.Errorf("search: %+v", found)
	}
}

var link = regexp.MustCompile(`https?://\S+/authorize\?\S+`)

// browse runs a command and opens the page that it asks for, as the person would.
func (i inspector) browse(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var once sync.Once
	return converse(t, cmd, func(line string) {
		if page := link.FindString(line); page != "" {
			once.Do(func() { visit(t, page) })
		}
	})
}

// visit opens a page as a browser does, and goes on to where it is sent.
func visit(t *testing.T, page string) {
	resp, err := http.Get(page)
	if err != nil {
		t.Errorf("the sign-in: %v", err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the sign-in ends with %s", resp.Status)
	}
}

// converse runs a program, lets hear read over its shoulder, and returns its output.
func converse(t *testing.T, cmd *exec.Cmd, hear func(line string)) []byte {
	t.Helper()
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &lines{hear: hear}), io.MultiWriter(&complaint, &lines{hear: hear})
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd.Args[1:], err, out.String(), tail(complaint.String(), 30))
	}
	return out.Bytes()
}

// lines hands on whole lines.
type lines struct {
	hear func(string)
	rest string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, whole := strings.Cut(l.rest, "\n")
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		l.hear(line)
	}
}

// freePort is one that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
