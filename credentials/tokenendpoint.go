package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"time"
)

// A class is what one exchange with the token endpoint came to. See doc.go for
// what each one does to a connection.
type class string

const (
	classGranted       class = "granted"
	classNotSent       class = "not_sent"          // nothing left this process
	classUnknown       class = "outcome_unknown"   // it may have been processed
	classThrottled     class = "throttled"         // 429
	classRejected      class = "rejected"          // the grant is dead
	classMisconfigured class = "app_misconfigured" // our registration is at fault, not the grant
	classInvalid       class = "invalid_request"
	classRefused       class = "refused" // some other refusal
)

// errorCodes are the codes that may leave this package and be stored. All
// others become "other": a server's text can hold anything.
var errorCodes = map[string]class{
	"invalid_grant":              classRejected,
	"invalid_client":             classMisconfigured,
	"unauthorized_client":        classMisconfigured,
	"unsupported_grant_type":     classMisconfigured,
	"invalid_scope":              classMisconfigured,
	"invalid_target":             classMisconfigured,
	"invalid_request":            classInvalid,
	"temporarily_unavailable":    classThrottled,
	"server_error":               classUnknown,
	"access_denied":              classRefused,
	"authorization_pending":      classRefused, // RFC 8628 section 3.5
	"slow_down":                  classRefused,
	"expired_token":              classRefused,
	"unsupported_response_type":  classRefused,
	"unsupported_token_type":     classRefused,
	"login_required":             classRefused,
	"consent_required":           classRefused,
	"interaction_required":       classRefused,
	"account_selection_required": classRefused,
}

func closedCode(code string) string {
	if _, ok := errorCodes[code]; ok || code == "" {
		return code
	}
	return "other"
}

// An answer is one classified exchange.
type answer struct {
	class      class
	code       string // closed
	status     int
	retryAfter time.Duration
	sentAt     time.Time // on the database's clock, taken before sending
	grant      *grant
}

// token asks the token endpoint once. An error means that nothing was sent.
func (s *Service) token(ctx context.Context, p *Provider, form url.Values) (answer, error) {
	sentAt, err := s.clock.now(ctx)
	if err != nil {
		return answer{class: classNotSent}, storage(err)
	}
	if p.Resource != "" {
		form.Set("resource", p.Resource) // RFC 8707 section 2.2, refresh too
	}
	r := s.post(ctx, p, p.TokenURL, form)
	a := classify(p, r)
	a.sentAt = sentAt
	if a.class != classGranted {
		// Enough to recognise a body that the provider's support asks about,
		// and nothing of it.
		sum := sha256.Sum256(r.body)
		s.log.WarnContext(ctx, "token endpoint gave no token", "provider", p.ID, "class", a.class, "code", a.code,
			"status", a.status, "body_bytes", len(r.body), "body_sha256", hex.EncodeToString(sum[:8]))
	}
	return a, nil
}

// A reply is what came back of one POST.
type reply struct {
	sent       bool // bytes left this process
	status     int  // 0: no complete answer
	body       []byte
	retryAfter time.Duration
}

func (s *Service) authenticate(ctx context.Context, p *Provider, header http.Header, form url.Values) error {
	switch p.Method {
	case AuthBasic:
		// RFC 6749 section 2.3.1: both parts are form-encoded first.
		pair := url.QueryEscape(p.ClientID) + ":" + url.QueryEscape(p.ClientSecret.reveal())
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case AuthPost:
		form.Set("client_id", p.ClientID)
		form.Set("client_secret", p.ClientSecret.reveal())
	case AuthNone:
		form.Set("client_id", p.ClientID)
	case AuthPrivateKeyJWT:
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		assertion, err := p.assertion(now)
		if err != nil {
			return err
		}
		form.Set("client_id", p.ClientID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	}
	return nil
}

// classify is the table of what an answer means. Two rules come before it:
// status 500 and above never condemns a grant, whatever the body says, and a
// grant is only dead when the server says so in the words agreed on.
func classify(p *Provider, r reply) answer {
	a := answer{status: r.status, retryAfter: r.retryAfter}
	switch {
	case !r.sent && r.status == 0:
		a.class = classNotSent
		return a
	case r.status == 0 || r.status >= 500 || r.status < 200:
		a.class = classUnknown
		return a
	case r.status == http.StatusTooManyRequests:
		a.class = classThrottled
		return a
	}
	doc, ok := parseTokenAnswer(p, r.body)
	for _, alias := range p.RefreshAliases {
		if ok && doc.grant == nil && alias.matches(r.status, doc) {
			a.class, a.code = classRejected, "invalid_grant"
			return a
		}
	}
	a.code = closedCode(doc.error)
	switch known, listed := errorCodes[doc.error]; {
	case ok && doc.error != "" && listed:
		a.class = known
	case r.status >= 200 && r.status <= 299 && ok && doc.grant != nil:
		a.class, a.grant = classGranted, doc.grant
	case r.status >= 400:
		a.class = classRefused
	case r.status == http.StatusTemporaryRedirect || r.status == http.StatusPermanentRedirect:
		a.class = classMisconfigured // RFC 9110 15.4.8: not processed here, and we do not follow
	default:
		a.class = classUnknown
	}
	return a
}

func (a Alias) matches(status int, doc tokenAnswer) bool {
	return (a.Status == 0 || a.Status == status) &&
		(a.Error == "" || a.Error == doc.error) &&
		(a.Description == "" || a.Description == doc.description)
}
