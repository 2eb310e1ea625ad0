package signature

import (
	"mime"
	"slices"
	"strings"
	"time"
)

// A Scheme is how one kind of sender signs. It comes from Lookup.
type Scheme struct {
	Name  string
	Title string
	// MaxBody is the largest body in bytes that senders of this kind make.
	MaxBody int64
	// EventHeader, IDHeader name what else decoders and deduplication need.
	// Empty: it is in the body.
	EventHeader, IDHeader string
	// IDSigned says that the delivery id is a part of what is signed.
	IDSigned bool

	header    string // where the signature is
	timed     string // header of the time; empty: none, or in the body
	unit      func(text string) (time.Time, bool)
	bodyTime  func(body []byte) (time.Time, bool)
	codec     codec
	read      func(header string) (signatures, bool)
	content   func(id, at string, body []byte) [][]byte
	form      formRule
	idPattern func(string) bool
	bodyID    string // top-level member of a JSON body; empty: none
	bodyEvent string
}

type formRule int

const (
	noForm     formRule = iota
	formWire            // the signature is over the form as it was sent
	formJSON            // the signature is over the payload field, decoded
	formOpaque          // a form that is the payload itself
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Limits on signed times. Clocks differ by seconds; a time far ahead is either
// a broken sender or a signature made to be kept.
const (
	maxPast   = 300 * time.Second
	maxFuture = 60 * time.Second
)

// schemes is every sender that is understood. Sources: Standard Webhooks 1.0; the
// senders' own documentation, checked against published vectors where there are
// any (vectors_test.go).
var schemes = []Scheme{
	{Name: "standard", Title: "Standard Webhooks v1 and v1a", MaxBody: 1 * mib, IDHeader: "Webhook-Id", IDSigned: true,
		header: "Webhook-Signature", timed: "Webhook-Timestamp", unit: seconds, codec: standardCodec, read: versioned,
		content: idTimeBody, idPattern: standardID, bodyEvent: "type"},
	{Name: "github", Title: "GitHub", MaxBody: 25 * mib, IDHeader: "X-Github-Delivery", EventHeader: "X-Github-Event",
		// X-Hub-Signature is SHA-1 and never looked at.
		header: "X-Hub-Signature-256", codec: textCodec, read: prefixedHex("sha256="), content: bodyOnly, form: formWire, idPattern: anyID},
	{Name: "gitea", Title: "Gitea", MaxBody: 25 * mib, IDHeader: "X-Gitea-Delivery", EventHeader: "X-Gitea-Event",
		header: "X-Gitea-Signature", codec: textCodec, read: prefixedHex(""), content: bodyOnly, form: formJSON, idPattern: anyID},
	{Name: "forgejo", Title: "Forgejo", MaxBody: 25 * mib, IDHeader: "X-Forgejo-Delivery", EventHeader: "X-Forgejo-Event",
		header: "X-Forgejo-Signature", codec: textCodec, read: prefixedHex(""), content: bodyOnly, form: formJSON, idPattern: anyID},
	{Name: "gitlab", Title: "GitLab, signing token", MaxBody: 25 * mib, IDHeader: "Webhook-Id", IDSigned: true, EventHeader: "X-Gitlab-Event",
		header: "Webhook-Signature", timed: "Webhook-Timestamp", unit: seconds, codec: whsecCodec, read: versioned,
		content: idTimeBody, idPattern: standardID},
	{Name: "gitlab-token", Title: "GitLab, secret token", MaxBody: 25 * mib, IDHeader: "Idempotency-Key", EventHeader: "X-Gitlab-Event",
		// The token is sent as it is: it proves who sends, and nothing about the body.
		header: "X-Gitlab-Token", codec: tokenCodec, read: bare, content: bodyOnly, idPattern: anyID},
	{Name: "jira", Title: "Jira, administrator's webhook", MaxBody: 20 * mib, IDHeader: "X-Atlassian-Webhook-Identifier",
		header: "X-Hub-Signature", codec: textCodec, read: prefixedHex("sha256="), content: bodyOnly, idPattern: anyID, bodyEvent: "webhookEvent"},
	{Name: "linear", Title: "Linear", MaxBody: 1 * mib, IDHeader: "Linear-Delivery", EventHeader: "Linear-Event",
		// Linear-Timestamp is not signed; the member of the body is.
		header: "Linear-Signature", bodyTime: linearTime, codec: textCodec, read: prefixedHex(""), content: bodyOnly, idPattern: anyID},
	{Name: "zendesk", Title: "Zendesk", MaxBody: 1 * mib, IDHeader: "X-Zendesk-Webhook-Invocation-Id",
		header: "X-Zendesk-Webhook-Signature", timed: "X-Zendesk-Webhook-Signature-Timestamp", unit: rfc3339, codec: textCodec,
		read: base64MAC, content: timeBody(""), idPattern: anyID, bodyEvent: "type"},
	{Name: "slack", Title: "Slack", MaxBody: 1 * mib,
		header: "X-Slack-Signature", timed: "X-Slack-Request-Timestamp", unit: seconds, codec: textCodec, read: prefixedHex("v0="),
		content: slackContent, form: formOpaque, idPattern: anyID, bodyID: "event_id", bodyEvent: "type", IDSigned: true},
	{Name: "stripe", Title: "Stripe", MaxBody: 1 * mib,
		header: "Stripe-Signature", unit: seconds, codec: textCodec, read: stripeHeader, content: timeBody("."), idPattern: anyID,
		bodyID: "id", bodyEvent: "type", IDSigned: true},
	{Name: "shopify", Title: "Shopify", MaxBody: 1 * mib, IDHeader: "X-Shopify-Webhook-Id", EventHeader: "X-Shopify-Topic",
		header: "X-Shopify-Hmac-Sha256", codec: textCodec, read: base64MAC, content: bodyOnly, idPattern: anyID},
}

// Lookup finds a scheme by its exact name.
func Lookup(name string) (Scheme, bool) {
	for _, s := range schemes {
		if s.Name == name {
			return s, true
		}
	}
	return Scheme{}, false
}

// Names lists all schemes, sorted.
func Names() []string {
	var names []string
	for _, s := range schemes {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// CheckSecret says what is wrong with a secret of this scheme, or nil. Call it
// when a secret is saved: at a delivery it is too late to tell anybody.
func (s Scheme) CheckSecret(text string) error {
	_, err := s.codec(text)
	return err
}

// Headers are the ones that Verify reads, beside Content-Type.
func (s Scheme) Headers() []string {
	var all []string
	for _, h := range []string{s.header, s.timed, s.IDHeader, s.EventHeader} {
		if h != "" {
			all = append(all, h)
		}
	}
	return all
}

// media says whether a content type fits the scheme, and whether it is a form.
// Parameters are allowed; a charset other than UTF-8 is not.
func (s Scheme) media(contentType string) (form, ok bool) {
	name, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false, false
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return false, false
	}
	switch {
	case name == "application/json", strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json"):
		return false, true
	case name == "application/x-www-form-urlencoded":
		return true, s.form != noForm
	}
	return false, false
}
