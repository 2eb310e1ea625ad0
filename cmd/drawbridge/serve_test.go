package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// served is a server that runs beside the commands of a test, and one browser.
type served struct {
	t      *testing.T
	base   string
	signIn string
	client *http.Client
}

// serve starts the server on a free port and stops it with the test.
func (c *cli) serve(args ...string) *served {
	c.t.Helper()
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var errOut strings.Builder
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--json", "--data", c.data, "--as", c.as}, args...)
	go func() {
		ended <- run(ctx, args, strings.NewReader(""), in, &errOut)
		in.Close()
	}()
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	s := &served{t: c.t, client: &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second}}
	c.t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if code := <-ended; code != 0 {
			c.t.Errorf("serve ended with %d: %s", code, errOut.String())
		}
		c.seen.WriteString(errOut.String())
	})
	var greeting struct {
		URL    string `json:"url"`
		SignIn string `json:"sign_in"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &greeting) != nil || greeting.URL == "" {
		c.t.Fatalf("serve printed %q: %v", line, err)
	}
	s.base, s.signIn = greeting.URL, greeting.SignIn
	return s
}

func (s *served) do(method, address string, form url.Values) (int, string) {
	s.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = s.base + address
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// fields are the hidden ones of the first form on a page that has any.
func fields(page string) url.Values {
	v := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		if !v.Has(m[1]) {
			v.Set(m[1], m[2])
		}
	}
	return v
}

// Guarantee: OPS2, OPS1
func TestServeLetsAPersonDecide(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	asked := c.json(4, "call", "tickets.create", `{"project":"orders","title":"Served","body":"b","severity":"low"}`)
	approval := text(asked, "error", "approval_id")
	s := c.serve()

	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := s.do("GET", path, nil); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if _, page := s.do("GET", "/approvals/"+approval, nil); strings.Contains(page, "Served") {
		t.Fatal("a stranger reads the card")
	}
	_, page := s.do("GET", s.signIn, nil)
	if status, page := s.do("POST", "/signin/local", fields(page)); status != 200 {
		t.Fatalf("sign-in: %d %s", status, page)
	}
	_, card := s.do("GET", "/approvals/"+approval, nil)
	if !strings.Contains(card, "Served") {
		t.Fatalf("the card does not show the title:\n%s", card)
	}
	if n := org.Count("Served"); n != 0 {
		t.Fatalf("%d tickets before the approval", n)
	}
	if status, page := s.do("POST", "/approvals/"+approval+"/approve", fields(card)); status != 200 {
		t.Fatalf("approve: %d %s", status, page)
	}
	c.json(0, "call", "tickets.create", `{"project":"orders","title":"Served","body":"b","severity":"low"}`)
	if n := org.Count("Served"); n != 1 {
		t.Errorf("%d tickets, want 1", n)
	}
	// The link is used up.
	if status, _ := s.do("POST", "/signin/local", fields(page)); status == 200 {
		t.Error("the sign-in link works twice")
	}
}

func TestServeRefusesWhatItCouldNotKeep(t *testing.T) {
	c := newCLI(t, "acme/alice")
	for _, args := range [][]string{
		{"serve", "--listen", "0.0.0.0:0"},
		{"serve", "--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"},
		{"serve", "--listen", "127.0.0.1:0", "--url", "http://bridge.example"},
		{"serve", "--listen", "127.0.0.1:0", "--oidc-issuer", "https://id.example"},
	} {
		if r := c.run(args...); r.code == 0 || r.out != "" {
			t.Errorf("%v: exit code %d, %q", args, r.code, r.out)
		}
	}
}
