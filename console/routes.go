package console

import (
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// maxBody is more than any form here needs.
const maxBody = 64 << 10

// A route is one page or action. A handler gets the session of who asks, which is
// nil only on open routes.
type route struct {
	method, path string
	open         bool // for people who are not signed in, too
	serve        func(*Console, http.ResponseWriter, *http.Request, *session)
}

var routes = []route{
	{"GET", "/style.css", true, (*Console).style},
	{"GET", "/signin", true, (*Console).signInPage},
	{"GET", "/signin/local", true, (*Console).localPage},
	{"POST", "/signin/local", true, (*Console).localSignIn},
	{"GET", "/signin/start", true, (*Console).oidcStart},
	{"GET", "/signin/callback", true, (*Console).oidcCallback},
	{"POST", "/signout", false, (*Console).signOut},

	{"GET", "/{$}", false, (*Console).home},
	{"GET", "/connect", false, (*Console).connectPage},
	{"POST", "/connect", false, (*Console).connectStart},
	{"POST", "/connect/key", false, (*Console).connectKey},
	{"GET", "/callback", true, (*Console).callback},
	{"GET", "/callback/{provider}", true, (*Console).callback},
	{"GET", "/connections", false, (*Console).connections},
	{"GET", "/connections/{id}", false, (*Console).connection},
	{"GET", "/connections/{id}/connected", false, (*Console).connected},
	{"GET", "/connections/{id}/disconnect", false, (*Console).disconnectPage},
	{"POST", "/connections/{id}/disconnect", false, (*Console).disconnect},

	{"GET", "/approvals", false, (*Console).approvals},
	{"GET", "/approvals/{id}", false, (*Console).approval},
	{"POST", "/approvals/{id}/approve", false, (*Console).approve},
	{"POST", "/approvals/{id}/deny", false, (*Console).deny},
	{"POST", "/approvals/{id}/withdraw", false, (*Console).withdraw},
	{"GET", "/operations", false, (*Console).operations},
	{"GET", "/operations/{id}", false, (*Console).operation},
	{"POST", "/operations/{id}/look", false, (*Console).look},
	{"POST", "/operations/{id}/settle", false, (*Console).settle},

	{"GET", "/deliveries", false, (*Console).deliveries},
	{"GET", "/deliveries/{id}", false, (*Console).delivery},
	{"POST", "/deliveries/{id}/replay", false, (*Console).replay},
	{"POST", "/deliveries/{id}/unpark", false, (*Console).unpark},
	{"POST", "/deliveries/{id}/accept", false, (*Console).accept},

	{"", "/", false, (*Console).absent},
}

// contentPolicy holds for every answer. Nothing is loaded but the style sheet,
// nothing runs, nobody frames a page, and no form leads elsewhere.
const contentPolicy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (c *Console) mount() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		pattern := r.path
		if r.method != "" {
			pattern = r.method + " " + r.path
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { c.guard(w, req, r) })
	}
	// Requests without Sec-Fetch-Site and Origin come from programs; those still
	// need the session's token.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.refuse(w, r, nil, http.StatusForbidden, "This form came from another site", "Nothing was done. Open the page here and try again.")
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if c.secure() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !c.sameHost(r.Host) {
			http.Error(w, "this server has another name", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		origin.Handler(mux).ServeHTTP(w, r)
	})
}

// guard lets a request through to its page.
func (c *Console) guard(w http.ResponseWriter, r *http.Request, to route) {
	s, err := c.session(r)
	if err != nil {
		c.fail(w, r, nil, err)
		return
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if s == nil && !to.open {
		if changes {
			c.refuse(w, r, nil, http.StatusUnauthorized, "You are not signed in", "Nothing was done. Sign in and try again.")
			return
		}
		http.Redirect(w, r, "/signin?"+returnQuery(r.URL), http.StatusSeeOther)
		return
	}
	if changes {
		if err := r.ParseForm(); err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				err = connector.Fail(connector.CodeTooLarge, "the form is too large")
			} else {
				err = connector.Fail(connector.CodeInvalidInput, "the form can not be read")
			}
			c.fail(w, r, s, err)
			return
		}
		// An open form has a one-time token of its own instead.
		if !to.open && subtle.ConstantTimeCompare([]byte(r.PostForm.Get("csrf")), []byte(s.csrf())) != 1 {
			c.refuse(w, r, s, http.StatusForbidden, "This form is out of date", "Nothing was done. Open the page again and repeat what you wanted to do.")
			return
		}
	}
	to.serve(c, w, r, s)
}

func (c *Console) absent(w http.ResponseWriter, r *http.Request, s *session) { c.notFound(w, r, s) }
