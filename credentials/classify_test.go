package credentials

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// C17, C18, C19, C20, C40: what an answer of the token endpoint means.
func TestClassify(t *testing.T) {
	aliases := []Alias{
		{Error: "bad_refresh_token"},
		{Status: 403, Error: "unauthorized_client", Description: "refresh_token is invalid"},
	}
	good := `{"access_token":"a","refresh_token":"r","token_type":"Bearer"}`
	tests := []struct {
		name string
		r    reply
		want class
		code string
	}{
		{"nothing left", reply{}, classNotSent, ""},
		{"no answer", reply{sent: true}, classUnknown, ""},
		{"granted", reply{sent: true, status: 200, body: []byte(good)}, classGranted, ""},
		{"granted with 201", reply{sent: true, status: 201, body: []byte(good)}, classGranted, ""},
		{"a grant in a refusal", reply{sent: true, status: 400, body: []byte(good)}, classRefused, ""},
		{"a grant in an outage", reply{sent: true, status: 500, body: []byte(good)}, classUnknown, ""},
		{"invalid_grant (C19)", reply{sent: true, status: 400, body: []byte(`{"error":"invalid_grant"}`)}, classRejected, "invalid_grant"},
		{"invalid_grant with 401", reply{sent: true, status: 401, body: []byte(`{"error":"invalid_grant"}`)}, classRejected, "invalid_grant"},
		{"invalid_grant with 200", reply{sent: true, status: 200, body: []byte(`{"error":"invalid_grant"}`)}, classRejected, "invalid_grant"},
		{"invalid_grant with 503 (C20)", reply{sent: true, status: 503, body: []byte(`{"error":"invalid_grant"}`)}, classUnknown, ""},
		{"client authentication failed in an outage (C20)", reply{sent: true, status: 500, body: []byte(`{"error":"invalid_client","error_description":"client authentication failed"}`)}, classUnknown, ""},
		{"invalid_grant in capitals", reply{sent: true, status: 400, body: []byte(`{"error":"INVALID_GRANT"}`)}, classRefused, "other"},
		{"error member in capitals", reply{sent: true, status: 400, body: []byte(`{"Error":"invalid_grant"}`)}, classRefused, ""},
		{"invalid_grant beside a token", reply{sent: true, status: 200, body: []byte(`{"error":"invalid_grant","access_token":"a"}`)}, classUnknown, "invalid_grant"},
		{"alias by code (C17)", reply{sent: true, status: 200, body: []byte(`{"error":"bad_refresh_token"}`)}, classRejected, "invalid_grant"},
		{"alias by status and text (C17)", reply{sent: true, status: 403, body: []byte(`{"error":"unauthorized_client","error_description":"refresh_token is invalid"}`)}, classRejected, "invalid_grant"},
		{"not quite the alias", reply{sent: true, status: 403, body: []byte(`{"error":"unauthorized_client","error_description":"Refresh_token is invalid"}`)}, classMisconfigured, "unauthorized_client"},
		{"invalid_client (C40)", reply{sent: true, status: 401, body: []byte(`{"error":"invalid_client"}`)}, classMisconfigured, "invalid_client"},
		{"invalid_request (C40)", reply{sent: true, status: 400, body: []byte(`{"error":"invalid_request"}`)}, classInvalid, "invalid_request"},
		{"400 without error (C17)", reply{sent: true, status: 400, body: []byte(`{"message":"no"}`)}, classRefused, ""},
		{"400 with a page", reply{sent: true, status: 400, body: []byte(`<html>`)}, classRefused, ""},
		{"429", reply{sent: true, status: 429, body: []byte(`{"error":"invalid_grant"}`)}, classThrottled, ""},
		{"temporarily_unavailable", reply{sent: true, status: 400, body: []byte(`{"error":"temporarily_unavailable"}`)}, classThrottled, "temporarily_unavailable"},
		{"a page with 200", reply{sent: true, status: 200, body: []byte(`<html>`)}, classUnknown, ""},
		{"nothing with 200", reply{sent: true, status: 200}, classUnknown, ""},
		{"no token and no error", reply{sent: true, status: 200, body: []byte(`{}`)}, classUnknown, ""},
		{"a code of their own", reply{sent: true, status: 400, body: []byte(`{"error":"canary text"}`)}, classRefused, "other"},
		{"302", reply{sent: true, status: 302}, classUnknown, ""},
		{"307 (C27)", reply{sent: true, status: 307}, classMisconfigured, ""},
	}
	for _, test := range tests {
		got := classify(&Provider{RefreshAliases: aliases}, test.r)
		if got.class != test.want || got.code != test.code {
			t.Errorf("%s: class = %s (%q), want %s (%q)", test.name, got.class, got.code, test.want, test.code)
		}
		if (got.grant != nil) != (test.want == classGranted) {
			t.Errorf("%s: grant = %v", test.name, got.grant)
		}
	}
}

