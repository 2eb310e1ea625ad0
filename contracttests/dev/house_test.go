package dev_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// books are what the provider knows of itself.
type books interface {
	Ledger() []sandbox.Write
	Count(ctx context.Context, marker string) (int, error)
	Seed(context.Context, kit.Object) (string, error)
}

// bookkeeper lets a test look into the provider that the house starts.
type bookkeeper struct {
	kit.Harness
	books books
}

func (b *bookkeeper) Start(ctx context.Context, dir string, seed int64) (kit.Provider, error) {
	p, err := b.Harness.Start(ctx, dir, seed)
	if err == nil {
		b.books = p.(books)
	}
	return p, err
}

// desk is an author at the pages of the ticket connector.
type desk struct {
	t     *testing.T
	org   books
	bench dev.Bench
	base  string
	link  string
	web   *http.Client
	csrf  string
}

// newDesk serves the pages. change may alter the bench.
func newDesk(t *testing.T, change ...func(*dev.Bench)) *desk {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	keeper := &bookkeeper{Harness: kit.SandboxOrg()}
	subject := kit.Tickets(tickets.New(sandboxorg.Driver{}), keeper)
	jar, _ := cookiejar.New(nil)
	wires := &http.Transport{}
	d := &desk{t: t, web: &http.Client{Jar: jar, Transport: wires, Timeout: time.Minute}}
	ready, ended := make(chan dev.Greeting, 1), make(chan error, 1)
	go func() {
		ended <- kit.Develop(ctx, t, subject, func(ctx context.Context, b dev.Bench) error {
			for _, c := range change {
				c(&b)
			}
			d.bench = b
			return dev.Serve(ctx, b, "127.0.0.1:0", func(g dev.Greeting) { ready <- g })
		})
	}()
	select {
	case g := <-ready:
		d.base, d.link = g.URL, g.SignIn
	case err := <-ended:
		stop()
		t.Fatalf("it does not serve: %v", err)
	}
	d.org = keeper.books
	t.Cleanup(func() {
		wires.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return d
}

// inside is a desk whose author has come in.
func inside(t *testing.T, change ...func(*dev.Bench)) *desk {
	t.Helper()
	d := newDesk(t, change...)
	if status, text := d.enter(d.link); status != http.StatusOK {
		t.Fatalf("the link answers %d: %s", status, text)
	}
	return d
}

func (d *desk) enter(link string) (int, string) {
	u, err := url.Parse(link)
	if err != nil {
		d.t.Fatal(err)
	}
	status, text := d.do(http.MethodPost, "/enter", url.Values{"t": {u.Query().Get("t")}}, nil)
	_, faults := d.do(http.MethodGet, "/faults", nil, nil) // always has a form
	if m := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(faults); m != nil {
		d.csrf = m[1]
	}
	return status, text
}

// do follows redirects as a browser does.
func (d *desk) do(method, path string, form url.Values, change func(*http.Request)) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	resp, err := d.web.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// get is what a page says to a person.
func (d *desk) get(path string) string {
	d.t.Helper()
	status, text := d.do(http.MethodGet, path, nil, nil)
	if status != http.StatusOK {
		d.t.Fatalf("%s answers %d: %s", path, status, plain(text))
	}
	return plain(text)
}

// post sends a form of ours and says where it led.
func (d *desk) post(path string, pairs ...string) (int, string) {
	d.t.Helper()
	form := url.Values{"csrf": {d.csrf}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return d.do(http.MethodPost, path, form, nil)
}

var tags = regexp.MustCompile(`<[^>]*>`)

// plain is a page without its tags, with the space in it as one space.
func plain(page string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(page, ""))), " ")
}

func (d *desk) reads(page string, wants ...string) {
	d.t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			d.t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
}

// operationIn is the first write that a page leads to.
func (d *desk) operationIn(page string) string {
	d.t.Helper()
	m := regexp.MustCompile(`href="(/operations/[^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		d.t.Fatalf("the page leads to no write:\n%s", plain(page))
	}
	return m[1]
}

// draft is a filled form of tickets.create.
func draft(title string) []string {
	return []string{"/project", "orders", "/title", title, "/body", "It is slow.\r\nSince Monday.", "/severity", `"low"`, "/labels", "bug\r\n"}
}
