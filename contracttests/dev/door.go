package dev

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sync"
	"time"
)

// linkTTL is how long the printed link works.
const linkTTL = 10 * time.Minute

// maxBody is more than any arguments that a runtime takes.
const maxBody = 1 << 20

// door lets one browser in.
type door struct {
	link    string
	session string // what the cookie holds, once the link was used
	csrf    string
	opened  time.Time

	mu   sync.Mutex
	used bool
}

func newDoor() *door {
	return &door{link: rand.Text(), session: rand.Text(), csrf: rand.Text(), opened: time.Now()}
}

// enter uses the link up.
func (d *door) enter(token string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used || time.Since(d.opened) > linkTTL || !same(token, d.link) {
		return false
	}
	d.used = true
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// cookieName has the port in it, because browsers give the cookies of one address
// to all its ports.
func (s *server) cookieName() string {
	_, port, _ := net.SplitHostPort(s.host)
	return "drawbridge-dev-" + port
}

func (s *server) inside(r *http.Request) bool {
	cookie, err := r.Cookie(s.cookieName())
	return err == nil && same(cookie.Value, s.door.session)
}

type route struct {
	method, path string
	open         bool // for who has not come in yet, too
	serve        func(*server, http.ResponseWriter, *http.Request)
}

var routes = []route{
	{"GET", "/style.css", true, (*server).style},
	{"GET", "/enter", true, (*server).enterPage},
	{"POST", "/enter", true, (*server).enter},
	{"GET", "/{$}", false, (*server).home},
	{"GET", "/tools/{tool}", false, (*server).toolPage},
	{"POST", "/tools/{tool}", false, (*server).run},
	{"GET", "/calls/{n}", false, (*server).callPage},
	{"POST", "/calls/{n}/next", false, (*server).nextPage},
	{"GET", "/operations", false, (*server).operations},
	{"GET", "/operations/{id}", false, (*server).operation},
	{"POST", "/operations/{id}/approve", false, (*server).approve},
	{"POST", "/operations/{id}/deny", false, (*server).deny},
	{"POST", "/operations/{id}/look", false, (*server).look},
	{"GET", "/faults", false, (*server).faultsPage},
	{"POST", "/faults", false, (*server).arm},
	{"POST", "/faults/off", false, (*server).disarm},
	{"POST", "/fresh", false, (*server).fresh},
	{"GET", "/wire", false, (*server).wire},
	{"GET", "/log", false, (*server).log},
	{"", "/", false, (*server).absent},
}

const contentPolicy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, to := range routes {
		pattern := to.path
		if to.method != "" {
			pattern = to.method + " " + to.path
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.guard(w, r, to) })
	}
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, http.StatusForbidden, "This form came from another site", "Nothing was done.")
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// A name that somebody else lets point here would be the same origin as that
		// somebody's pages (DNS rebinding).
		if r.Host != s.host {
			http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		origin.Handler(mux).ServeHTTP(w, r)
	})
}

func (s *server) guard(w http.ResponseWriter, r *http.Request, to route) {
	if !to.open && !s.inside(r) {
		s.refuse(w, http.StatusUnauthorized, "Open the link first", "Open the link that drawbridge dev printed. It works once; start the command again for another one.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := r.ParseForm(); err != nil {
			s.refuse(w, http.StatusBadRequest, "The form can not be read", "Nothing was done. It may be too large.")
			return
		}
		// The open form has a one-time token of its own instead.
		if !to.open && !same(r.PostForm.Get("csrf"), s.door.csrf) {
			s.refuse(w, http.StatusForbidden, "This form is out of date", "Nothing was done. Open the page again.")
			return
		}
	}
	to.serve(s, w, r)
}

// enterPage has a button, because programs that look at links follow them.
func (s *server) enterPage(w http.ResponseWriter, r *http.Request) {
	s.render(w, http.StatusOK, "enter", page{Title: "Come in"}, r.URL.Query().Get("t"))
}

func (s *server) enter(w http.ResponseWriter, r *http.Request) {
	if !s.door.enter(r.PostForm.Get("t")) {
		s.refuse(w, http.StatusGone, "This link does not work", "It was used before, or is older than ten minutes. Start drawbridge dev again.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: s.door.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *server) absent(w http.ResponseWriter, _ *http.Request) {
	s.refuse(w, http.StatusNotFound, "There is no such page", "It may have been of an earlier run.")
}

func (s *server) refuse(w http.ResponseWriter, status int, title, text string) {
	s.render(w, status, "error", page{Title: title}, text)
}
