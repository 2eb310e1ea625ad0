package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// house is a service behind a real server.
type house struct {
	t  *testing.T
	s  *Service
	db *store.DB
	// github is an endpoint of the scheme "github" with this secret.
	github Added
	url    string
	client *http.Client
}

const githubSecret = "It's a Secret to Everybody"

func each(t *testing.T, fn func(t *testing.T, h *house)) {
	t.Helper()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) { fn(t, open(t, d, Config{})) })
}

// connection is alive, and may touch the projects orders and billing.
func connection(_ context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	if id == "gone" {
		return connector.Connection{}, connector.Fail(connector.CodeConnectionRequired, "")
	}
	return connector.Connection{ID: id, Tenant: tenant, Provider: "sandbox", Resources: []string{"orders", "billing"}}, nil
}

// decodeText reads "project/object#what makes the body another one" per line.
func decodeText(c connector.Connection, d inbox.Delivery) ([]inbox.Mark, error) {
	var marks []inbox.Mark
	for line := range strings.Lines(string(d.Body)) {
		line, _, _ = strings.Cut(strings.Trim(line, "\"\n"), "#")
		project, object, ok := strings.Cut(line, "/")
		switch {
		case !ok:
			return nil, &inbox.Quarantine{Reason: "no_object"}
		case project != "orders" && project != "billing":
			return nil, &inbox.Ignored{Reason: "out_of_scope"}
		}
		marks = append(marks, inbox.Mark{Lane: inbox.Lane{Tenant: d.Tenant, Provider: d.Provider, Connection: string(c.ID), Kind: "ticket", Object: object}})
	}
	return marks, nil
}

var ring = sync.OnceValue(func() *keys.Ring {
	text, err := keys.Generate()
	if err != nil {
		panic(err)
	}
	r, err := keys.Parse(text)
	if err != nil {
		panic(err)
	}
	return r
})

func open(t *testing.T, d storetest.Database, c Config) *house {
	t.Helper()
	c.DB, c.Keys = d.Open(Migrations(), inbox.Migrations()), ring()
	var err error
	c.Inbox, err = inbox.New(inbox.Config{DB: c.DB, Sealer: c.Keys})
	must(t, err)
	c.Connection, c.Decoders = connection, map[string]Decoder{"sandbox": decodeText}
	if c.Apply == nil {
		c.Apply = func(context.Context, inbox.Lease) error { return nil }
	}
	h := &house{t: t, db: c.DB}
	h.s, err = New(c)
	must(t, err)
	server := httptest.NewServer(h.s.Handler())
	t.Cleanup(server.Close)
	h.url, h.client = server.URL, server.Client()
	h.github = h.add("github", githubSecret)
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *house) add(scheme, secret string) Added {
	h.t.Helper()
	a, err := h.s.Add(h.t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: scheme, Secret: secret})
	must(h.t, err)
	return a
}

func hexMAC(secret string, body string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

func github(id, body string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("X-Github-Delivery", id)
	h.Set("X-Github-Event", "issues")
	h.Set("X-Hub-Signature-256", "sha256="+hexMAC(githubSecret, body))
	return h
}

// standard signs as a Standard Webhooks sender does.
func standard(secret, id, body string, at time.Time) http.Header {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%d.%s", id, at.Unix(), body)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	return h
}

// post wants a status and an empty body, and returns the headers.
func (h *house) post(want int, path string, header http.Header, body string) http.Header {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url+path, bytes.NewReader([]byte(body)))
	must(h.t, err)
	req.Header = header
	resp, err := h.client.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(h.t, err)
	if resp.StatusCode != want || len(text) > 0 {
		h.t.Errorf("status %d with %q, want %d and no body", resp.StatusCode, text, want)
	}
	return resp.Header
}

func (h *house) stats() Stats {
	h.t.Helper()
	s, err := h.s.Stats(h.t.Context())
	must(h.t, err)
	return s
}

func (h *house) records() []inbox.Record {
	h.t.Helper()
	r, err := h.s.Inbox().List(h.t.Context(), inbox.Filter{Tenant: "acme"})
	must(h.t, err)
	return r
}

// run works until the returned function is called, or the test ends.
func (h *house) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	h.t.Cleanup(stop)
	return stop
}

// until waits for what the workers bring about.
func (h *house) until(what string, holds func(Stats) bool) {
	h.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := h.stats()
		if holds(s) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: not after 20 seconds: %+v", what, s)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
