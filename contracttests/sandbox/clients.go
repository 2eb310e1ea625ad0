package sandbox

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
)

// Client is a registered OAuth client.
type Client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"` // empty: a public client
	// RedirectURIs are compared exactly. One with a loopback IP literal and no
	// port matches any port (RFC 8252 section 7.3).
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	// Account is the login that client_credentials acts as; empty: not allowed.
	Account string `json:"account,omitempty"`
}

func defaultClients(seed int64) []Client {
	return []Client{
		{ID: "drawbridge-cli", RedirectURIs: []string{"http://127.0.0.1/callback", "http://[::1]/callback"}},
		{ID: "drawbridge-web", Secret: derive(seed, "client web"), RedirectURIs: []string{
			"http://127.0.0.1:8080/callback", "http://localhost:8080/callback", "https://drawbridge.example/callback"}},
		{ID: "drawbridge-service", Secret: derive(seed, "client service"), Account: "acme-automaton"},
	}
}

// Clients returns all registered clients, secrets included.
func (s *Server) Clients() []Client {
	s.auth.mu.Lock()
	defer s.auth.mu.Unlock()
	out := make([]Client, 0, len(s.auth.clients))
	for _, c := range s.auth.clients {
		out = append(out, *c)
	}
	return out
}

// RegisterClient adds a client or replaces the one with the same id.
func (s *Server) RegisterClient(c Client) error {
	if c.ID == "" {
		return errors.New("sandbox: client without id")
	}
	for _, raw := range c.RedirectURIs {
		if u, err := url.Parse(raw); err != nil || u.Scheme == "" || u.Host == "" || u.Fragment != "" {
			return errors.New("sandbox: redirect URI must be absolute and without fragment")
		}
	}
	if c.Account != "" && s.world.user(c.Account) == nil {
		return errors.New("sandbox: client for an unknown account")
	}
	c.RedirectURIs = slices.Clone(c.RedirectURIs)
	s.secrets.add(c.Secret)
	s.auth.mu.Lock()
	defer s.auth.mu.Unlock()
	s.auth.clients = slices.DeleteFunc(s.auth.clients, func(o *Client) bool { return o.ID == c.ID })
	s.auth.clients = append(s.auth.clients, &c)
	return nil
}

// client finds a client. The caller holds auth.mu.
func (a *authority) client(id string) *Client {
	for _, c := range a.clients {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// redirectAllowed is exact, except for the port of a loopback literal.
func (c *Client) redirectAllowed(uri string) bool {
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || u.Fragment != "" {
		return false
	}
	// Not "localhost": it can resolve elsewhere (RFC 8252 section 8.3).
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.IsLoopback() {
		return false
	}
	port := u.Port()
	if port == "" {
		return false
	}
	u.Host = u.Host[:len(u.Host)-len(port)-1]
	return slices.Contains(c.RedirectURIs, u.String())
}

// authenticate identifies the client of a token or revocation request by Basic
// or form (RFC 6749 section 2.3.1). The caller holds auth.mu.
func (a *authority) authenticate(r *http.Request, form url.Values) (*Client, bool) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if user, pass, ok := r.BasicAuth(); ok {
		var err1, err2 error
		user, err1 = url.QueryUnescape(user)
		pass, err2 = url.QueryUnescape(pass)
		if err1 != nil || err2 != nil || secret != "" || (id != "" && id != user) {
			return nil, false // two methods at once, or two clients
		}
		id, secret = user, pass
	}
	c := a.client(id)
	if c == nil || subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1 {
		return nil, false
	}
	return c, true
}
