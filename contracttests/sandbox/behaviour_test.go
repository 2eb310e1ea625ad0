package sandbox

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wire sends one create over a socket of its own and returns every byte that
// came back, and how the connection ended.
func (b *bench) wire(token, title, key string) (string, error) {
	b.t.Helper()
	u, _ := url.Parse(b.URL())
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	body := fmt.Sprintf(`{"project":"orders","title":%q}`, title)
	fmt.Fprintf(conn, "POST /api/v1/tickets HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nIdempotency-Key: %s\r\nConnection: close\r\n\r\n%s",
		u.Host, token, len(body), key, body)
	text, err := io.ReadAll(conn)
	return string(text), err
}

// Guarantee: TST3
func TestFaultsOfACreateOnTheWire(t *testing.T) { // T02, T05, T16, T17, T20, T23
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	const ok = "HTTP/1.1 201 Created\r\n"
	cases := []struct {
		name    string
		effect  Effect
		written int
		starts  string // first bytes of the answer; "" means not one byte
		ends    string
		reset   bool
	}{
		{"lost", Effect{Kind: "lose_answer_after_commit"}, 1, "", "", true},
		{"lost after headers", Effect{Kind: "lose_answer_after_commit", Variant: "after_headers"}, 1, ok, "\r\n\r\n", false},
		{"lost half way", Effect{Kind: "lose_answer_after_commit", Variant: "half_body"}, 1, ok, "", false},
		{"reset before", Effect{Kind: "reset_before"}, 0, "", "", true},
		{"429", Effect{Kind: "status", Status: 429, RetryAfter: "1.5"}, 0, "HTTP/1.1 429 ", "}", false},
		{"500 before", Effect{Kind: "status", Status: 500}, 0, "HTTP/1.1 500 ", "}", false},
		{"502 after", Effect{Kind: "status", Status: 502, When: "after"}, 1, "HTTP/1.1 502 ", "}", false},
		{"503 after", Effect{Kind: "status", Status: 503, When: "after", RetryAfter: "Wed, 21 Oct 2026 07:28:00 GMT"}, 1, "HTTP/1.1 503 ", "}", false},
		{"secondary limit", Effect{Kind: "status", Status: 403, Body: `{"message":"You have exceeded a secondary rate limit."}`}, 0, "HTTP/1.1 403 ", "limit.\"}", false},
		{"html", Effect{Kind: "html"}, 0, "HTTP/1.1 200 OK", "</html>\n", false},
		{"html called json, after", Effect{Kind: "html", Variant: "json", When: "after"}, 1, "HTTP/1.1 200 OK", "</html>\n", false},
		{"redirect", Effect{Kind: "redirect", Status: 307, Location: "http://169.254.169.254/"}, 0, "HTTP/1.1 307 ", "\r\n\r\n", false},
		{"redirect to nowhere", Effect{Kind: "redirect", Status: 301}, 0, "HTTP/1.1 301 ", "\r\n\r\n", false},
		{"empty after", Effect{Kind: "empty", When: "after"}, 1, "HTTP/1.1 204 ", "\r\n\r\n", false},
		{"truncated", Effect{Kind: "truncate", Bytes: 20}, 1, ok, "", false},
		{"garbage behind", Effect{Kind: "trailing_garbage"}, 1, ok, `{"and":`, false},
		{"wrong type", Effect{Kind: "wrong_content_type"}, 1, ok, "}", false},
		{"slow", Effect{Kind: "slow_body", Bytes: 200, DelayMS: 1}, 1, ok, "}", false},
		{"delay", Effect{Kind: "delay", DelayMS: 1}, 1, ok, "}", false},
	}
	for i, c := range cases {
		b.behave(Behaviour{Rules: []Rule{{Match: Match{Method: "POST", Path: "/api/v1/tickets", Nth: []int{1}}, Effect: c.effect}}})
		key := fmt.Sprint("case-", i)
		got, err := b.wire(token, c.name, key)
		if n := b.Count(c.name); n != c.written {
			t.Errorf("%s: org holds %d tickets, want %d", c.name, n, c.written)
		}
		if errors.Is(err, syscall.ECONNRESET) != c.reset {
			t.Errorf("%s: connection ended with %v", c.name, err)
		}
		if (c.starts == "") != (got == "") || !strings.HasPrefix(got, c.starts) || !strings.HasSuffix(got, c.ends) {
			t.Errorf("%s: answer\n%s", c.name, got)
		}
		if want := c.effect.RetryAfter; want != "" && !strings.Contains(got, "Retry-After: "+want+"\r\n") {
			t.Errorf("%s: no Retry-After\n%s", c.name, got)
		}
		if diff := cmp.Diff([]int{1}, b.Fired()); diff != "" {
			t.Errorf("%s: rule fired:\n%s", c.name, diff)
		}
		// The next one is well again and, where the first committed, a replay.
		got, _ = b.wire(token, c.name, key)
		if !strings.HasPrefix(got, ok) || b.Count(c.name) != 1 || strings.Contains(got, "Idempotency-Replayed: true") != (c.written == 1) {
			t.Errorf("%s: afterwards\n%s", c.name, got)
		}
	}
	for _, name := range []string{"lost half way", "truncated"} {
		for i, c := range cases {
			if c.name != name {
				continue
			}
			b.behave(Behaviour{Rules: []Rule{{Match: Match{Method: "POST"}, Effect: c.effect}}})
			got, _ := b.wire(token, "promise "+name, fmt.Sprint("promise-", i))
			res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(got)), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) || len(text) == 0 || int64(len(text)) >= res.ContentLength {
				t.Errorf("%s: %d of %d bytes, %v", name, len(text), res.ContentLength, err)
			}
		}
	}
}

