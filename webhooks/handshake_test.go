package webhooks

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func (h *house) ask(method, path, query string) (*http.Response, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path+"?"+query, nil)
	must(h.t, err)
	resp, err := h.client.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(h.t, err)
	return resp, string(text)
}

// Guarantee: HOO1
func TestW36HandshakeIsAnsweredWhileThereIsNoSecret(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		add := func(handshake string) Added {
			a, err := h.s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "github", TheirSecret: true, Handshake: handshake})
			must(t, err)
			if a.Secret != "" || len(a.Endpoint.Secrets) != 0 {
				t.Errorf("added %+v", a)
			}
			return a
		}
		pending, silent := add("validationToken"), add("")
		long := strings.Repeat("a", maxHandshake)
		for token, want := range map[string]string{"Validation: x+y/z=": "Validation: x+y/z=", "<script>alert(1)</script>": "&lt;script&gt;alert(1)&lt;/script&gt;", long: long} {
			for _, method := range []string{"GET", "POST"} {
				resp, got := h.ask(method, pending.Path, url.Values{"validationToken": {token}}.Encode())
				if resp.StatusCode != 200 || got != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s %.40q: %d %.60q %v", method, token, resp.StatusCode, got, resp.Header)
				}
			}
		}
		for name, c := range map[string]struct {
			method, path, query string
			want                int
		}{
			"too long":             {"POST", pending.Path, "validationToken=" + long + "a", 400},
			"twice":                {"POST", pending.Path, "validationToken=a&validationToken=b", 400},
			"empty":                {"POST", pending.Path, "validationToken=", 400},
			"a line break":         {"POST", pending.Path, "validationToken=a%0d%0ab", 400},
			"no text":              {"POST", pending.Path, "validationToken=%ff", 400},
			"another parameter":    {"GET", pending.Path, "token=a", 405},
			"no handshake here":    {"GET", silent.Path, "validationToken=a", 405},
			"nor by post":          {"POST", silent.Path, "validationToken=a", 415},
			"no such address":      {"GET", PathPrefix + "nobody", "validationToken=a", 404},
			"with a secret by now": {"GET", h.github.Path, "validationToken=a", 405},
		} {
			if resp, got := h.ask(c.method, c.path, c.query); resp.StatusCode != c.want || got != "" {
				t.Errorf("%s: %d %q, want %d", name, resp.StatusCode, got, c.want)
			}
		}
		// A notification before there is a secret, whatever it says of its own.
		body := `{"value":[{"subscriptionId":"1","clientState":null}]}`
		h.post(503, pending.Path, github("1", body), body)
		if _, err := h.s.Rotate(t.Context(), "acme", pending.Endpoint.ID, githubSecret, -1); err != nil {
			t.Fatal(err)
		}
		if resp, got := h.ask("POST", pending.Path, "validationToken=a"); resp.StatusCode == 200 || got != "" {
			t.Errorf("answered with a secret: %d %q", resp.StatusCode, got)
		}
		h.post(401, pending.Path, http.Header{"Content-Type": {"application/json"}, "X-Github-Delivery": {"1"}, "X-Github-Event": {"issues"},
			"X-Hub-Signature-256": {"sha256="}}, body)
		h.post(202, pending.Path, github("1", body), body)
		if n := len(h.records()); n != 1 {
			t.Errorf("%d deliveries, want the signed one", n)
		}
	})
}

func TestTheirSecretAndOurs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		if _, err := h.s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "github", TheirSecret: true, Secret: githubSecret}); err == nil {
			t.Error("both were taken")
		}
	})
}
