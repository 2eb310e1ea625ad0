package sandbox

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// transaction is one visit to /oauth/authorize. Everything the later steps need
// is kept here: a form carries its id and nothing that could send a browser elsewhere.
type transaction struct {
	client    string
	redirect  string
	state     string
	challenge string
	scopes    []string
	resource  []string
	force     bool   // prompt=login: an existing session does not count
	session   string // the browser that saw the consent page; only it may decide
	expires   time.Time
	device    *device // the one that waits for the decision; nil: a redirect does
}

type code struct {
	transaction
	login  string
	scopes []string // granted
	used   bool
	family *family // set by the exchange, to be killed by a second one
}

const (
	transactionTTL = 10 * time.Minute
	codeTTL        = time.Minute
	cookieName     = "sandbox_session"
)

func (s *Server) metadata(x *exchange) answer {
	m := map[string]any{
		"issuer":                                         s.base,
		"authorization_endpoint":                         s.base + "/oauth/authorize",
		"token_endpoint":                                 s.base + "/oauth/token",
		"device_authorization_endpoint":                  s.base + "/oauth/device_authorization",
		"revocation_endpoint":                            s.base + "/oauth/revoke",
		"scopes_supported":                               allScopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", "client_credentials", deviceGrantType},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"revocation_endpoint_auth_methods_supported":     []string{"none", "client_secret_basic", "client_secret_post"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": !x.on.IssNotAdvertised,
	}
	return jsonAnswer(http.StatusOK, m)
}

// base64url of a SHA-256 (RFC 7636 section 4.2).
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// authorize checks the request, then shows the login or the consent page. Until
// client and redirect URI are known to be right, an error is shown, never sent.
func (s *Server) authorize(x *exchange) answer {
	q := x.r.URL.Query()
	for name, values := range q {
		if len(values) > 1 && name != "resource" { // RFC 6749 section 3.1
			return errorPage(http.StatusBadRequest, "A parameter was sent twice.")
		}
	}
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	client := a.client(q.Get("client_id"))
	if client == nil {
		return errorPage(http.StatusBadRequest, "This application is not registered.")
	}
	redirect := q.Get("redirect_uri")
	if !client.redirectAllowed(redirect) {
		return errorPage(http.StatusBadRequest, "The return address is not registered for this application.")
	}
	t := &transaction{client: client.ID, redirect: redirect, state: q.Get("state"), challenge: q.Get("code_challenge"),
		resource: q["resource"], expires: time.Now().Add(transactionTTL)}
	refuse := func(errorCode, why string) answer {
		return s.redirect(x, t, http.StatusFound, url.Values{"error": {errorCode}, "error_description": {why}})
	}
	if q.Get("response_type") != "code" {
		return refuse("unsupported_response_type", "only code is supported")
	}
	if !challengeForm.MatchString(t.challenge) || q.Get("code_challenge_method") != "S256" {
		return refuse("invalid_request", "PKCE with S256 is required")
	}
	var ok bool
	if t.scopes, ok = splitScopes(q.Get("scope")); !ok {
		return refuse("invalid_scope", "no scope, or one that does not exist")
	}
	if !validResources(t.resource) {
		return refuse("invalid_target", "resource must be an absolute URI without fragment")
	}
	session, login := a.session(x.r)
	t.force = q.Get("prompt") == "login"
	if q.Get("prompt") == "none" {
		// There is always a consent page here, so silence can't succeed.
		if login == "" {
			return refuse("login_required", "no session")
		}
		return refuse("consent_required", "consent is always asked")
	}
	id := randomToken("txn_")
	a.txns[id] = t
	if login == "" || t.force {
		return loginPage(http.StatusOK, id, q.Get("login_hint"), "")
	}
	t.session = session
	return s.consentForm(id, t, login)
}

// validResources follows RFC 8707 section 2.
func validResources(resources []string) bool {
	for _, r := range resources {
		if u, err := url.Parse(r); err != nil || !u.IsAbs() || u.Fragment != "" || strings.Contains(r, "#") {
			return false
		}
	}
	return true
}

// session reads the browser's cookie. The caller holds mu.
func (a *authority) session(r *http.Request) (id, login string) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", ""
	}
	return c.Value, a.sessions[c.Value]
}