func TestVerdict(t *testing.T) {
	s := &Service{cfg: Config{RetryBase: time.Second, RetryCap: 5 * time.Minute}}
	type want struct {
		status  Status
		reason  Reason
		unknown bool
	}
	tests := []struct {
		name    string
		c       claim
		a       answer
		expired bool
		want    want
		min     time.Duration // of the wait
		max     time.Duration
	}{
		{"not sent", claim{}, answer{class: classNotSent}, true, want{}, 500 * time.Millisecond, time.Second},
		{"unknown", claim{fails: 3}, answer{class: classUnknown}, true, want{unknown: true}, 4 * time.Second, 8 * time.Second},
		{"unknown for days", claim{fails: 1000}, answer{class: classUnknown}, true, want{unknown: true}, 150 * time.Second, 5 * time.Minute},
		{"throttled", claim{}, answer{class: classThrottled, retryAfter: 40 * time.Second}, true, want{}, 40 * time.Second, 40 * time.Second},
		{"throttled for a year", claim{}, answer{class: classThrottled, retryAfter: 9000 * time.Hour}, true, want{}, time.Hour, time.Hour},
		{"rejected", claim{}, answer{class: classRejected}, true, want{StatusReconnectRequired, ReasonInvalidGrant, false}, 0, time.Hour},
		{"rejected after an unknown outcome", claim{unknowns: 1}, answer{class: classRejected}, true, want{StatusReconnectRequired, ReasonLostRotation, false}, 0, time.Hour},
		{"misconfigured", claim{}, answer{class: classMisconfigured, code: "invalid_client"}, true, want{StatusDegraded, "invalid_client", false}, 30 * time.Minute, 30 * time.Minute},
		{"invalid_request", claim{fails: 2}, answer{class: classInvalid}, true, want{}, 0, time.Hour},
		{"invalid_request again and again", claim{fails: 3}, answer{class: classInvalid, code: "invalid_request"}, true, want{StatusDegraded, "invalid_request", false}, 30 * time.Minute, 30 * time.Minute},
		{"refused", claim{fails: 4}, answer{class: classRefused}, true, want{}, 0, time.Hour},
		{"refused, token alive", claim{fails: 40}, answer{class: classRefused}, false, want{}, 0, time.Hour},
		{"refused again and again", claim{fails: 5}, answer{class: classRefused}, true, want{StatusReconnectRequired, ReasonUnclassified, false}, 0, time.Hour},
	}
	for _, test := range tests {
		v := s.judge(&test.c, test.a, test.expired)
		if got := (want{v.status, v.reason, v.unknown}); got != test.want {
			t.Errorf("%s: verdict = %+v, want %+v", test.name, got, test.want)
		}
		if v.wait < test.min || v.wait > test.max {
			t.Errorf("%s: wait = %v, want between %v and %v", test.name, v.wait, test.min, test.max)
		}
	}
}

