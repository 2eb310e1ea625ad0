package transport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func cacheable(path string) connector.Request {
	r := read(path)
	r.Cacheable = true
	return r
}

// tagged answers with the version of a document, or with 304 if it is known.
func tagged(version func(r seen) string, headers ...string) act {
	return func(_ int, r seen, c net.Conn) bool {
		tag := `"` + version(r) + `"`
		h := append([]string{"ETag: " + tag}, headers...)
		if r.header.Get("If-None-Match") == tag {
			return say(c, 304, "", h...)
		}
		return say(c, 200, fmt.Sprintf(`{"v":%q,"by":%q}`, version(r), r.header.Get("Authorization")), h...)
	}
}

func fixed(v string) func(seen) string { return func(seen) string { return v } }

func do(t *testing.T, tr *Transport, c connector.Connection, r connector.Request) connector.Response {
	t.Helper()
	resp, err := tr.Do(t.Context(), c, connector.ClassRead, r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// Guarantee: NET9
func TestUnchangedAnswerComesFromTheCache(t *testing.T) {
	version := "1"
	s := serve(t, tagged(func(seen) string { return version }, "X-Request-Id: r", "Set-Cookie: a=b", "Link: <next>"))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	first := do(t, tr, alice, cacheable("/t"))
	if first.FromCache || first.Revalidated || first.Status != 200 {
		t.Fatalf("first: %+v", first)
	}
	first.Body[0], first.Header["Link"][0] = 'X', "changed by the caller"
	second := do(t, tr, alice, cacheable("/t"))
	if !second.FromCache || !second.Revalidated || second.Status != 200 || string(second.Body) != `{"v":"1","by":"Bearer `+canary+`-1"}` {
		t.Errorf("second: %+v, %s", second, second.Body)
	}
	if second.Header.Get("Content-Type") != "application/json" || second.Header.Get("Link") != "<next>" || second.Header.Get("Set-Cookie") != "" || second.RequestID != "r" {
		t.Errorf("header %v", second.Header)
	}
	if len(second.Attempts) != 1 || second.Attempts[0].Status != 304 || !second.FetchedAt.After(first.FetchedAt) {
		t.Errorf("attempts %+v, fetched at %v", second.Attempts, second.FetchedAt)
	}
	second.Body[0] = 'X'
	if third := do(t, tr, alice, cacheable("/t")); third.Body[0] != '{' {
		t.Errorf("a caller changed what is stored: %s", third.Body)
	}
	version = "2"
	for _, fromCache := range []bool{false, true} {
		if r := do(t, tr, alice, cacheable("/t")); r.FromCache != fromCache || !strings.Contains(string(r.Body), `"v":"2"`) {
			t.Errorf("changed: %+v, %s", r, r.Body)
		}
	}
	if n := len(s.requests()); n != 5 {
		t.Errorf("%d requests, want one for each call: nothing is served unasked", n)
	}
}

func TestLastModifiedWillDo(t *testing.T) {
	const date = "Mon, 30 Nov 2026 11:00:00 GMT"
	s := serve(t, func(_ int, r seen, c net.Conn) bool {
		if r.header.Get("If-Modified-Since") == date && r.header.Get("If-None-Match") == "" {
			return say(c, 304, "")
		}
		return say(c, 200, `{"a":1}`, "Last-Modified: "+date)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	do(t, tr, alice, cacheable("/t"))
	if r := do(t, tr, alice, cacheable("/t")); !r.FromCache || string(r.Body) != `{"a":1}` {
		t.Errorf("%+v, %s", r, r.Body)
	}
}

// Guarantee: NET9
// T39: a 304 is only valid for the one who asked with that tag.
func TestNothingIsSharedBetweenPrincipals_T39(t *testing.T) {
	s := serve(t, func(n int, r seen, c net.Conn) bool {
		if r.header.Get("If-None-Match") != "" {
			return say(c, 304, "")
		}
		return say(c, 200, fmt.Sprintf(`{"answer":%d}`, n), `ETag: "same"`)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	with := func(change func(*connector.Connection)) connector.Connection {
		c := alice
		c.AuthzVersion = 7
		change(&c)
		return c
	}
	base := with(func(*connector.Connection) {})
	do(t, tr, base, cacheable("/t"))
	for name, c := range map[string]connector.Connection{
		"tenant":     with(func(c *connector.Connection) { c.Tenant = "globex" }),
		"principal":  with(func(c *connector.Connection) { c.Principal = "bob" }),
		"connection": with(func(c *connector.Connection) { c.ID = "conn-2" }),
	} {
		if r := do(t, tr, c, cacheable("/t")); r.FromCache {
			t.Errorf("another %s got alice's answer", name)
		}
	}
	for name, r := range map[string]connector.Request{
		"path": cacheable("/u"), "query": {Path: "/t", Query: url.Values{"a": {"b"}}, Cacheable: true},
	} {
		if got := do(t, tr, base, r); got.FromCache {
			t.Errorf("another %s got the answer of /t", name)
		}
	}
	if r := do(t, tr, base, cacheable("/t")); !r.FromCache {
		t.Error("alice's own answer is gone")
	}
	// A change of authorization empties the shelf, and a call that began before
	// it neither uses nor fills it.
	newer := with(func(c *connector.Connection) { c.AuthzVersion = 8 })
	if r := do(t, tr, newer, cacheable("/t")); r.FromCache {
		t.Error("an answer of the old authorization came back")
	}
	if r := do(t, tr, base, cacheable("/t")); r.FromCache {
		t.Error("the old authorization got an answer of the new one")
	}
	if r := do(t, tr, newer, cacheable("/t")); !r.FromCache {
		t.Error("a late call of the old authorization dropped the new one's answer")
	}
	tr.Forget(newer.Tenant, newer.ID)
	if r := do(t, tr, newer, cacheable("/t")); r.FromCache {
		t.Error("a disconnected connection's answer came back")
	}
}

func TestB_GetsItsOwn404_T39(t *testing.T) {
	s := serve(t, func(_ int, r seen, c net.Conn) bool {
		if r.header.Get("If-None-Match") != "" {
			return say(c, 304, "")
		}
		if strings.HasSuffix(r.target, "?as=b") || r.header.Get("X-Who") == "b" {
			return say(c, 404, `{}`)
		}
		return say(c, 200, `{"secret":1}`, `ETag: "a"`)
	})
	tr := newTransport(t, quick(Loopback("org", s.url)))
	do(t, tr, alice, cacheable("/t"))
	bob := alice
	bob.ID, bob.Principal = "conn-b", "bob"
	tr.credentials = authorizer(func() (Credential, error) { return who("b"), nil })
	for range 2 {
		if r := do(t, tr, bob, cacheable("/t")); r.Status != 404 || r.FromCache {
			t.Errorf("bob got %d, %s", r.Status, r.Body)
		}
	}
}

type who string

func (w who) Apply(r *http.Request) error { r.Header.Set("X-Who", string(w)); return nil }
func (who) Version() int64                { return 1 }

// S8: unchanged, said of something that nobody has.
func TestUnchangedWithoutABodyIsFetchedOnce_S8(t *testing.T) {
	t.Run("then it comes", func(t *testing.T) {
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			if n == 0 {
				return say(c, 304, "")
			}
			return say(c, 200, `{"a":1}`)
		})
		r := do(t, newTransport(t, quick(Loopback("org", s.url))), alice, cacheable("/t"))
		if r.Status != 200 || string(r.Body) != `{"a":1}` || r.FromCache || len(r.Attempts) != 2 || len(s.requests()) != 2 {
			t.Errorf("%+v after %d requests", r, len(s.requests()))
		}
	})
	t.Run("of another tag", func(t *testing.T) {
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			if r.header.Get("If-None-Match") == `"1"` {
				return say(c, 304, "", `ETag: "2"`)
			}
			return say(c, 200, fmt.Sprintf(`{"n":%d}`, n), `ETag: "1"`)
		})
		tr := newTransport(t, quick(Loopback("org", s.url)))
		do(t, tr, alice, cacheable("/t"))
		r := do(t, tr, alice, cacheable("/t"))
		if r.FromCache || string(r.Body) != `{"n":2}` || len(r.Attempts) != 2 || s.requests()[2].header.Get("If-None-Match") != "" {
			t.Errorf("%+v, %s", r, r.Body)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		s := serve(t, always(304, ""))
		resp, err := newTransport(t, quick(Loopback("org", s.url))).Do(t.Context(), alice, connector.ClassRead, cacheable("/t"))
		if connector.CodeOf(err) != connector.CodeProviderContract || len(resp.Attempts) != 2 || len(s.requests()) != 2 {
			t.Errorf("%v after %d requests, want PROVIDER_CONTRACT after 2", err, len(s.requests()))
		}
	})
	t.Run("asked by the caller", func(t *testing.T) {
		s := serve(t, always(304, ""))
		r := cacheable("/t")
		r.Unchanged = `"x"`
		if got := do(t, newTransport(t, quick(Loopback("org", s.url))), alice, r); got.Status != 304 || got.Body != nil || got.FromCache {
			t.Errorf("%+v", got)
		}
	})
}

func TestWhatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		answer act
		method string
		kept   bool
	}{
		"plain":              {always(200, `{}`, `ETag: "1"`), "", true},
		"weak":               {always(200, `{}`, `ETag: W/"1"`), "", true},
		"no-cache":           {always(200, `{}`, `ETag: "1"`, "Cache-Control: private, no-cache"), "", true},
		"vary on ours":       {always(200, `{}`, `ETag: "1"`, "Vary: Accept, accept-encoding,User-Agent"), "", true},
		"vary on credential": {always(200, `{}`, `ETag: "1"`, "Vary: Accept, Authorization, Cookie"), "", true},
		"no tag":             {always(200, `{}`), "", false},
		"no-store":           {always(200, `{}`, `ETag: "1"`, "Cache-Control: private, No-Store"), "", false},
		"vary on all":        {always(200, `{}`, `ETag: "1"`, "Vary: *"), "", false},
		"two tags":           {always(200, `{}`, `ETag: "1"`, `ETag: "2"`), "", false},
		"long tag":           {always(200, `{}`, `ETag: "`+strings.Repeat("1", 600)+`"`), "", false},
		"not a success":      {always(404, `{}`, `ETag: "1"`), "", false},
		"created":            {always(201, `{}`, `ETag: "1"`), "", false},
		"head":               {always(200, ``, `ETag: "1"`), "HEAD", false},
		"html":               {always(200, `<html>`, `ETag: "1"`, "Content-Type: text/html"), "", false},
		"cut":                {raw(head + "ETag: \"1\"\r\nContent-Length: 10\r\n\r\n{\"a"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.answer)
			tr := newTransport(t, quick(Loopback("org", s.url)))
			r := cacheable("/t")
			r.Method = c.method
			tr.Do(t.Context(), alice, connector.ClassRead, r)
			if kept := tr.cache.recent.Len() == 1; kept != c.kept {
				t.Errorf("kept %t, want %t", kept, c.kept)
			}
		})
	}
	s := serve(t, always(200, `{}`, `ETag: "1"`))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	do(t, tr, alice, read("/t"))
	w := write("/t", "{}")
	w.Cacheable = true
	if _, err := tr.Do(t.Context(), alice, connector.ClassWrite, w); err != nil || tr.cache.recent.Len() != 0 {
		t.Errorf("%v, %d kept of a read that did not ask for it and a write", err, tr.cache.recent.Len())
	}
}

