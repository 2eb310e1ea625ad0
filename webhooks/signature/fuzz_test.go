package signature

import (
	"net/http"
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
