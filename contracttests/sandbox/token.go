package sandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// token is the token endpoint (RFC 6749 sections 4 and 6).
func (s *Server) token(x *exchange) answer {
	a := &s.auth
	out := func() answer {
		form, ok := readForm(x)
		if !ok {
			return a.refuse("invalid_request", "one form, each parameter once")
		}
		grantType := form.Get("grant_type")
		a.mu.Lock()
		defer a.mu.Unlock()
		switch grantType {
		case "authorization_code", "refresh_token", "client_credentials", deviceGrantType:
			a.stats.TokenRequests[grantType]++
		default:
			return a.refuseLocked("unsupported_grant_type", "")
		}
		client, ok := a.authenticate(x.r, form)
		if !ok {
			return a.refuseLocked("invalid_client", "")
		}
		if !validResources(form["resource"]) {
			return a.refuseLocked("invalid_target", "resource must be an absolute URI without fragment")
		}
		switch grantType {
		case "authorization_code":
			return a.redeem(x, client, form)
		case "refresh_token":
			return a.rotate(x, client, form)
		case deviceGrantType:
			return a.redeemDevice(x, client, form)
		}
		return a.clientCredentials(x, client, form)
	}()
	out.set("Cache-Control", "no-store")
	out.set("Pragma", "no-cache")
	return out
}

// readForm takes only what RFC 6749 allows: the form type, in the body, no
// parameter twice (resource may repeat, RFC 8707).
func readForm(x *exchange) (url.Values, bool) {
	ct, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || ct != "application/x-www-form-urlencoded" {
		return nil, false
	}
	form, err := url.ParseQuery(string(x.body))
	if err != nil {
		return nil, false
	}
	for name, v := range form {
		if len(v) > 1 && name != "resource" {
			return nil, false
		}
	}
	return form, true
}

func (a *authority) refuse(code, why string) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refuseLocked(code, why)
}

func (a *authority) refuseLocked(code, why string) answer {
	a.stats.Refused[code]++
	status := http.StatusBadRequest
	if code == "invalid_client" {
		status = http.StatusUnauthorized
	}
	body := map[string]string{"error": code}
	if why != "" {
		body["error_description"] = why
	}
	out := jsonAnswer(status, body)
	if code == "invalid_client" {
		out.set("WWW-Authenticate", `Basic realm="sandbox"`)
	}
	return out
}

// redeem exchanges a code. The caller holds mu.
func (a *authority) redeem(x *exchange, client *Client, form url.Values) answer {
	c := a.codes[form.Get("code")]
	if c == nil || c.client != client.ID {
		return a.refuseLocked("invalid_grant", "unknown code")
	}
	if c.used {
		// RFC 6749 section 4.1.2: whoever got in first may have been the thief.
		a.kill(c.family, "code_reuse")
		return a.refuseLocked("invalid_grant", "code was already used")
	}
	c.used = true // also by a failed attempt: a verifier can't be guessed twice
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case time.Now().After(c.expires):
		return a.refuseLocked("invalid_grant", "code has expired")
	case form.Get("redirect_uri") != c.redirect:
		return a.refuseLocked("invalid_grant", "redirect_uri differs from the authorization request")
	case subtle.ConstantTimeCompare([]byte(challenge), []byte(c.challenge)) != 1:
		return a.refuseLocked("invalid_grant", "code_verifier does not fit")
	case !within(form["resource"], c.resource):
		return a.refuseLocked("invalid_target", "resource was not authorized")
	}
	f := &family{id: randomToken("fam_"), login: c.login, client: client.ID, scopes: c.scopes, resource: c.resource}
	a.families = append(a.families, f)
	c.family = f
	return a.pair(x, f, f.scopes)
}