// What varies by credential is not confirmed with another one (RFC 9111 4.1).
func TestVaryByCredential(t *testing.T) {
	for vary, fromCache := range map[string]bool{"Accept": true, "Authorization": false, "X-Org": false} {
		s := serve(t, tagged(fixed("1"), "Vary: "+vary))
		tr := newTransport(t, quick(Loopback("org", s.url)))
		version := token(1)
		tr.credentials = authorizer(func() (Credential, error) { return version, nil })
		do(t, tr, alice, cacheable("/t"))
		if r := do(t, tr, alice, cacheable("/t")); !r.FromCache {
			t.Errorf("%s: not kept", vary)
		}
		version = 2
		if r := do(t, tr, alice, cacheable("/t")); r.FromCache != fromCache {
			t.Errorf("%s: from cache %t after a refresh, want %t", vary, r.FromCache, fromCache)
		}
	}
}

func TestLostAccessIsForgotten(t *testing.T) {
	for _, status := range []int{403, 404, 410} {
		s := serve(t, func(n int, r seen, c net.Conn) bool {
			if n == 1 {
				return say(c, status, `{}`)
			}
			return say(c, 200, `{}`, `ETag: "1"`)
		})
		tr := newTransport(t, quick(Loopback("org", s.url)))
		do(t, tr, alice, cacheable("/t"))
		do(t, tr, alice, cacheable("/t"))
		if n := tr.cache.recent.Len(); n != 0 {
			t.Errorf("%d: %d answers are still kept", status, n)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	s := newCache(64<<10, 20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		c := alice
		c.Principal, c.AuthzVersion = connector.PrincipalID(fmt.Sprint(rng.IntN(5))), int64(i/1000)
		key := pageKey{method: "GET", url: fmt.Sprint("/", rng.IntN(50))}
		switch rng.IntN(10) {
		case 0:
			s.drop(c, key)
		case 1:
			s.forget(c.Tenant, c.ID)
		case 2, 3, 4:
			s.get(c, key, 1)
		default:
			s.put(c, &page{key: key, tag: `"1"`, body: make([]byte, rng.IntN(20<<10))})
		}
		var bytes int64
		pages := 0
		for _, at := range s.shelves {
			if len(at.pages) == 0 {
				t.Fatal("an empty shelf is kept")
			}
			for _, e := range at.pages {
				bytes += e.Value.(*page).size()
				pages++
			}
		}
		if bytes != s.bytes || pages != s.recent.Len() || bytes > s.maxBytes || pages > s.maxEntries {
			t.Fatalf("step %d: %d bytes in %d pages, booked %d in %d", i, bytes, pages, s.bytes, s.recent.Len())
		}
	}
	// The one used last stays.
	s = newCache(1<<20, 2)
	for _, u := range []string{"/a", "/b"} {
		s.put(alice, &page{key: pageKey{url: u}})
	}
	s.get(alice, pageKey{url: "/a"}, 1)
	s.put(alice, &page{key: pageKey{url: "/c"}})
	got := map[string]bool{}
	for _, u := range []string{"/a", "/b", "/c"} {
		got[u] = s.get(alice, pageKey{url: u}, 1) != nil
	}
	if diff := cmp.Diff(map[string]bool{"/a": true, "/b": false, "/c": true}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOldPagesAreForgotten(t *testing.T) {
	s := newCache(1<<20, 10)
	s.put(alice, &page{key: pageKey{url: "/a"}})
	s.put(alice, &page{key: pageKey{url: "/b"}})
	for _, e := range s.shelves[shelfOf(alice)].pages {
		p := e.Value.(*page)
		p.used = p.used.Add(-maxKept - time.Second)
	}
	if s.get(alice, pageKey{url: "/a"}, 1) != nil {
		t.Error("a copy that nobody asked about for an hour is used")
	}
	bob := alice
	bob.Principal = "bob"
	s.put(bob, &page{key: pageKey{url: "/c"}})
	if n := s.recent.Len(); n != 1 || len(s.shelves) != 1 {
		t.Errorf("%d pages on %d shelves, want the new one", n, len(s.shelves))
	}
}

func TestCacheUnderLoad(t *testing.T) {
	s := serve(t, tagged(fixed("1")))
	tr := newTransport(t, quick(Loopback("org", s.url)))
	var wg sync.WaitGroup
	for i := range 4 {
		c := alice
		c.ID = connector.ConnectionID(fmt.Sprint(i))
		for range 2 {
			wg.Go(func() {
				for n := range 25 {
					resp, err := tr.Do(t.Context(), c, connector.ClassRead, cacheable(fmt.Sprint("/", n%5)))
					if err != nil || resp.Status != 200 || len(resp.Body) == 0 {
						t.Errorf("%d, %v", resp.Status, err)
					}
					if n == 13 {
						tr.Forget(c.Tenant, c.ID)
					}
				}
			})
		}
	}
	wg.Wait()
}