// transaction finds a live one. The caller holds mu.
func (a *authority) transaction(id string) *transaction {
	t := a.txns[id]
	if t == nil || time.Now().After(t.expires) {
		delete(a.txns, id)
		return nil
	}
	return t
}

func (s *Server) login(x *exchange) answer {
	form, err := url.ParseQuery(string(x.body))
	if err != nil {
		return errorPage(http.StatusBadRequest, "The form can't be read.")
	}
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	id := form.Get("transaction")
	t := a.transaction(id)
	if t == nil {
		return errorPage(http.StatusBadRequest, "This sign-in has expired. Start again from the application.")
	}
	u := s.world.user(form.Get("login"))
	if u == nil || u.Password == "" || form.Get("password") != u.Password {
		return loginPage(http.StatusUnauthorized, id, form.Get("login"), "Login or password is wrong.")
	}
	session := randomToken("ses_")
	s.secrets.add(session)
	a.sessions[session] = u.Login
	t.force = false
	out := answer{status: http.StatusSeeOther}
	out.set("Location", s.base+"/oauth/consent?transaction="+url.QueryEscape(id))
	out.set("Set-Cookie", (&http.Cookie{Name: cookieName, Value: session, Path: s.cookiePath(), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(s.base, "https:")}).String())
	out.set("Cache-Control", "no-store")
	return out
}

func (s *Server) cookiePath() string {
	u, _ := url.Parse(s.base)
	return u.Path + "/oauth"
}

func (s *Server) consentPage(x *exchange) answer {
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	id := x.r.URL.Query().Get("transaction")
	t := a.transaction(id)
	session, login := a.session(x.r)
	if t == nil || login == "" || t.force || (t.session != "" && t.session != session) {
		return errorPage(http.StatusBadRequest, "This request has expired. Start again from the application.")
	}
	t.session = session
	return s.consentForm(id, t, login)
}

func (s *Server) consent(x *exchange) answer {
	form, err := url.ParseQuery(string(x.body))
	if err != nil {
		return errorPage(http.StatusBadRequest, "The form can't be read.")
	}
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	id := form.Get("transaction")
	t := a.transaction(id)
	session, login := a.session(x.r)
	// The session that saw the page is the one that may decide: another
	// browser's form, forged or not, is refused.
	if t == nil || login == "" || t.session == "" || t.session != session {
		return errorPage(http.StatusForbidden, "This decision does not belong to a page you were shown.")
	}
	decision := form.Get("decision")
	if t.device != nil && (decision == "allow" || decision == "deny") {
		delete(a.txns, id)
		return s.decideDevice(x, t, login, decision == "allow")
	}
	switch decision {
	case "allow":
	case "deny":
		delete(a.txns, id)
		a.stats.AuthorizationsDenied++
		return s.redirect(x, t, http.StatusSeeOther, url.Values{"error": {"access_denied"}})
	default:
		return errorPage(http.StatusBadRequest, "Choose allow or deny.")
	}
	delete(a.txns, id)
	granted := allowedScopes(&x.on, login, t.scopes)
	if len(granted) == 0 {
		return s.redirect(x, t, http.StatusSeeOther, url.Values{"error": {"access_denied"}})
	}
	c := &code{transaction: *t, login: login, scopes: granted}
	c.expires = time.Now().Add(codeTTL)
	value := randomToken("cod_")
	s.secrets.add(value)
	a.codes[value] = c
	a.stats.AuthorizationsAllowed++
	return s.redirect(x, t, http.StatusSeeOther, url.Values{"code": {value}})
}

// redirect sends the browser back to the client with state and iss (RFC 9207).
func (s *Server) redirect(x *exchange, t *transaction, status int, params url.Values) answer {
	u, err := url.Parse(t.redirect)
	if err != nil {
		return errorPage(http.StatusBadRequest, "The return address can't be read.")
	}
	q := u.Query()
	for k, v := range params {
		q[k] = v
	}
	if t.state != "" {
		q.Set("state", t.state)
	}
	switch x.on.Iss {
	case "":
		q.Set("iss", s.base)
	case "omit":
	default:
		q.Set("iss", x.on.Iss)
	}
	u.RawQuery = q.Encode()
	out := answer{status: status}
	out.set("Location", u.String())
	out.set("Cache-Control", "no-store")
	out.set("Referrer-Policy", "no-referrer")
	return out
}
