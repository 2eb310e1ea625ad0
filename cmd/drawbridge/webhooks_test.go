package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
)

// subscribe registers a webhook at the sandbox as one of its people, by hand: it makes
// the secret itself, as many providers do.
func subscribe(t *testing.T, org *sandbox.Server, login, target string) (secret string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	password := ""
	for _, u := range org.Users() {
		if u.Login == login {
			password = u.Password
		}
	}
	// The verifier and its challenge are RFC 7636, appendix B.
	const callback = "http://127.0.0.1:1/callback"
	q := url.Values{"response_type": {"code"}, "client_id": {"drawbridge-cli"}, "redirect_uri": {callback}, "state": {"s"}, "scope": {"webhooks:manage"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
	back, err := sandbox.Login(t.Context(), client, org.URL()+"/oauth/authorize?"+q.Encode(), login, password, true)
	if err != nil {
		t.Fatal(err)
	}
	read := func(r *http.Request, into any) {
		t.Helper()
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode > 201 {
			t.Fatalf("%s: %d %v", r.URL.Path, resp.StatusCode, err)
		}
	}
	form, _ := http.NewRequest(http.MethodPost, org.URL()+"/oauth/token", strings.NewReader(url.Values{"grant_type": {"authorization_code"},
		"client_id": {"drawbridge-cli"}, "code": {back.Query().Get("code")}, "redirect_uri": {callback}, "code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}}.Encode()))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var token struct {
		Access string `json:"access_token"`
	}
	read(form, &token)
	hook, _ := http.NewRequest(http.MethodPost, org.URL()+"/api/v1/webhooks", strings.NewReader(fmt.Sprintf(`{"url":%q}`, target)))
	hook.Header.Set("Content-Type", "application/json")
	hook.Header.Set("Authorization", "Bearer "+token.Access)
	var made struct {
		Secret string `json:"secret"`
	}
	read(hook, &made)
	return made.Secret
}

// Guarantee: HOO1, HOO2, HOO4, OPS2
func TestEventsFromTheProviderToTheMirror(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	s := c.serve()
	added := c.json(0, "endpoints", "add", "--provider", "sandbox", "--url", s.base)
	address, id := text(added, "url"), text(added, "endpoint", "id")
	if !strings.HasPrefix(address, s.base+"/webhooks/") || text(added, "endpoint", "scheme") != "standard" {
		t.Fatalf("added %v", added)
	}
	secret := subscribe(t, org, "alice", address)
	c.json(0, "endpoints", "rotate", id, "--secret", secret, "--now")

	ticket, err := org.AddTicket(sandbox.Seed{Project: new("orders"), Title: new("Announced by an event"), Body: new("b")})
	if err != nil {
		t.Fatal(err)
	}
	delivery := ""
	for deadline := time.Now().Add(30 * time.Second); delivery == ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no event was decoded: %s", c.run("deliveries").out)
		}
		for line := range strings.Lines(c.run("deliveries", "--json").out) {
			var r map[string]any
			if json.Unmarshal([]byte(line), &r) == nil && r["state"] == "decoded" {
				delivery = text(r, "id")
			}
		}
	}
	mirrored(t, c, ticket.ID, "")
	if r := c.json(0, "deliveries", "show", delivery); text(r, "event_type") == "" || strings.Contains(fmt.Sprint(r), "Announced") {
		t.Errorf("the delivery shows %v", r)
	}
	// The page shows it to the connection's owner, without its text.
	_, page := s.do("GET", s.signIn, nil)
	s.do("POST", "/signin/local", fields(page))
	if status, page := s.do("GET", "/deliveries", nil); status != 200 || !strings.Contains(page, delivery) || strings.Contains(page, "Announced") {
		t.Errorf("the page: %d %s", status, page)
	}
	if r := c.json(0, "deliveries", "replay", delivery); r["replayed"] != true {
		t.Errorf("replay: %v", r)
	}
	if r := c.run("deliveries", "show", "absent"); r.code == 0 {
		t.Error("an absent delivery was shown")
	}
	if r := c.run("endpoints", "disable", id); r.code != 0 || !strings.Contains(r.out, "disabled") {
		t.Errorf("disable: %d %s", r.code, r.out)
	}
	if strings.Contains(c.seen.String(), secret) {
		t.Error("a secret that we were given is printed")
	}
}

// mirrored waits until what an event named was fetched, in a process of its own on the
// same data folder.
func mirrored(t *testing.T, c *cli, id, connection string) {
	t.Helper()
	c.onHost(func(h *host.Host) {
		conn, err := h.Credentials.Resolve(t.Context(), connector.Caller{Tenant: "acme", Principal: "alice", Connection: connector.ConnectionID(connection)}, "sandbox", nil)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			o, _, ok, err := h.Mirror.Get(t.Context(), conn, id, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				if o.Container != "orders" || !strings.Contains(string(o.Data), "Announced by an event") {
					t.Errorf("the mirror has %s in %s", o.Data, o.Container)
				}
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the mirror has no such ticket")
			}
		}
	})
}

// onHost opens what the commands open, for what no command shows.
func (c *cli) onHost(f func(*host.Host)) {
	c.t.Helper()
	instances, err := host.Instances(c.data)
	if err != nil {
		c.t.Fatal(err)
	}
	h, err := host.Open(c.t.Context(), host.Config{Data: c.data, Instances: instances, Policy: host.Local{}, Consent: host.Local{}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer h.Close()
	f(h)
}