// Guarantee: TST3
func TestHugeAndPackedBodies(t *testing.T) { // T23
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	b.behave(Behaviour{Rules: []Rule{{Effect: Effect{Kind: "oversized", Bytes: 1 << 20}}}})
	if r := b.call("GET", "/api/v1/tickets", token, nil); len(r.Body) < 1<<20 || !json.Valid(r.Body) {
		t.Errorf("oversized: %d bytes", len(r.Body))
	}
	b.behave(Behaviour{Rules: []Rule{{Effect: Effect{Kind: "gzip_bomb", Bytes: 4 << 20}}}})
	r := b.call("GET", "/api/v1/tickets", token, nil)
	z, err := gzip.NewReader(bytes.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || len(text) < 4<<20 || len(r.Body) > len(text)/500 || !json.Valid(text) {
		t.Errorf("bomb: %d bytes unpack to %d, %v", len(r.Body), len(text), err)
	}
	b.behave(Behaviour{Rules: []Rule{{Effect: Effect{Kind: "truncate", Variant: "gzip"}}}})
	r = b.call("GET", "/api/v1/tickets", token, nil)
	if z, err = gzip.NewReader(bytes.NewReader(r.Body)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(z); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("gzip without trailer: %v", err)
	}
}

func TestRulesSelect(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	token := b.as("alice").Access
	run := func(m Match, n int, path string) string {
		b.behave(Behaviour{Rules: []Rule{{Match: m, Effect: Effect{Kind: "status", Status: 418}}}})
		var out strings.Builder
		for range n {
			if b.call("GET", path, token, nil).Status == 418 {
				out.WriteByte('x')
			} else {
				out.WriteByte('.')
			}
		}
		return out.String()
	}
	for want, got := range map[string]string{
		".x.x..": run(Match{Method: "GET", Nth: []int{2, 4}}, 6, "/api/v1/tickets"),
		"xx...":  run(Match{Times: 2}, 5, "/api/v1/tickets"),
		"...":    run(Match{Path: "/api/v1/tickets", Exact: true}, 3, "/api/v1/tickets/007"),
		"xxx":    run(Match{Path: "/api/v1/tickets", Exact: true}, 3, "/api/v1/tickets?limit=1"),
		"....":   run(Match{Method: "POST"}, 4, "/api/v1/tickets"),
		".....":  run(Match{Grant: "refresh_token"}, 5, "/api/v1/tickets"),
	} {
		if got != want {
			t.Errorf("hits %s, want %s", got, want)
		}
	}
	one := run(Match{Probability: 0.5, Seed: 3}, 40, "/api/v1/me")
	if two := run(Match{Probability: 0.5, Seed: 3}, 40, "/api/v1/me"); one != two || !strings.Contains(one, "x") || !strings.Contains(one, ".") {
		t.Errorf("seeded chance: %s and %s", one, two)
	}
	for _, bad := range []Rule{{Effect: Effect{Kind: "explode"}}, {Effect: Effect{Kind: "delay", When: "never"}}, {Match: Match{Nth: []int{1}, Probability: .5}, Effect: Effect{Kind: "empty"}}} {
		if b.SetBehaviour(Behaviour{Rules: []Rule{bad}}) == nil || b.AddRule(bad) == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
	b.behave(Behaviour{Rules: []Rule{{Match: Match{Path: "/api", Nth: []int{1}}, Effect: Effect{Kind: "status", Status: 500}}}})
	b.call("GET", "/api/v1/me", token, nil)
	if err := b.AddRule(Rule{Match: Match{Path: "/api"}, Effect: Effect{Kind: "status", Status: 502}}); err != nil {
		t.Fatal(err)
	}
	if r := b.call("GET", "/api/v1/me", token, nil); r.Status != 502 {
		t.Errorf("with a rule added: %d, want 502", r.Status)
	}
}

func TestTokenEndpointFaults(t *testing.T) { // C07, C20, C27
	t.Parallel()
	b := start(t, Config{})
	first := b.as("alice")
	b.behave(Behaviour{Rules: []Rule{{Match: Match{Grant: "refresh_token", Nth: []int{1}}, Effect: Effect{Kind: "lose_answer_after_commit"}}}})
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"drawbridge-cli"}, "refresh_token": {first.Refresh}}
	if _, err := b.client.PostForm(b.URL()+"/oauth/token", form); err == nil {
		t.Fatal("the answer arrived")
	}
	if st := b.OAuthStats(); st.Rotations != 1 {
		t.Errorf("rotations = %d, want 1: the loss comes after the commit", st.Rotations)
	}
	if got := b.refresh(first.Refresh); got.Error != "invalid_grant" || b.OAuthStats().KilledByRefreshReuse != 1 {
		t.Errorf("replay after the loss: %+v", got)
	}
	second := b.as("alice")
	b.behave(Behaviour{Rules: []Rule{
		{Match: Match{Path: "/oauth/token", Nth: []int{1}}, Effect: Effect{Kind: "redirect", Status: 307, Location: "http://169.254.169.254/token"}},
		{Match: Match{Path: "/oauth/token", Nth: []int{2}}, Effect: Effect{Kind: "status", Status: 503}},
	}})
	for _, want := range []int{307, 503} {
		form.Set("refresh_token", second.Refresh)
		res, err := b.client.PostForm(b.URL()+"/oauth/token", form)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
	}
	if got := b.refresh(second.Refresh); got.Status != 200 {
		t.Errorf("the token was spent by a fault before the handler: %+v", got)
	}
}

