package transport

import (
	"container/list"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/drawbridge-dev/drawbridge/connector"
)

const (
	defaultCacheBytes   = 16 << 20
	defaultCacheEntries = 1024
	maxKept             = time.Hour // a copy that nobody asked about for so long is forgotten
	pageOverhead        = 1 << 10   // what an entry costs beside its body, roughly
)

// A cache keeps bodies that the provider can confirm with 304. It serves
// nothing by itself: what is in it was true once, and only the provider knows
// for whom it still is.
//
// A copy belongs to one tenant, connection and principal under one
// authorization version, because the same address shows different things to
// different people, and entity tags of several providers differ by token.
type cache struct {
	maxBytes   int64
	maxEntries int

	mu      sync.Mutex // guards all below
	bytes   int64
	recent  list.List // of *page, the last used first
	shelves map[shelfKey]*shelf
}

type shelfKey struct {
	tenant     connector.TenantID
	connection connector.ConnectionID
	principal  connector.PrincipalID
}

// A shelf is what one principal may see again. It is emptied when the
// authorization changes; a call that began before can neither fill nor use it.
type shelf struct {
	version int64
	pages   map[pageKey]*list.Element
}

type pageKey struct {
	endpoint *endpoint // a changed profile starts anew
	method   string
	url      string
	accept   string
}

// A page is one stored answer. Nothing in it changes; a new one replaces it.
type page struct {
	shelf      shelfKey
	key        pageKey
	tag        string // entity tag, or empty
	modified   string // Last-Modified, used if there is no tag
	header     http.Header
	body       []byte
	credential int64 // version that it was fetched with; 0: any will do
	used       time.Time
}

func (p *page) size() int64 { return int64(len(p.body)+len(p.key.url)) + pageOverhead }

func newCache(bytes int64, entries int) *cache {
	return &cache{maxBytes: bytes, maxEntries: entries, shelves: map[shelfKey]*shelf{}}
}

func shelfOf(conn connector.Connection) shelfKey {
	return shelfKey{conn.Tenant, conn.ID, conn.Principal}
}

// shelf finds the shelf of a connection. It is nil if there is none, or if this
// call runs under an authorization that has been replaced.
func (s *cache) shelf(conn connector.Connection) *shelf {
	at := s.shelves[shelfOf(conn)]
	switch {
	case at == nil || conn.AuthzVersion < at.version:
		return nil
	case conn.AuthzVersion > at.version:
		s.clear(at)
		return nil
	}
	return at
}

func (s *cache) clear(at *shelf) {
	for _, e := range at.pages {
		s.remove(e)
	}
}

// remove forgets a page, and the shelf with its last page.
func (s *cache) remove(e *list.Element) {
	p := s.recent.Remove(e).(*page)
	s.bytes -= p.size()
	at := s.shelves[p.shelf]
	if delete(at.pages, p.key); len(at.pages) == 0 {
		delete(s.shelves, p.shelf)
	}
}

// get returns the page to ask about, or nil.
func (s *cache) get(conn connector.Connection, key pageKey, credential int64) *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.shelf(conn)
	if at == nil {
		return nil
	}
	e := at.pages[key]
	if e == nil {
		return nil
	}
	p := e.Value.(*page)
	if p.credential != 0 && p.credential != credential {
		return nil
	}
	now := time.Now()
	if now.Sub(p.used) > maxKept {
		s.remove(e)
		return nil
	}
	p.used = now
	s.recent.MoveToFront(e)
	return p
}

func (s *cache) put(conn connector.Connection, p *page) {
	if p.size() > s.maxBytes/4 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.shelf, p.used = shelfOf(conn), time.Now()
	if at := s.shelves[p.shelf]; at != nil && conn.AuthzVersion < at.version {
		return
	}
	if at := s.shelf(conn); at != nil && at.pages[p.key] != nil {
		s.remove(at.pages[p.key])
	}
	at := s.shelves[p.shelf]
	if at == nil {
		at = &shelf{version: conn.AuthzVersion, pages: map[pageKey]*list.Element{}}
		s.shelves[p.shelf] = at
	}
	at.pages[p.key] = s.recent.PushFront(p)
	s.bytes += p.size()
	for last := s.recent.Back(); s.bytes > s.maxBytes || s.recent.Len() > s.maxEntries || p.used.Sub(last.Value.(*page).used) > maxKept; last = s.recent.Back() {
		s.remove(last)
	}
}

func (s *cache) drop(conn connector.Connection, key pageKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.shelf(conn); at != nil && at.pages[key] != nil {
		s.remove(at.pages[key])
	}
}

