package signature

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzVerify hands any header and body to every scheme. Nothing panics, and
// nothing passes: no input holds a signature by this secret.
func FuzzVerify(f *testing.F) {
	for _, scheme := range Names() {
		d := sign(f, scheme, "whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldA==", bodyFor(scheme), now)
		s, _ := Lookup(scheme)
		f.Add(scheme, d.header[s.header], d.header[s.timed], d.header[s.IDHeader], "application/json", []byte(d.body))
	}
	f.Add("github", "sha256=", "", "x", "application/x-www-form-urlencoded", []byte("payload=%7B%7D"))
	f.Add("stripe", "t=1,v1=,v1=,t=", "", "", "application/json", []byte(`{"id":{}}`))
	f.Fuzz(func(t *testing.T, scheme, signature, at, id, contentType string, body []byte) {
		s, ok := Lookup(scheme)
		if !ok {
			return
		}
		h := http.Header{"Content-Type": {contentType}}
		for name, value := range map[string]string{s.header: signature, s.timed: at, s.IDHeader: id} {
			if name != "" {
				h.Set(name, value)
			}
		}
		secret := secretFor(scheme)
		if strings.Contains(signature, secret) {
			return
		}
		v, err := Verify(s, []Secret{{Text: secret}}, h, body, time.Unix(now, 0))
		if err == nil {
			t.Fatalf("%+v was accepted", v)
		}
		if r, ok := err.(Reason); !ok || r == NoUsableSecret || r.HTTPStatus() < 400 {
			t.Fatalf("%v", err)
		}
	})
}

// FuzzReaders hands any text to what reads headers, times and forms. What they
// accept has one spelling: written again from what was read, it is the same text,
// but for the case of hex digits and versions that are passed over.
func FuzzReaders(f *testing.F) {
	f.Add("v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	f.Add("t=1700000000,v1=" + strings.Repeat("0a", 32))
	f.Add("sha256=" + strings.Repeat("0A", 32))
	f.Add("payload=%7B%7D")
	f.Add("1700000000")
	f.Add("2026-01-01T00:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		same := func(reader, again string) {
			if again != text {
				t.Errorf("%s took %q for %q", reader, text, again)
			}
		}
		if s, ok := versioned(text); ok && !strings.Contains(text, "v1a,") && len(s.macs) == strings.Count(text, ",") {
			var again []string
			for _, mac := range s.macs {
				again = append(again, "v1,"+base64.StdEncoding.EncodeToString(mac))
			}
			same("versioned", strings.Join(again, " "))
		}
		if s, ok := prefixedHex("sha256=")(text); ok {
			if again := "sha256=" + hex.EncodeToString(s.macs[0]); !strings.EqualFold(again, text) || !strings.HasPrefix(text, "sha256=") {
				same("prefixedHex", again)
			}
		}
		if s, ok := base64MAC(text); ok {
			same("base64MAC", base64.StdEncoding.EncodeToString(s.macs[0]))
		}
		if s, ok := stripeHeader(text); ok && (strings.Count(","+text, ",t=") != 1 || len(s.macs) != strings.Count(","+text, ",v1=")) {
			t.Errorf("stripeHeader read %q as %d signatures at %q", text, len(s.macs), s.at)
		}
		if at, ok := seconds(text); ok && strconv.FormatInt(at.Unix(), 10) != strings.TrimLeft(text[:len(text)-1], "0")+text[len(text)-1:] {
			t.Errorf("seconds read %q as %d", text, at.Unix())
		}
		if at, ok := rfc3339(text); ok && at.Year() < 0 {
			t.Errorf("rfc3339 read %q as %v", text, at)
		}
		if id := text; standardID(id) && (strings.ContainsAny(id, ". \x00") || !anyID(id)) {
			t.Errorf("%q is an id", id)
		}
		if document, err := payload([]byte(text)); err == nil {
			if again, err := payload([]byte(url.Values{"payload": {string(document)}}.Encode())); err != nil || string(again) != string(document) {
				t.Errorf("payload of %q is %q, and then %q", text, document, again)
			}
		}
		linearTime([]byte(text))
	})
}

func BenchmarkVerify(b *testing.B) {
	for _, scheme := range Names() {
		d := sign(b, scheme, secretFor(scheme), bodyFor(scheme)+strings.Repeat(" ", 4<<10), now)
		s, _ := Lookup(scheme)
		h := http.Header{"Content-Type": {"application/json"}}
		for name, value := range d.header {
			h.Set(name, value)
		}
		b.Run(scheme, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(d.body)))
			for b.Loop() {
				if _, err := Verify(s, d.secrets, h, []byte(d.body), time.Unix(now, 0)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