func TestIndexLagAndLateCommit(t *testing.T) { // T04, T10
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{BaseURL: "http://org.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{s, t, &http.Client{Transport: direct{s.Handler()}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		token := b.as("alice").Access
		b.behave(Behaviour{Switches: Switches{IndexLagMS: 3000}})
		b.call("POST", "/api/v1/tickets", token, `{"project":"orders","title":"Zebra crossing","external_ref":"z"}`, "Idempotency-Key", "z")
		count := func(query string) int { return b.list(token, query).Total }
		all := count("project=orders")
		if count("q=zebra") != 0 || count("external_ref=z") != 0 {
			t.Error("the index is ahead of its lag")
		}
		if r := b.call("GET", "/api/v1/operations/z", token, nil); !strings.Contains(string(r.Body), `"found":true`) {
			t.Errorf("operation: %s", r.Body)
		}
		time.Sleep(3 * time.Second)
		if count("q=zebra") != 1 || count("external_ref=z") != 1 || count("project=orders") != all {
			t.Error("the index does not catch up")
		}

		// A client that gives up does not stop a commit that is under way.
		b.behave(Behaviour{Rules: []Rule{{Match: Match{Method: "POST"}, Effect: Effect{Kind: "delay", DelayMS: 3000}}}})
		go b.try("POST", "/api/v1/tickets", token, `{"project":"orders","title":"Late"}`)
		time.Sleep(2999 * time.Millisecond)
		if b.Count("Late") != 0 {
			t.Error("committed early")
		}
		time.Sleep(2 * time.Millisecond)
		if b.Count("Late") != 1 {
			t.Error("never committed")
		}
	})
}