// forget empties the shelves of a connection, whoever they belong to.
func (s *cache) forget(tenant connector.TenantID, connection connector.ConnectionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, at := range s.shelves {
		if key.tenant == tenant && key.connection == connection {
			s.clear(at)
		}
	}
}

// storable makes a page of an answer, or nil if it may not be kept or could
// not be confirmed (RFC 9111 3, 4.1).
func storable(key pageKey, h http.Header, body []byte, credential int64) *page {
	if noStore(h["Cache-Control"]) {
		return nil
	}
	p := &page{key: key, credential: credential}
	switch vary := varies(h["Vary"]); vary {
	case varyAny:
		return nil
	case varyNothing:
		p.credential = 0
	}
	if lines := h["Etag"]; len(lines) == 1 && sendable(lines[0]) {
		p.tag = lines[0]
	}
	if lines := h["Last-Modified"]; len(lines) == 1 && sendable(lines[0]) {
		p.modified = lines[0]
	}
	if p.tag == "" && p.modified == "" {
		return nil
	}
	p.body, p.header = slices.Clone(body), h.Clone()
	for name := range p.header {
		if ofThisAnswer(name) || strings.EqualFold(name, requestID(key.endpoint.profile.RequestIDHeader)) {
			delete(p.header, name)
		}
	}
	return p
}

// ofThisAnswer are headers that say nothing about what is stored.
func ofThisAnswer(name string) bool {
	switch name {
	case "Set-Cookie", "Date", "Age", "Retry-After", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection":
		return true
	}
	return strings.HasPrefix(name, "X-Rate") || strings.HasPrefix(name, "Ratelimit")
}

func sendable(v string) bool {
	return v != "" && len(v) <= 512 && httpguts.ValidHeaderFieldValue(v)
}

func noStore(lines []string) bool {
	for _, directive := range strings.Split(strings.Join(lines, ","), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if strings.EqualFold(name, "no-store") {
			return true
		}
	}
	return false
}

type variance int

const (
	varyNothing    variance = iota // on nothing that differs between our requests
	varyCredential                 // on something that the credential may have set
	varyAny
)

// varies reads Vary. Our requests for one key differ in their credential only,
// so every name that is not ours counts as the credential's.
func varies(lines []string) variance {
	v := varyNothing
	for _, name := range strings.Split(strings.Join(lines, ","), ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "", "accept", "accept-encoding", "user-agent":
		case "*":
			return varyAny
		default:
			v = varyCredential
		}
	}
	return v
}

// ask makes a request conditional on the stored page, if there is one.
func (c *call) ask(wire *http.Request) {
	c.page = nil
	if !c.cacheable {
		return
	}
	c.key = pageKey{c.ep, c.method, wire.URL.String(), jsonOnly[0]}
	if c.unconditional {
		return
	}
	if c.page = c.t.cache.get(c.conn, c.key, c.version); c.page == nil {
		return
	}
	if c.page.tag != "" {
		wire.Header["If-None-Match"] = []string{c.page.tag}
	} else {
		wire.Header["If-Modified-Since"] = []string{c.page.modified}
	}
}

// keep stores an answer, or completes a 304 from the stored one. Nothing stored
// fits a 304 that we did not ask for, or that names another entity tag.
func (c *call) keep() error {
	a := &c.answer
	switch {
	case !c.cacheable:
	case a.status == http.StatusOK:
		if p := storable(c.key, a.header, a.body, c.version); p != nil {
			c.t.cache.put(c.conn, p)
		} else {
			c.t.cache.drop(c.conn, c.key)
		}
	case a.status == http.StatusNotFound, a.status == http.StatusGone, a.status == http.StatusForbidden:
		c.t.cache.drop(c.conn, c.key)
	case a.status != http.StatusNotModified:
	case c.page != nil && (len(a.header["Etag"]) == 0 || a.header.Get("Etag") == c.page.tag):
		// RFC 9111 3.2: the newer header fields replace the stored ones.
		h := c.page.header.Clone()
		for name, values := range a.header {
			if name != "Content-Length" && name != "Content-Encoding" && name != "Content-Type" {
				h[name] = values
			}
		}
		a.status, a.header, a.body, a.stored = http.StatusOK, h, slices.Clone(c.page.body), true
	case c.unconditional:
		return contractFault("the provider says unchanged without being asked")
	default:
		c.t.cache.drop(c.conn, c.key)
		c.refetch = true
	}
	return nil
}
