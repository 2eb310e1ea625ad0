package sandbox

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"
	deviceInterval  = 5 * time.Second // RFC 8628 section 3.2: also what clients must assume
	// No vowels, so that no words come of it, and nothing that is read as
	// something else (RFC 8628 section 6.1).
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
)

// device is one device authorization (RFC 8628).
type device struct {
	client   string
	userCode string
	scopes   []string
	resource []string
	expires  time.Time
	interval time.Duration
	polled   time.Time
	login    string // who decided
	granted  []string
	decision string // "", "allow", "deny", "used"
}

// deviceAuthorization is RFC 8628 section 3.1.
func (s *Server) deviceAuthorization(x *exchange) answer {
	a := &s.auth
	form, ok := readForm(x)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ok {
		return a.refuseLocked("invalid_request", "one form, each parameter once")
	}
	client, ok := a.authenticate(x.r, form)
	if !ok {
		return a.refuseLocked("invalid_client", "")
	}
	d := &device{client: client.ID, resource: form["resource"], expires: time.Now().Add(transactionTTL), interval: deviceInterval}
	if d.scopes, ok = splitScopes(form.Get("scope")); !ok {
		return a.refuseLocked("invalid_scope", "no scope, or one that does not exist")
	}
	if !validResources(d.resource) {
		return a.refuseLocked("invalid_target", "resource must be an absolute URI without fragment")
	}
	for {
		d.userCode = userCode()
		if a.userCode(d.userCode) == nil {
			break
		}
	}
	value := randomToken("dev_")
	s.secrets.add(value)
	a.devices[value] = d
	page := s.base + "/oauth/device"
	out := jsonAnswer(http.StatusOK, map[string]any{
		"device_code": value, "user_code": d.userCode, "verification_uri": page,
		"verification_uri_complete": page + "?user_code=" + url.QueryEscape(d.userCode),
		"expires_in":                int(transactionTTL / time.Second), "interval": int(d.interval / time.Second),
	})
	out.set("Cache-Control", "no-store")
	return out
}

func userCode() string {
	text := []byte(randomToken(""))
	out := make([]byte, 0, 9)
	for i := range 8 {
		if i == 4 {
			out = append(out, '-')
		}
		out = append(out, userCodeLetters[int(text[i])%len(userCodeLetters)])
	}
	return string(out)
}

// userCode finds an undecided authorization. The caller holds mu.
func (a *authority) userCode(code string) *device {
	for _, d := range a.devices {
		if d.userCode == code && d.decision == "" && time.Now().Before(d.expires) {
			return d
		}
	}
	return nil
}

// devicePage asks for the code of the device, then goes the way of every
// sign-in: login, consent. The consent names the application and its scopes.
func (s *Server) devicePage(x *exchange) answer {
	q := x.r.URL.Query()
	if q.Get("user_code") == "" {
		return htmlAnswer(http.StatusOK, "Connect a device", `<form method="get" action="device">
<label for="user_code">The code that the device shows</label>
<input id="user_code" name="user_code" autocomplete="off" required autofocus>
<button type="submit">Go on</button>
</form>`)
	}
	a := &s.auth
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.userCode(q.Get("user_code"))
	if d == nil {
		return errorPage(http.StatusBadRequest, "This code is not known, was used, or has expired.")
	}
	t := &transaction{client: d.client, scopes: d.scopes, resource: d.resource, device: d,
		force: q.Get("prompt") == "login", expires: d.expires}
	id := randomToken("txn_")
	a.txns[id] = t
	session, login := a.session(x.r)
	if login == "" || t.force {
		return loginPage(http.StatusOK, id, "", "")
	}
	t.session = session
	return s.consentForm(id, t, login)
}

// decideDevice records the decision about a device. The caller holds mu.
func (s *Server) decideDevice(x *exchange, t *transaction, login string, allow bool) answer {
	d := t.device
	if d.decision != "" {
		return errorPage(http.StatusBadRequest, "This code was used.")
	}
	d.granted = allowedScopes(&x.on, login, d.scopes)
	if !allow || len(d.granted) == 0 {
		d.decision = "deny"
		s.auth.stats.AuthorizationsDenied++
		return htmlAnswer(http.StatusOK, "Denied", `<p data-device="deny">The device was not connected.</p>`)
	}
	d.login, d.decision = login, "allow"
	s.auth.stats.AuthorizationsAllowed++
	return htmlAnswer(http.StatusOK, "Done", `<p data-device="allow">You can go back to the device.</p>`)
}

// redeemDevice is one poll (RFC 8628 section 3.5). The caller holds mu.
func (a *authority) redeemDevice(x *exchange, client *Client, form url.Values) answer {
	d := a.devices[form.Get("device_code")]
	now := time.Now()
	if d == nil || d.client != client.ID || d.decision == "used" {
		return a.refuseLocked("invalid_grant", "unknown device code")
	}
	early := !d.polled.IsZero() && now.Sub(d.polled) < d.interval
	d.polled = now
	switch {
	case !now.Before(d.expires):
		return a.refuseLocked("expired_token", "")
	case early && !x.on.NoSlowDown:
		d.interval += deviceInterval
		return a.refuseLocked("slow_down", "")
	case d.decision == "":
		return a.refuseLocked("authorization_pending", "")
	case d.decision == "deny":
		return a.refuseLocked("access_denied", "")
	case slices.ContainsFunc(form["resource"], func(r string) bool { return !slices.Contains(d.resource, r) }):
		return a.refuseLocked("invalid_target", "resource was not authorized")
	}
	d.decision = "used"
	f := &family{id: randomToken("fam_"), login: d.login, client: client.ID, scopes: d.granted, resource: d.resource}
	a.families = append(a.families, f)
	return a.pair(x, f, f.scopes)
}

// LoginDevice plays the person who was shown a code: it opens the complete
// verification URI, signs in and decides. client is as for [Login].
func LoginDevice(ctx context.Context, client *http.Client, verificationURI, login, password string, allow bool) error {
	_, page, err := walk(ctx, client, verificationURI, login, password, allow)
	if err != nil {
		return err
	}
	want := "deny"
	if allow {
		want = "allow"
	}
	if m := devicePart.FindSubmatch(page); m == nil || string(m[1]) != want {
		return errors.New("sandbox: login: the device was decided otherwise")
	}
	return nil
}