// Guarantee: CRE6 (C03, C20: an outage is never a disconnect)
func TestOutageKeepsTheConnection(t *testing.T) {
	outages := []sandbox.Effect{
		{Kind: "status", Status: 503, Body: `{"error":"invalid_grant"}`},
		{Kind: "status", Status: 500, Body: `{"error":"invalid_client"}`},
		{Kind: "status", Status: 429, RetryAfter: "90", Body: `{"error":"invalid_grant"}`},
		{Kind: "html"},
		{Kind: "reset_before"},
		{Kind: "truncate"},
		{Kind: "oversized"},
		{Kind: "empty"},
	}
	each(t, func(b *bench) {
		t := b.t
		// Long enough to be kept on a loaded machine too.
		r := b.replica(func(c *Config) { c.RetryBase, c.RetryCap = time.Minute, time.Minute })
		c := r.connect(alice, "alice")
		b.behave(sandbox.Behaviour{})
		for _, effect := range outages {
			b.expire(c)
			b.due(c)
			effect.When = "before"
			b.behave(onRefresh(effect))
			_, err := r.Authorize(t.Context(), c, 0)
			e := wantCode(t, err, connector.CodeUnavailable)
			if e.RetryAfter <= 0 {
				t.Errorf("%s %d: no time to wait", effect.Kind, effect.Status)
			}
			if effect.Status == 429 && (e.RetryAfter < 80*time.Second || e.RetryAfter > 90*time.Second) {
				t.Errorf("retry after %v, want the provider's 90 s", e.RetryAfter)
			}
			b.wantStatus(c, StatusActive, "")
			// The wait is kept: nothing is sent meanwhile.
			before := len(b.org.Requests())
			_, err = r.Authorize(t.Context(), c, 0)
			wantCode(t, err, connector.CodeUnavailable)
			if n := len(b.org.Requests()) - before; n != 0 {
				t.Errorf("%s: %d requests during the wait, want none", effect.Kind, n)
			}
		}
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{GraceMS: 60_000}}) // truncate came after the rotation
		b.due(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("after the outage: %d, %v", status, err)
		}
		b.wantStatus(c, StatusActive, "")
	})
}

// Guarantee: CRE6 (C19; C18: the provider's words stay out)
func TestInvalidGrantAsksForANewSignIn(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.expire(c)
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 400, Body: `{"error":"invalid_grant","error_description":"canary-description for alice@example"}`}))
		_, err := r.Authorize(t.Context(), c, 0)
		e := wantCode(t, err, connector.CodeConnectionRequired)
		if e.Advice() != connector.NextReconnect {
			t.Errorf("advice = %v", e.Advice())
		}
		b.wantStatus(c, StatusReconnectRequired, ReasonInvalidGrant)
		for name, text := range map[string]string{"error": err.Error(), "log": b.log.String()} {
			if strings.Contains(text, "canary") || strings.Contains(text, "alice@") {
				t.Errorf("the provider's description is in the %s: %s", name, text)
			}
		}
		_, err = r.Resolve(t.Context(), alice, "tickets", nil)
		wantCode(t, err, connector.CodeConnectionRequired)
		wantCode(t, r.Current(t.Context(), c), connector.CodeConnectionRequired)
		// A new sign-in makes the same connection live again.
		b.behave(sandbox.Behaviour{})
		again := r.connect(alice, "alice", func(q *BeginRequest) { q.Connection = c.ID })
		if again.ID != c.ID || again.AuthzVersion <= c.AuthzVersion {
			t.Errorf("reconnected as %+v, want %s with a later authorization version", again, c.ID)
		}
		if status, err := r.get(again); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		_, err = r.get(c) // what was resolved before is another authorization
		wantCode(t, err, connector.CodeConnectionRequired)
	})
}

// Guarantee: CRE6 (C07: the answer was lost, then the replay is refused)
func TestLostAnswerIsLostRotation(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.expire(c)
		b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{
			Match:  sandbox.Match{Path: "/oauth/token", Grant: "refresh_token", Nth: []int{1}},
			Effect: sandbox.Effect{Kind: "lose_answer_after_commit"},
		}}})
		_, err := r.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeUnavailable)
		b.wantStatus(c, StatusActive, "")
		b.due(c)
		_, err = r.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(c, StatusReconnectRequired, ReasonLostRotation)
	})
}

// T17: our own registration at fault; nobody is sent to reconnect, the token is used.
func TestMisconfiguredClientDegrades(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		b.behave(onRefresh(sandbox.Effect{Kind: "status", Status: 401, Body: `{"error":"invalid_client"}`}))
		// Refused by the resource once, while the clock says it is good.
		_, err := r.Authorize(t.Context(), c, 1)
		wantCode(t, err, connector.CodeUnavailable)
		b.wantStatus(c, StatusDegraded, "invalid_client")
		if _, err := r.Resolve(t.Context(), alice, "tickets", nil); err != nil {
			t.Errorf("resolve: %v", err)
		}
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read with the living token = %d, %v", status, err)
		}
		b.behave(sandbox.Behaviour{})
		b.due(c)
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read after the repair = %d, %v", status, err)
		}
		b.wantStatus(c, StatusActive, "")
	})
}

