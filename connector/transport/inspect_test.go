package transport

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Guarantee: NET2
func TestInspectionDialsUnderTheGuard(t *testing.T) {
	s := serve(t, always(200, `{}`))
	_, port := hostAndPort(s.url)
	in, err := Inspect(Profile{Name: "org", BaseURL: "https://api.example.test:" + s.url[strings.LastIndexByte(s.url, ':')+1:]}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	place := in.Places()[0]
	if place.Port != port || place.Role != "base_url" {
		t.Fatalf("place %+v", place)
	}
	addr := netip.MustParseAddr("127.0.0.1")
	var stop *errBlocked
	if err := place.Judge(t.Context(), addr); !errors.As(err, &stop) {
		t.Errorf("judged %v, want a refusal", err)
	}
	if _, err := place.Dial(t.Context(), addr); !errors.As(err, &stop) {
		t.Errorf("dialled: %v, want a refusal", err)
	}
	if n := s.connections(); n != 0 {
		t.Errorf("%d connections came through", n)
	}
}

func TestInspectionAsksThePrefixAlone(t *testing.T) {
	for prefix, want := range map[string]string{"": "/", "/": "/", "/api": "/api", "/api/v1/": "/api/v1"} {
		s := serve(t, func(_ int, _ seen, c net.Conn) bool {
			return say(c, 403, `{}`, "Date: Mon, 02 Jan 2006 15:04:05 GMT") && false
		})
		in, err := Inspect(Loopback("org", s.url+prefix), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := in.Ask(t.Context())
		if err != nil || got.Status != 403 || got.TLS != nil || !got.Date.Equal(time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)) || time.Since(got.At) > time.Hour {
			t.Errorf("%q: saw %+v, %v", prefix, got, err)
		}
		if r := s.requests(); len(r) != 1 || r[0].target != want || r[0].method != "GET" || r[0].header.Get("Authorization") != "" {
			t.Errorf("%q: requests %+v, want one GET of %s", prefix, r, want)
		}
	}
}
