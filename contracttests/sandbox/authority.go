package sandbox

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// authority is the state of the authorization server.
type authority struct {
	s *Server

	mu       sync.Mutex
	clients  []*Client
	sessions map[string]string // cookie, login
	txns     map[string]*transaction
	codes    map[string]*code
	devices  map[string]*device
	refresh  map[string]*refreshToken
	access   map[string]*grant
	families []*family
	stats    OAuthStats
}

// family is everything that grew from one consent: it dies as a whole.
type family struct {
	id       string
	login    string
	client   string
	scopes   []string
	resource []string
	dead     string // why: "", "code_reuse", "refresh_reuse", "revoked", "admin"
}

type refreshToken struct {
	family  *family
	expires time.Time // zero: never
	spent   time.Time // zero: not used yet
}

// grant is what an access token stands for.
type grant struct {
	user    *User
	client  string
	scopes  []string
	family  *family // nil for client_credentials
	expires time.Time
	revoked bool
}

// OAuthStats counts what the authorization server did.
type OAuthStats struct {
	TokenRequests         map[string]int `json:"token_requests"` // by grant_type
	Refused               map[string]int `json:"refused"`        // by error code of the token endpoint
	Families              int            `json:"families"`
	FamiliesAlive         int            `json:"families_alive"`
	KilledByCodeReuse     int            `json:"killed_by_code_reuse"`
	KilledByRefreshReuse  int            `json:"killed_by_refresh_reuse"`
	GraceRefreshes        int            `json:"grace_refreshes"` // spent tokens that still worked
	Rotations             int            `json:"rotations"`
	RevocationRequests    int            `json:"revocation_requests"`
	FamiliesRevoked       int            `json:"families_revoked"`
	AccessTokensRevoked   int            `json:"access_tokens_revoked"`
	AuthorizationsAllowed int            `json:"authorizations_allowed"`
	AuthorizationsDenied  int            `json:"authorizations_denied"`
}

var allScopes = []string{"tickets:read", "tickets:write", "profile:read", "webhooks:manage", "offline_access"}

func (a *authority) init(s *Server) {
	a.s = s
	for _, c := range defaultClients(s.cfg.Seed) {
		a.clients = append(a.clients, &c)
		s.secrets.add(c.Secret)
	}
	a.reset()
}

func (a *authority) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions = make(map[string]string)
	a.txns = make(map[string]*transaction)
	a.codes = make(map[string]*code)
	a.devices = make(map[string]*device)
	a.refresh = make(map[string]*refreshToken)
	a.access = make(map[string]*grant)
	a.families = nil
	a.stats = OAuthStats{TokenRequests: make(map[string]int), Refused: make(map[string]int)}
}

// kill ends a family: no refresh, and its access tokens stop working at once.
// The caller holds mu.
func (a *authority) kill(f *family, why string) bool {
	if f == nil || f.dead != "" {
		return false
	}
	f.dead = why
	switch why {
	case "code_reuse":
		a.stats.KilledByCodeReuse++
	case "refresh_reuse":
		a.stats.KilledByRefreshReuse++
	default:
		a.stats.FamiliesRevoked++
	}
	return true
}

// lookup finds the live grant behind a bearer.
func (a *authority) lookup(token string) *grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.access[token]
	if g == nil || g.revoked || (g.family != nil && g.family.dead != "") || !time.Now().Before(g.expires) {
		return nil
	}
	return g
}

// issue makes an access token. The caller holds mu.
func (a *authority) issue(u *User, client string, scopes []string, f *family) string {
	token := randomToken("sat_")
	a.s.secrets.add(token)
	a.access[token] = &grant{user: u, client: client, scopes: scopes, family: f, expires: time.Now().Add(a.s.cfg.AccessTokenTTL)}
	return token
}

// issueRefresh makes a refresh token. The caller holds mu.
func (a *authority) issueRefresh(f *family) string {
	token := randomToken("srt_")
	a.s.secrets.add(token)
	r := &refreshToken{family: f}
	if ttl := a.s.cfg.RefreshTokenTTL; ttl > 0 {
		r.expires = time.Now().Add(ttl)
	}
	a.refresh[token] = r
	return token
}

// OAuthStats returns the counters since the start or the last Reset.
func (s *Server) OAuthStats() OAuthStats {
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.stats
	out.TokenRequests, out.Refused = make(map[string]int), make(map[string]int)
	for k, v := range a.stats.TokenRequests {
		out.TokenRequests[k] = v
	}
	for k, v := range a.stats.Refused {
		out.Refused[k] = v
	}
	out.Families = len(a.families)
	for _, f := range a.families {
		if f.dead == "" {
			out.FamiliesAlive++
		}
	}
	return out
}

// ExpireAccessTokens makes every access token issued so far expired, as if its
// lifetime had passed.
func (s *Server) ExpireAccessTokens() {
	s.auth.mu.Lock()
	defer s.auth.mu.Unlock()
	at := time.Now()
	for _, g := range s.auth.access {
		g.expires = at
	}
}

// RevokeUser ends all grants of a login, as an administrator of the
// organisation would. It returns the number of families that died.
func (s *Server) RevokeUser(login string) int {
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, f := range a.families {
		if f.login == login && a.kill(f, "admin") {
			n++
		}
	}
	for _, g := range a.access {
		if g.user.Login == login {
			g.revoked = true
		}
	}
	return n
}

// splitScopes reads a scope parameter; ok is false for an unknown one.
func splitScopes(text string) (scopes []string, ok bool) {
	for _, s := range strings.Fields(text) {
		if !slices.Contains(allScopes, s) {
			return nil, false
		}
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes, len(scopes) > 0
}

// allowedScopes takes away what the behaviour denies to this person.
func allowedScopes(on *Switches, login string, scopes []string) []string {
	if on.DenyScopes == nil {
		return scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool {
		return slices.Contains(on.DenyScopes[login], s) || slices.Contains(on.DenyScopes["*"], s)
	})
}
