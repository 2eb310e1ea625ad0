package senders

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The text is GitHub's own example of a secret. Both of the others are as the
// spec has them: 24 bytes behind a prefix.
const (
	githubSecret = "It's a Secret to Everybody"
	otherGithub  = "It's a Secret to Nobody else"
)

var (
	standardSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
	otherStandard  = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234568"))
)

var bodies = []string{"plain", "escapes", "emoji", "spaces", "large"}

// W01, W02: the libraries' own signatures over bodies that a parser would write
// in another way.
// Guarantee: HOO1
func TestSendersLibraries(t *testing.T) {
	if os.Getenv("CI_REQUIRE_NODE") == "" {
		t.Skip("needs Node and packages from npm; runs with CI_REQUIRE_NODE=1")
	}
	got := send(t)
	want := map[string]error{}
	for _, b := range bodies {
		want["standard/"+b+"/true"], want["github/"+b+"/true"] = nil, nil
		for _, change := range []string{"standard/" + b + "/body", "standard/" + b + "/id", "standard/" + b + "/time", "standard/" + b + "/key",
			"github/" + b + "/body", "github/" + b + "/key"} {
			want[change] = signature.WrongSignature
		}
		want["standard/"+b+"/old"], want["standard/"+b+"/future"] = signature.TooOld, signature.TooNew
	}
	counts := map[string]int{}
	for name, reason := range want {
		v, arrived := got[name]
		if !arrived || v != reason {
			t.Errorf("%s: arrived %v with %v, want %v", name, arrived, v, reason)
			continue
		}
		library, _, _ := strings.Cut(name, "/")
		if reason == nil {
			counts[library+" accepted"]++
		} else {
			counts[library+" refused"]++
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d deliveries, want %d", len(got), len(want))
	}
	fmt.Printf("figure: senders' libraries  standardwebhooks %d accepted, %d altered refused; octokit %d accepted, %d altered refused\n",
		counts["standard accepted"], counts["standard refused"], counts["github accepted"], counts["github refused"])
}

// send runs the libraries against a server and returns what each delivery came
// to there; nil is accepted.
func send(t *testing.T) map[string]error {
	t.Helper()
	var mu sync.Mutex
	got := map[string]error{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("X-Case")
		scheme, secret := "standard", standardSecret
		if strings.HasPrefix(name, "github/") {
			scheme, secret = "github", githubSecret
		}
		err := verify(scheme, secret, r)
		mu.Lock()
		defer mu.Unlock()
		if _, again := got[name]; again {
			t.Errorf("%s came twice", name)
		}
		got[name] = err
	}))
	defer server.Close()
	folder := install(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "node", "send.mjs", server.URL, standardSecret, otherStandard, githubSecret, otherGithub)
	run.Dir = folder
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	return got
}

func verify(scheme, secret string, r *http.Request) error {
	s, ok := signature.Lookup(scheme)
	if !ok {
		return fmt.Errorf("there is no scheme %q", scheme)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, s.MaxBody))
	if err != nil {
		return err
	}
	v, err := signature.Verify(s, []signature.Secret{{Text: secret}}, r.Header, body, time.Now())
	if err == nil && (v.DeliveryID == "" || string(v.Payload) != string(body)) {
		return fmt.Errorf("verified without an id, or another document than was sent")
	}
	return err
}

// install puts the pinned packages beside the script, outside of the checkout.
// None of them may run a script of its own.
func install(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "send.mjs"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	return folder
}
