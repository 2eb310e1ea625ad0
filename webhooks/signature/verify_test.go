package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const now = 1700000000

// delivery is what a sender hands in.
type delivery struct {
	scheme  string
	header  map[string]string
	body    string
	secrets []Secret
}

func (d delivery) verify(t testing.TB, at int64) (Verified, error) {
	t.Helper()
	s, ok := Lookup(d.scheme)
	if !ok {
		t.Fatalf("no scheme %q", d.scheme)
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for name, value := range d.header {
		h.Set(name, value)
	}
	return Verify(s, d.secrets, h, []byte(d.body), time.Unix(at, 0))
}

func (d delivery) with(header, value string) delivery {
	d.header = maps.Clone(d.header)
	if value == "" {
		delete(d.header, header)
	} else {
		d.header[header] = value
	}
	return d
}

const secretText = "a secret of thirty-two characters"

var (
	standardSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-four bytes of key"))
	otherStandard  = "whsec_" + base64.StdEncoding.EncodeToString([]byte("another 24 bytes of key.."))
)

// sign makes a good delivery of a scheme, as its sender would.
func sign(t testing.TB, scheme, secret, body string, at int64) delivery {
	t.Helper()
	s, ok := Lookup(scheme)
	if !ok {
		t.Fatalf("no scheme %q", scheme)
	}
	k, err := s.codec(secret)
	if err != nil {
		t.Fatal(err)
	}
	d := delivery{scheme: scheme, body: body, header: map[string]string{}, secrets: []Secret{{Text: secret}}}
	id := "d-1"
	if s.IDHeader != "" {
		d.header[s.IDHeader] = id
	}
	stamp := strconv.FormatInt(at, 10)
	if scheme == "zendesk" {
		stamp = time.Unix(at, 0).UTC().Format(time.RFC3339)
	}
	if s.timed != "" {
		d.header[s.timed] = stamp
	}
	if k.token != nil {
		d.header[s.header] = secret
		return d
	}
	sum := mac(k.mac, s.content(id, stamp, []byte(body)))
	form := map[string]string{
		"standard": "v1," + base64.StdEncoding.EncodeToString(sum), "gitlab": "v1," + base64.StdEncoding.EncodeToString(sum),
		"github": "sha256=" + hex.EncodeToString(sum), "jira": "sha256=" + hex.EncodeToString(sum), "slack": "v0=" + hex.EncodeToString(sum),
		"gitea": hex.EncodeToString(sum), "forgejo": hex.EncodeToString(sum), "linear": hex.EncodeToString(sum),
		"zendesk": base64.StdEncoding.EncodeToString(sum), "shopify": base64.StdEncoding.EncodeToString(sum),
		"stripe": "t=" + stamp + ",v1=" + hex.EncodeToString(sum),
	}[scheme]
	d.header[s.header] = form
	return d
}

func secretFor(scheme string) string {
	if scheme == "standard" || scheme == "gitlab" {
		return standardSecret
	}
	return secretText
}

func bodyFor(scheme string) string {
	if scheme == "linear" {
		return fmt.Sprintf(`{"a":"\u001B","webhookTimestamp":%d000}`, now)
	}
	return `{"a":"\u001B","id":"evt_1","event_id":"Ev1","type":"changed","webhookEvent":"jira:issue_updated"}`
}

// TestEveryScheme runs the same questions through every scheme: the good one is
// accepted, and one thing wrong is refused for the right reason.
//
// Guarantee: HOO1
// Cases: W01, W04, W06, W29
func TestEveryScheme(t *testing.T) {
	for _, scheme := range Names() {
		t.Run(scheme, func(t *testing.T) {
			good := sign(t, scheme, secretFor(scheme), bodyFor(scheme), now)
			s, _ := Lookup(scheme)
			v, err := good.verify(t, now)
			if err != nil || v.SecretIndex != 0 || string(v.Payload) != good.body {
				t.Fatalf("the good one: %+v, %v", v, err)
			}
			if v.DeliveryID == "" {
				t.Error("there is no delivery id")
			}
			for name, c := range map[string]struct {
				d    delivery
				want Reason
			}{
				"no signature": {good.with(s.header, ""), MissingHeader},
			} {
				if _, err := c.d.verify(t, now); err != c.want {
					t.Errorf("%s: %v, want %s", name, err, c.want)
				}
			}
			if scheme != "gitlab-token" {
				altered := good
				altered.body = strings.Replace(good.body, "001B", "001b", 1) // the same document, parsed
				if _, err := altered.verify(t, now); err != WrongSignature {
					t.Errorf("another spelling of the body: %v", err)
				}
			}
			other := good
			other.secrets = []Secret{{Text: map[bool]string{true: otherStandard, false: "another secret of some length"}[strings.HasPrefix(secretFor(scheme), "whsec_")]}}
			if _, err := other.verify(t, now); err != WrongSignature {
				t.Errorf("another secret: %v", err)
			}
			// Two at once: whichever stands first, the right one is found.
			for i, secrets := range [][]Secret{{other.secrets[0], good.secrets[0]}, {good.secrets[0], other.secrets[0]}} {
				both := good
				both.secrets = secrets
				if v, err := both.verify(t, now); err != nil || v.SecretIndex != 1-i {
					t.Errorf("two secrets: %+v, %v", v, err)
				}
			}
			for name, secrets := range map[string][]Secret{
				"none": nil, "empty": {{Text: ""}}, "ran out": {{Text: secretFor(scheme), NotAfter: time.Unix(now, 0)}},
				"not yet": {{Text: secretFor(scheme), NotBefore: time.Unix(now+1, 0)}},
			} {
				d := good
				d.secrets = secrets
				if _, err := d.verify(t, now); err != NoUsableSecret {
					t.Errorf("%s: %v, want no usable secret", name, err)
				}
			}
			for _, junk := range []string{"x", "sha256=", "sha256=ABC", "v1,", "v1a,AAAA", "t=1", "t=,v1=", strings.Repeat("z", 64), "sha256=" + strings.Repeat("zz", 32), "🎉"} {
				if _, err := good.with(s.header, junk).verify(t, now); err == nil {
					t.Errorf("signature %q was accepted", junk)
				} else if r := err.(Reason); r.HTTPStatus() != http.StatusUnauthorized {
					t.Errorf("signature %q: %s is answered with %d", junk, r, r.HTTPStatus())
				}
			}
		})
	}
}

// Case: W04
func TestHexOfEitherCaseAndOfTheRightLength(t *testing.T) {
	good := sign(t, "github", secretText, "{}", now)
	upper := good.with("X-Hub-Signature-256", "sha256="+strings.ToUpper(strings.TrimPrefix(good.header["X-Hub-Signature-256"], "sha256=")))
	if _, err := upper.verify(t, now); err != nil {
		t.Errorf("upper case: %v", err)
	}
	long := good.with("X-Hub-Signature-256", good.header["X-Hub-Signature-256"]+"00")
	if _, err := long.verify(t, now); err != MalformedSig {
		t.Errorf("33 bytes: %v", err)
	}
	// The older header alone is no signature.
	old := good.with("X-Hub-Signature-256", "").with("X-Hub-Signature", "sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709")
	if _, err := old.verify(t, now); err != MissingHeader {
		t.Errorf("SHA-1 alone: %v", err)
	}
}

// Case: W02
func TestBodiesThatAreNotText(t *testing.T) {
	for _, body := range []string{`{"t":"🎉"}`, "{\"t\":\"\xff\"}", ""} {
		d := sign(t, "github", secretText, body, now)
		if v, err := d.verify(t, now); err != nil || string(v.Payload) != body {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Guarantee: HOO1
// Case: W05
func TestUnsafeSecretsAreRefusedWhenSaved(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct {
		scheme, secret string
		good           bool
	}{
		{"standard", standardSecret, true}, {"standard", standardSecret + "\n", false}, {"standard", " " + standardSecret, false},
		{"standard", "whsec_", false}, {"standard", "whsec_!!!!", false}, {"standard", "whsec_xyz!", false}, {"standard", "v1," + standardSecret, false},
		{"standard", strings.TrimPrefix(standardSecret, "whsec_"), false}, {"standard", "whsec_" + b64(make([]byte, 15)), false},
		{"standard", "whsec_" + b64(make([]byte, 65)), false}, {"standard", "whsec_" + strings.TrimRight(b64([]byte("twenty-five bytes of key!")), "="), false},
		{"standard", "whsec_" + b64([]byte("twenty-four bytes")) + "\r\n", false},
		{"standard", "whpk_" + b64(make([]byte, ed25519.PublicKeySize)), true}, {"standard", "whpk_" + b64(make([]byte, 31)), false},
		{"standard", "whsk_" + b64(make([]byte, 64)), false}, {"gitlab", "whpk_" + b64(make([]byte, 32)), false},
		{"github", secretText, true}, {"github", "short", false}, {"github", "", false}, {"github", secretText + "\n", false},
		{"github", "\t" + secretText, false}, {"github", secretText + " ", false}, {"github", strings.Repeat("x", 1025), false},
		{"github", "\xff\xfe sixteen bytes and more", false}, {"stripe", "whsec_is_taken_as_it_is", true}, {"gitlab-token", "short", false},
	} {
		s, _ := Lookup(c.scheme)
		if err := s.CheckSecret(c.secret); (err == nil) != c.good {
			t.Errorf("%s %q: %v, want good %t", c.scheme, c.secret, err, c.good)
		}
	}
}

// Cases: W10, W11
func TestSignedTimes(t *testing.T) {
	for _, scheme := range []string{"standard", "gitlab", "slack", "stripe", "zendesk"} {
		d := sign(t, scheme, secretFor(scheme), bodyFor(scheme), now)
		for at, want := range map[int64]error{now - 60: nil, now - 61: TooNew, now + 300: nil, now + 301: TooOld, now - 10*365*86400: TooNew} {
			if _, err := d.verify(t, at); err != want {
				t.Errorf("%s received %+d s after it was signed: %v, want %v", scheme, at-now, err, want)
			}
		}
	}
	// Linear signs a time in the body; its header is anybody's.
	old := sign(t, "linear", secretText, bodyFor("linear"), now).with("Linear-Timestamp", strconv.Itoa(now+3600)+"000")
	if _, err := old.verify(t, now+3600); err != TooOld {
		t.Errorf("a fresh header over an old body: %v", err)
	}
	without := sign(t, "linear", secretText, `{"a":1}`, now)
	if _, err := without.verify(t, now); err != MissingTime {
		t.Errorf("no time in the body: %v", err)
	}
	other := sign(t, "linear", secretText, fmt.Sprintf(`{"WebhookTimestamp":%d000}`, now), now)
	if _, err := other.verify(t, now); err != MissingTime {
		t.Errorf("a time under another name: %v", err)
	}
	for _, stamp := range []string{"", "1700000000000", "17e8", "-1700000000", "+1700000000", " 1700000000", "0x6553f100", "٣"} {
		d := sign(t, "standard", standardSecret, "{}", now).with("Webhook-Timestamp", stamp)
		if _, err := d.verify(t, now); err == nil {
			t.Errorf("time %q was accepted", stamp)
		}
	}
}

// A time that is malformed but signed is still none.
func TestSignedNonsenseForATime(t *testing.T) {
	s, _ := Lookup("standard")
	k, _ := s.codec(standardSecret)
	for _, stamp := range []string{"1700000000000", "17e8", "now"} {
		d := delivery{scheme: "standard", body: "{}", secrets: []Secret{{Text: standardSecret}}, header: map[string]string{"Webhook-Id": "d-1", "Webhook-Timestamp": stamp,
			"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(mac(k.mac, s.content("d-1", stamp, []byte("{}"))))}}
		if _, err := d.verify(t, now); err != MissingTime {
			t.Errorf("time %q: %v", stamp, err)
		}
	}
}

// Case: W07
func TestForms(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	github := sign(t, "github", secretText, "payload=%7B%22id%22%3A1%7D", now).with("Content-Type", form)
	if v, err := github.verify(t, now); err != nil || string(v.Payload) != `{"id":1}` {
		t.Errorf("GitHub: %q, %v", v.Payload, err)
	}
	// Gitea signs the document inside.
	gitea := sign(t, "gitea", secretText, `{"id":1}`, now).with("Content-Type", form)
	gitea.body = "payload=%7B%22id%22%3A1%7D"
	if v, err := gitea.verify(t, now); err != nil || string(v.Payload) != `{"id":1}` {
		t.Errorf("Gitea: %q, %v", v.Payload, err)
	}
	wire := sign(t, "gitea", secretText, "payload=%7B%22id%22%3A1%7D", now).with("Content-Type", form)
	if _, err := wire.verify(t, now); err != WrongSignature {
		t.Errorf("Gitea over the wire form: %v", err)
	}
	for _, body := range []string{"", "payload=1&payload=2", "other=1", "payload=%zz"} {
		d := sign(t, "github", secretText, body, now).with("Content-Type", form)
		if _, err := d.verify(t, now); err != MalformedForm {
			t.Errorf("form %q: %v", body, err)
		}
	}
	for contentType, want := range map[string]error{
		"application/json; charset=utf-8": nil, "application/json; charset=UTF-8": nil, "application/vnd.api+json": nil,
		"application/json; charset=utf-16": WrongContentType, "text/plain": WrongContentType, "multipart/form-data; boundary=x": WrongContentType,
		"application/x-www-form-urlencoded": WrongContentType, ";": WrongContentType,
	} {
		d := sign(t, "linear", secretText, bodyFor("linear"), now).with("Content-Type", contentType)
		if _, err := d.verify(t, now); err != want {
			t.Errorf("%s: %v, want %v", contentType, err, want)
		}
	}
}

func TestHeadersThatComeTwice(t *testing.T) {
	for _, scheme := range Names() {
		s, _ := Lookup(scheme)
		d := sign(t, scheme, secretFor(scheme), bodyFor(scheme), now)
		for _, name := range append(s.Headers(), "Content-Type") {
			h := http.Header{"Content-Type": {"application/json"}}
			for k, v := range d.header {
				h.Set(k, v)
			}
			h.Add(name, "again")
			if len(h.Values(name)) < 2 { // an event header that this test does not send
				h.Add(name, "again")
			}
			_, err := Verify(s, d.secrets, h, []byte(d.body), time.Unix(now, 0))
			if err != AmbiguousHeader && !(name == "Content-Type" && err == WrongContentType) {
				t.Errorf("%s: %s twice: %v", scheme, name, err)
			}
		}
	}
}

// Several signatures in one header are a rotation on the sender's side.
func TestSeveralSignatures(t *testing.T) {
	good := sign(t, "standard", standardSecret, "{}", now)
	wrong := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for header, want := range map[string]error{
		wrong + " " + good.header["Webhook-Signature"]:                          nil,
		good.header["Webhook-Signature"] + " " + wrong:                          nil,
		"v2,future " + good.header["Webhook-Signature"]:                         nil,
		wrong + " " + wrong:                                                     WrongSignature,
		"v2,future":                                                             MalformedSig,
		strings.Repeat(wrong+" ", 16) + good.header["Webhook-Signature"]:        MalformedSig,
		wrong + "," + strings.TrimPrefix(good.header["Webhook-Signature"], "v"): MalformedSig,
	} {
		if _, err := good.with("Webhook-Signature", header).verify(t, now); err != want {
			t.Errorf("%.60s: %v, want %v", header, err, want)
		}
	}
	stripe := sign(t, "stripe", secretText, bodyFor("stripe"), now)
	h := stripe.header["Stripe-Signature"]
	for header, want := range map[string]error{
		h + ",v0=" + strings.Repeat("0", 64):                           nil,
		strings.Replace(h, ",", ",v1="+strings.Repeat("0", 64)+",", 1): nil,
		h + ",t=1": MalformedSig, strings.TrimPrefix(h, "t=1700000000,"): MalformedSig,
	} {
		if _, err := stripe.with("Stripe-Signature", header).verify(t, now); err != want {
			t.Errorf("%.60s: %v, want %v", header, err, want)
		}
	}
}

// Dots would let an id and a time change places under one signature.
func TestIDs(t *testing.T) {
	for id, good := range map[string]bool{"msg_1": true, "a.1": false, "": false, "a b": false, "é": false, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false} {
		s, _ := Lookup("standard")
		k, _ := s.codec(standardSecret)
		d := sign(t, "standard", standardSecret, "{}", now)
		d.header["Webhook-Id"] = id
		d.header["Webhook-Signature"] = "v1," + base64.StdEncoding.EncodeToString(mac(k.mac, s.content(id, "1700000000", []byte("{}"))))
		if _, err := d.verify(t, now); (err == nil) != good {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestWhatAnEventIsCalled(t *testing.T) {
	for scheme, want := range map[string]string{"standard": "changed", "jira": "jira:issue_updated", "slack": "changed", "stripe": "changed", "github": "issues"} {
		d := sign(t, scheme, secretFor(scheme), bodyFor(scheme), now)
		if s, _ := Lookup(scheme); s.EventHeader != "" {
			d.header[s.EventHeader] = "issues"
		}
		if v, err := d.verify(t, now); err != nil || v.EventType != want {
			t.Errorf("%s: event %q, %v", scheme, v.EventType, err)
		}
	}
	for scheme, want := range map[string]string{"slack": "Ev1", "stripe": "evt_1", "jira": "d-1"} {
		if v, _ := sign(t, scheme, secretFor(scheme), bodyFor(scheme), now).verify(t, now); v.DeliveryID != want {
			t.Errorf("%s: delivery id %q, want %q", scheme, v.DeliveryID, want)
		}
	}
}

func TestSecretsRedactThemselves(t *testing.T) {
	s := Secret{Text: secretText}
	raw, err := json.Marshal(map[string]any{"s": s, "p": &s, "l": []Secret{s}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "list", []Secret{s})
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x", s, s, s, &s, s), string(raw), log.String()} {
		if strings.Contains(text, "thirty-two") || strings.Contains(text, hex.EncodeToString([]byte("thirty-two"))) {
			t.Errorf("the secret shows in %s", text)
		}
	}
}

func TestLookupIsExact(t *testing.T) {
	if _, ok := Lookup("GitHub"); ok {
		t.Error("names match in another case")
	}
	if names := Names(); !slices.IsSorted(names) || len(names) != len(schemes) || len(slices.Compact(names)) != len(names) {
		t.Errorf("names: %v", names)
	}
}
