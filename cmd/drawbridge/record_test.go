package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serving is a command that runs until it is stopped.
type serving struct {
	url  string
	stop func() ran
}

func serveCommand(t *testing.T, args ...string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var errOut bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, append(args, "--json", "--data", t.TempDir()), strings.NewReader(""), w, &errOut)
		w.Close()
		ended <- code
	}()
	lines := bufio.NewReader(r)
	first, err := lines.ReadBytes('\n')
	var ready struct {
		URL string `json:"url"`
	}
	if err != nil || json.Unmarshal(first, &ready) != nil {
		cancel()
		t.Fatalf("%v: %v, %q, %s", args, err, first, &errOut)
	}
	return serving{ready.URL, func() ran {
		cancel()
		rest, _ := io.ReadAll(lines)
		return ran{<-ended, string(rest), errOut.String()}
	}}
}

func getWith(t *testing.T, url, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Guarantee: NET10
func TestRecordAndReplay(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"title":"printer","echo":"`+r.Header.Get("Authorization")+`","desk":"room 7"}`)
	}))
	defer provider.Close()
	file := filepath.Join(t.TempDir(), "provider.json")
	const token = "a-real-token-42"
	t.Setenv("CANARY", token)
	recording := serveCommand(t, "record", "--to", provider.URL, "--out", file, "--canary-env", "CANARY", "--scrub", "desk")
	if seen := getWith(t, recording.url+"/notes/1", token); !strings.Contains(seen, token) {
		t.Errorf("the client got %s", seen)
	}
	if r := recording.stop(); r.code != 0 || !strings.Contains(r.out, `"exchanges":1`) {
		t.Fatalf("%+v", r)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(raw), token) || strings.Contains(string(raw), "room 7") || !strings.Contains(string(raw), "printer") {
		t.Errorf("%v\n%s", err, raw)
	}

	replaying := serveCommand(t, "replay", file)
	if seen := getWith(t, replaying.url+"/notes/1", "another-token-43"); !strings.Contains(seen, "printer") {
		t.Errorf("replayed %s", seen)
	}
	getWith(t, replaying.url+"/notes/2", "another-token-43")
	if r := replaying.stop(); r.code != 1 || !strings.Contains(r.err, "not in the recording: GET /notes/2") {
		t.Errorf("%+v", r)
	}
}

// Guarantee: NET10
func TestRecordWritesNothingWithACanary(t *testing.T) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"title":"printer"}`)
	}))
	defer provider.Close()
	file := filepath.Join(t.TempDir(), "provider.json")
	t.Setenv("CANARY", "printer")
	recording := serveCommand(t, "record", "--to", provider.URL, "--out", file, "--canary-env", "CANARY")
	getWith(t, recording.url+"/", "a-real-token-42")
	r := recording.stop()
	if _, err := os.Stat(file); r.code != 1 || err == nil || !strings.Contains(r.err, "nothing was written") {
		t.Errorf("%+v, file: %v", r, err)
	}
}

func TestRecordRefusals(t *testing.T) {
	c := newCLI(t, "acme/alice")
	out := filepath.Join(t.TempDir(), "new.json")
	for name, args := range map[string][]string{
		"nothing said":     {"record"},
		"a path":           {"record", "--to", "https://example.org/api", "--out", out},
		"not this machine": {"record", "--to", "https://example.org", "--out", out, "--addr", "0.0.0.0:0"},
		"no canary":        {"record", "--to", "https://example.org", "--out", out, "--canary-env", "NOT_SET_ANYWHERE"},
	} {
		if r := c.run(args...); r.code != 2 {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s left a file", name)
		}
	}
}