// rotate spends a refresh token for a new pair. The caller holds mu.
func (a *authority) rotate(x *exchange, client *Client, form url.Values) answer {
	r := a.refresh[form.Get("refresh_token")]
	if r == nil || r.family.client != client.ID {
		return a.refuseLocked("invalid_grant", "unknown refresh token")
	}
	at := time.Now()
	switch {
	case r.family.dead != "":
		return a.refuseLocked("invalid_grant", "grant was revoked")
	case !r.expires.IsZero() && at.After(r.expires):
		return a.refuseLocked("invalid_grant", "refresh token has expired")
	case !within(form["resource"], r.family.resource):
		return a.refuseLocked("invalid_target", "resource was not authorized")
	}
	scopes := r.family.scopes
	if text := form.Get("scope"); text != "" {
		narrowed, ok := splitScopes(text)
		if !ok || slices.ContainsFunc(narrowed, func(s string) bool { return !slices.Contains(scopes, s) }) {
			return a.refuseLocked("invalid_scope", "a refresh can't widen the scope")
		}
		scopes = narrowed
	}
	if !r.spent.IsZero() {
		if at.Sub(r.spent) > time.Duration(x.on.GraceMS)*time.Millisecond || x.on.GraceMS == 0 {
			// A spent token came back: either it was stolen or it was used twice
			// by mistake, and nobody can tell which (RFC 9700 section 4.14).
			a.kill(r.family, "refresh_reuse")
			return a.refuseLocked("invalid_grant", "refresh token was already used")
		}
		a.stats.GraceRefreshes++
	} else {
		r.spent = at
		a.stats.Rotations++
	}
	return a.pair(x, r.family, scopes)
}

func (a *authority) clientCredentials(x *exchange, client *Client, form url.Values) answer {
	if client.Account == "" || client.Secret == "" {
		return a.refuseLocked("unauthorized_client", "")
	}
	scopes := []string{"tickets:read", "tickets:write", "profile:read", "webhooks:manage"}
	if text := form.Get("scope"); text != "" {
		asked, ok := splitScopes(text)
		if !ok || slices.Contains(asked, "offline_access") {
			return a.refuseLocked("invalid_scope", "")
		}
		scopes = asked
	}
	scopes = allowedScopes(&x.on, client.Account, scopes)
	token := a.issue(a.s.world.user(client.Account), client.ID, scopes, nil)
	return a.tokenAnswer(x, token, "", scopes)
}

// pair issues an access token and, with offline_access, a refresh token.
func (a *authority) pair(x *exchange, f *family, scopes []string) answer {
	access := a.issue(a.s.world.user(f.login), f.client, scopes, f)
	refresh := ""
	if slices.Contains(f.scopes, "offline_access") {
		refresh = a.issueRefresh(f)
	}
	return a.tokenAnswer(x, access, refresh, scopes)
}

func (a *authority) tokenAnswer(x *exchange, access, refresh string, scopes []string) answer {
	body := map[string]any{"access_token": access, "token_type": "Bearer"}
	switch {
	case x.on.ExpiresIn != nil:
		body["expires_in"] = json.RawMessage(x.on.ExpiresIn)
	case !x.on.OmitExpiresIn:
		body["expires_in"] = int(a.s.cfg.AccessTokenTTL / time.Second)
	}
	if refresh != "" && !x.on.OmitRefreshToken {
		body["refresh_token"] = refresh
	}
	if !x.on.OmitScope {
		body["scope"] = strings.Join(scopes, " ")
	}
	return jsonAnswer(http.StatusOK, body)
}

// within allows any resource when none was named at the authorization.
func within(asked, authorized []string) bool {
	if len(authorized) == 0 {
		return true
	}
	return !slices.ContainsFunc(asked, func(r string) bool { return !slices.Contains(authorized, r) })
}

// revoke is RFC 7009. An unknown token is a success: it is as dead as asked for.
func (s *Server) revoke(x *exchange) answer {
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.RevocationRequests++
	form, ok := readForm(x)
	if !ok || form.Get("token") == "" {
		return a.refuseLocked("invalid_request", "one form with a token")
	}
	client, ok := a.authenticate(x.r, form)
	if !ok {
		return a.refuseLocked("invalid_client", "")
	}
	token := form.Get("token")
	if r := a.refresh[token]; r != nil && r.family.client == client.ID {
		a.kill(r.family, "revoked")
	}
	if g := a.access[token]; g != nil && g.client == client.ID && !g.revoked {
		g.revoked = true
		a.stats.AccessTokensRevoked++
	}
	out := answer{status: http.StatusOK}
	out.set("Cache-Control", "no-store")
	return out
}
