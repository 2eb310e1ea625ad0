package sandbox

import (
	"net/http"
	"strings"
	"testing"
)

// The HTTP face of the oracle does what the Go methods do.
func TestAdminRoutes(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	admin := func(method, path string, body any) reply { return b.call(method, "/admin"+path, b.AdminToken(), body) }
	for _, token := range []string{"", "wrong", b.as("bob").Access} {
		if r := b.call("GET", "/admin/ledger", token, nil); r.Status != 401 {
			t.Errorf("ledger with %q: %d", token, r.Status)
		}
	}
	token := b.as("alice").Access
	if r := admin("POST", "/tickets", `[{"project":"orders","title":"one","id":"A-1"},{"project":"secret","archived":true}]`); r.Status != 201 {
		t.Fatalf("seed: %d %s", r.Status, r.Body)
	}
	for body, want := range map[string]int{`{"project":"nowhere"}`: 400, `{"project":"orders","id":"A-1"}`: 400, `{"project":"orders","colour":"red"}`: 400, `{"project":"orders","author":"nobody"}`: 400} {
		if r := admin("POST", "/tickets", body); r.Status != want {
			t.Errorf("%s: %d", body, r.Status)
		}
	}
	if r := admin("PATCH", "/tickets/A-1", `{"status":"done","state":"closed"}`); !strings.Contains(string(r.Body), `"version":2`) {
		t.Errorf("patch: %d %s", r.Status, r.Body)
	}
	if r := admin("DELETE", "/tickets/A-1", nil); r.Status != 204 {
		t.Errorf("delete: %d", r.Status)
	}
	if a, p := admin("DELETE", "/tickets/A-1", nil), admin("PATCH", "/tickets/A-1", `{}`); a.Status != 404 || p.Status != 404 {
		t.Errorf("gone: %d, %d", a.Status, p.Status)
	}
	var ledger struct{ Writes []Write }
	admin("GET", "/ledger", nil).into(t, &ledger)
	got := ""
	for _, w := range ledger.Writes {
		got += w.Via + " " + w.Kind + " " + w.Project + "; "
	}
	if want := "admin create orders; admin create secret; admin update orders; admin delete orders; "; got != want {
		t.Errorf("ledger %s", got)
	}

	if r := admin("POST", "/access", `{"login":"alice","project":"secret","role":"reader"}`); r.Status != 204 {
		t.Errorf("access: %d %s", r.Status, r.Body)
	}
	if r := b.call("GET", "/api/v1/tickets/SEC-1", token, nil); r.Status != 200 {
		t.Errorf("alice reads secret: %d", r.Status)
	}
	if r := admin("POST", "/access", `{"login":"alice","project":"secret","role":"king"}`); r.Status != 400 {
		t.Errorf("unknown role: %d", r.Status)
	}

	if r := admin("PUT", "/behaviour", `{"rules":[{"match":{"path":"/api"},"effect":{"kind":"status","status":503,"retry_after":"7"}}]}`); r.Status != 204 {
		t.Fatalf("behaviour: %d %s", r.Status, r.Body)
	}
	if r := b.call("GET", "/api/v1/me", token, nil); r.Status != 503 || r.Header.Get("Retry-After") != "7" {
		t.Errorf("under the rule: %d", r.Status)
	}
	if r := admin("GET", "/behaviour", nil); !strings.Contains(string(r.Body), `"status":503`) {
		t.Errorf("behaviour read back: %s", r.Body)
	}
	if r := admin("PUT", "/behaviour", `{"ruels":[]}`); r.Status != 400 {
		t.Errorf("misspelt: %d", r.Status)
	}
	if r := admin("DELETE", "/behaviour", nil); r.Status != 204 || b.call("GET", "/api/v1/me", token, nil).Status != 200 {
		t.Errorf("behaviour ended: %d", r.Status)
	}

	if r := admin("POST", "/clients", `{"client_id":"late","redirect_uris":["https://late.example/cb"]}`); r.Status != 204 {
		t.Errorf("client: %d %s", r.Status, r.Body)
	}
	if r := admin("POST", "/tokens/expire", nil); r.Status != 204 || b.call("GET", "/api/v1/me", token, nil).Status != 401 {
		t.Errorf("expire: %d", r.Status)
	}
	if r := admin("POST", "/tokens/revoke", `{"login":"bob"}`); !strings.Contains(string(r.Body), `"families":1`) {
		t.Errorf("revoke: %s", r.Body)
	}
	if r := admin("POST", "/webhooks/redeliver", nil); !strings.Contains(string(r.Body), `"queued":0`) {
		t.Errorf("redeliver: %s", r.Body)
	}
	for _, path := range []string{"/requests", "/stats", "/canaries", "/tickets", "/webhooks/deliveries"} {
		if r := admin("GET", path, nil); r.Status != 200 {
			t.Errorf("%s: %d", path, r.Status)
		}
	}
	if r := admin("POST", "/reset", nil); r.Status != 204 || len(b.Ledger()) != 0 || b.Total() != 60 || b.OAuthStats().Families != 0 {
		t.Errorf("reset: %d", r.Status)
	}
}

func TestBaseURLWithAPath(t *testing.T) {
	t.Parallel()
	s, err := New(Config{BaseURL: "http://org.test/sub"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := &bench{s, t, &http.Client{Transport: direct{s.Handler()}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	got := in.as("alice")
	if r := in.call("GET", "/api/v1/me", got.Access, nil); r.Status != 200 {
		t.Errorf("me: %d", r.Status)
	}
	for _, bad := range []string{"", "ftp://x", "http://x/", "http://x?y", "x"} {
		if _, err := New(Config{BaseURL: bad}); err == nil {
			t.Errorf("base URL %q accepted", bad)
		}
	}
}

func TestReadyLineSignsIn(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	var line strings.Builder
	if err := b.Ready().WriteLine(&line); err != nil {
		t.Fatal(err)
	}
	if strings.Count(line.String(), "\n") != 1 || strings.Contains(line.String(), "acme-automaton\",\"password") {
		t.Errorf("line = %s", line.String())
	}
	if r := b.Ready(); len(r.Users) != 4 || len(r.Projects) != 4 || len(r.Clients) != 3 || r.URL != b.URL() {
		t.Errorf("ready = %+v", r)
	}
}
