package sandbox

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type deviceAnswer struct {
	Code     string `json:"device_code"`
	User     string `json:"user_code"`
	Page     string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	Expires  int    `json:"expires_in"`
	Interval int    `json:"interval"`
}

func (b *bench) device() deviceAnswer {
	b.t.Helper()
	var d deviceAnswer
	b.call("POST", "/oauth/device_authorization", "", url.Values{"client_id": {"drawbridge-cli"}, "scope": {scopes}}.Encode(),
		"Content-Type", "application/x-www-form-urlencoded").into(b.t, &d)
	if d.Code == "" || d.User == "" || d.Page == "" || !strings.HasPrefix(d.Complete, d.Page+"?") || d.Expires != 600 || d.Interval != 5 {
		b.t.Fatalf("device authorization = %+v", d)
	}
	return d
}

func (b *bench) pollDevice(code string) tokens {
	b.t.Helper()
	return b.tokenRequest(url.Values{"grant_type": {deviceGrantType}, "client_id": {"drawbridge-cli"}, "device_code": {code}})
}

// Guarantee: TST2 (RFC 8628)
func TestDeviceAuthorization(t *testing.T) {
	// In a bubble, with the handler called directly: time moves when told to.
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{BaseURL: "http://org.test"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{s, t, &http.Client{Transport: direct{s.Handler()}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		decide := func(d deviceAnswer, allow bool) error {
			return LoginDevice(t.Context(), b.client, d.Complete, "alice", b.password("alice"), allow)
		}
		want := func(code, refusal string) {
			t.Helper()
			if got := b.pollDevice(code); got.Error != refusal || got.Access != "" {
				t.Errorf("poll = %+v, want %q", got, refusal)
			}
		}
		d := b.device()
		want(d.Code, "authorization_pending")
		time.Sleep(4 * time.Second)
		want(d.Code, "slow_down") // and ten seconds from now on
		time.Sleep(6 * time.Second)
		want(d.Code, "slow_down")
		time.Sleep(15 * time.Second)
		want(d.Code, "authorization_pending")
		if err := decide(d, true); err != nil {
			t.Fatal(err)
		}
		if err := decide(d, true); err == nil {
			t.Error("a code was decided twice")
		}
		time.Sleep(15 * time.Second)
		if other := b.tokenRequest(url.Values{"grant_type": {deviceGrantType}, "client_id": {"drawbridge-service"},
			"client_secret": {b.Clients()[2].Secret}, "device_code": {d.Code}}); other.Error != "invalid_grant" {
			t.Errorf("another client's poll = %+v", other)
		}
		got := b.pollDevice(d.Code)
		if got.Access == "" || got.Refresh == "" || b.call("GET", "/api/v1/me", got.Access, nil).Status != 200 {
			t.Errorf("granted = %+v", got)
		}
		time.Sleep(15 * time.Second)
		want(d.Code, "invalid_grant") // used up

		d = b.device()
		if err := decide(d, false); err != nil {
			t.Fatal(err)
		}
		want(d.Code, "access_denied")

		d = b.device()
		time.Sleep(10 * time.Minute)
		want(d.Code, "expired_token")
		if err := decide(d, true); err == nil {
			t.Error("an expired code was decided")
		}
	})
}