// C11: an answer without a refresh token keeps the old one.
func TestOmittedRefreshTokenIsCarriedOver(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		for range 2 {
			b.behave(sandbox.Behaviour{Switches: sandbox.Switches{OmitRefreshToken: true, GraceMS: 60_000}})
			b.expire(c)
			if status, err := r.get(c); status != http.StatusOK {
				t.Fatalf("read = %d, %v", status, err)
			}
		}
		if v := b.version(c); v != 3 {
			t.Errorf("version = %d, want 3", v)
		}
	})
}

// C13: no lifetime, no early renewal; a refusal by the resource renews.
func TestUnknownLifetimeIsRenewedOnRefusal(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		for _, raw := range []string{`0`, `"abc"`, `null`, `-1`} {
			b.behave(sandbox.Behaviour{Switches: sandbox.Switches{ExpiresIn: []byte(raw)}})
			c := r.connect(alice, "alice")
			v, err := r.Show(t.Context(), alice, c.ID)
			if err != nil || !v.AccessExpiresAt.IsZero() {
				t.Errorf("expires_in %s: expires at %v (%v), want unknown", raw, v.AccessExpiresAt, err)
			}
			before := b.refreshes()
			if status, err := r.get(c); status != http.StatusOK || b.refreshes() != before {
				t.Errorf("expires_in %s: read = %d, %v after %d refreshes", raw, status, err, b.refreshes()-before)
			}
			b.org.ExpireAccessTokens()
			if status, err := r.get(c); status != http.StatusOK || b.refreshes() != before+1 {
				t.Errorf("expires_in %s: read = %d, %v after %d refreshes, want 1", raw, status, err, b.refreshes()-before)
			}
		}
	})
}

func TestDefaultLifetime(t *testing.T) {
	each(t, func(b *bench) {
		r := b.replica(func(c *Config) { c.Providers[0].DefaultLifetime = time.Hour })
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{OmitExpiresIn: true}})
		c := r.connect(alice, "alice")
		v, err := r.Show(b.t.Context(), alice, c.ID)
		if left := time.Until(v.AccessExpiresAt); err != nil || left > time.Hour || left < 59*time.Minute {
			b.t.Errorf("expires in %v (%v), want an hour", left, err)
		}
	})
}

// A refused token is renewed once; when the new one is refused too, a person is asked.
func TestFreshTokenRefusedAgain(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		got, err := r.Authorize(t.Context(), c, 1)
		if err != nil || got.Version() != 2 {
			t.Fatalf("authorize = %v, %v; want version 2", got, err)
		}
		// A late caller that was refused with the old one gets the new one.
		if got, err := r.Authorize(t.Context(), c, 1); err != nil || got.Version() != 2 {
			t.Errorf("authorize = %v, %v; want version 2", got, err)
		}
		_, err = r.Authorize(t.Context(), c, 2)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(c, StatusReconnectRequired, ReasonRevoked)
		if n := b.refreshes(); n != 1 {
			t.Errorf("%d refreshes, want 1", n)
		}
	})
}

func TestNoRefreshToken(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(func(c *Config) { c.Providers[0].Scopes = []string{"tickets:read", "profile:read"} })
		c := r.connect(alice, "alice")
		if status, err := r.get(c); status != http.StatusOK {
			t.Fatalf("read = %d, %v", status, err)
		}
		b.expire(c)
		_, err := r.get(c)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(c, StatusReconnectRequired, ReasonNoRefreshToken)
		if n := b.refreshes(); n != 0 {
			t.Errorf("%d refreshes, want none", n)
		}
	})
}

func TestWaitsGrow(t *testing.T) {
	s := &Service{cfg: Config{RetryBase: time.Second, RetryCap: 5 * time.Minute}}
	var got []time.Duration
	for fails := range int64(4) {
		var top time.Duration
		for range 200 {
			top = max(top, s.backoff(fails))
		}
		got = append(got, top.Round(time.Second))
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, got); diff != "" {
		t.Errorf("longest waits (-want +got):\n%s", diff)
	}
}