func TestPagesThatLie(t *testing.T) { // T24
	t.Parallel()
	b := start(t, Config{})
	token := b.as("bob").Access
	b.behave(Behaviour{Switches: Switches{NoNextCursor: true}})
	if got := b.list(token, "state=all&limit=5"); got.Next != nil || got.Total <= 5 {
		t.Errorf("next %v, total %d", got.Next, got.Total)
	}
	b.behave(Behaviour{Switches: Switches{ConstantCursor: "again"}})
	one := b.list(token, "limit=5")
	two := b.list(token, "limit=5&cursor="+*one.Next)
	if *two.Next != "again" || one.Items[0].ID != two.Items[0].ID {
		t.Errorf("second page: next %v", *two.Next)
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{BaseURL: "http://org.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{s, t, &http.Client{Transport: direct{s.Handler()}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		alice, bob := b.as("alice").Access, b.as("bob").Access
		b.behave(Behaviour{RateLimit: 2, RateWindowMS: 10000})
		var got []string
		for _, token := range []string{alice, alice, alice, bob} {
			r := b.call("GET", "/api/v1/me", token, nil)
			got = append(got, fmt.Sprint(r.Status, " ", r.Header.Get("X-RateLimit-Remaining"), " ", r.Header.Get("Retry-After")))
		}
		if diff := cmp.Diff([]string{"200 1 ", "200 0 ", "429 0 10", "200 1 "}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		if r := b.call("GET", "/api/v1/me", alice, nil); r.Status != 200 {
			t.Errorf("next window: %d", r.Status)
		}
	})
}

func TestCaptureHoldsNoSecret(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	got := b.as("alice")
	b.call("POST", "/api/v1/tickets", got.Access, `{"project":"orders","title":"seen"}`, "Idempotency-Key", "k9")
	b.refresh(got.Refresh)
	text, err := json.Marshal(b.Requests())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range b.Canaries() {
		if strings.Contains(string(text), secret) {
			t.Errorf("a record holds %q", secret)
		}
	}
	var create, token *Request
	list := b.Requests()
	for i := range list {
		switch list[i].Route {
		case "POST /api/v1/tickets":
			create = &list[i]
		case "POST /oauth/token":
			token = &list[i]
		}
	}
	if create == nil || create.BearerSHA256 != digest([]byte(got.Access)) || !create.Authorization || create.Status != 201 || create.Key != "k9" {
		t.Errorf("create = %+v", create)
	}
	if token == nil || token.Form.Get("grant_type") != "refresh_token" || token.Form.Get("refresh_token") != "sha256:"+digest([]byte(got.Refresh)) {
		t.Errorf("token = %+v", token)
	}
	if n := b.Hits("POST /api/v1/tickets"); n != 1 {
		t.Errorf("%d hits", n)
	}
	for range captured {
		b.capture.add(&exchange{r: newRequest(&url.URL{Path: "/x"})}, "GET /x")
	}
	if list := b.Requests(); len(list) != captured || list[0].Route != "GET /x" || list[0].Seq+captured-1 != list[captured-1].Seq {
		t.Errorf("ring: %d records from %d", len(list), list[0].Seq)
	}
}
