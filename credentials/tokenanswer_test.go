package credentials

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What x/oauth2 makes of these is measured in the research: the whole answer
// is given up for half of them, and the rotated refresh token with it.
func TestOddExpiresInNeverCostsThePair(t *testing.T) {
	tests := map[string]time.Duration{
		`3600`: time.Hour, `"3600"`: time.Hour, `3600.0`: time.Hour, `3.6e3`: time.Hour, `" 3600 "`: time.Hour, `3600.9`: time.Hour,
		`0`: 0, `""`: 0, `"abc"`: 0, `null`: 0, `-1`: 0, `1e400`: 0, `"1e400"`: 0, `"NaN"`: 0, `"Inf"`: 0, `true`: 0, `{}`: 0, `[3600]`: 0,
		`-4294963696`: 0, `100000000000000`: 0, `0.5`: 0,
	}
	for raw, want := range tests {
		body := fmt.Sprintf(`{"access_token":"a1","refresh_token":"r2","token_type":"bearer","expires_in":%s}`, raw)
		got, ok := parseTokenAnswer(&Provider{}, []byte(body))
		if !ok || got.grant == nil {
			t.Errorf("expires_in %s: the pair is lost", raw)
			continue
		}
		if got.grant.lifetime != want || got.grant.access.reveal() != "a1" || got.grant.refresh.reveal() != "r2" {
			t.Errorf("expires_in %s: lifetime %v, want %v", raw, got.grant.lifetime, want)
		}
	}
	if got, ok := parseTokenAnswer(&Provider{}, []byte(`{"access_token":"a1"}`)); !ok || got.grant.lifetime != 0 || !got.grant.refresh.IsZero() {
		t.Errorf("the least possible answer = %+v, %v", got, ok)
	}
}

// C11, C15, C31 and threat T16.
func TestTokenAnswer(t *testing.T) {
	type want struct {
		Access, Refresh string
		Scopes          []string
		HasScopes       bool
		OK              bool
	}
	long := strings.Repeat("x", maxToken+1)
	tests := []struct {
		name, body string
		want       want
	}{
		{"refresh null (C11)", `{"access_token":"a","refresh_token":null}`, want{Access: "a", OK: true}},
		{"refresh empty (C11)", `{"access_token":"a","refresh_token":""}`, want{Access: "a", OK: true}},
		{"refresh a number", `{"access_token":"a","refresh_token":1}`, want{}},
		{"scope text (C15)", `{"access_token":"a","scope":"x y  x"}`, want{Access: "a", Scopes: []string{"x", "y"}, HasScopes: true, OK: true}},
		{"scope list", `{"access_token":"a","scope":["x","y z"]}`, want{Access: "a", Scopes: []string{"x"}, HasScopes: true, OK: true}},
		{"scope empty", `{"access_token":"a","scope":""}`, want{Access: "a", HasScopes: true, OK: true}},
		{"scope null", `{"access_token":"a","scope":null}`, want{Access: "a", OK: true}},
		{"scope a number", `{"access_token":"a","scope":7}`, want{Access: "a", OK: true}},
		{"type absent", `{"access_token":"a"}`, want{Access: "a", OK: true}},
		{"type null", `{"access_token":"a","token_type":null}`, want{Access: "a", OK: true}},
		{"type in capitals", `{"access_token":"a","token_type":"BEARER"}`, want{Access: "a", OK: true}},
		{"type DPoP", `{"access_token":"a","token_type":"DPoP"}`, want{}},
		{"name in another case", `{"Access_Token":"a"}`, want{}},
		{"name twice", `{"access_token":"a","access_token":"b"}`, want{}},
		{"optional name twice", `{"access_token":"a","scope":"x","scope":"y"}`, want{}},
		{"line break in the token", `{"access_token":"a\r\nX-Evil: 1"}`, want{}},
		{"line break in the refresh token", `{"access_token":"a","refresh_token":"r\n"}`, want{}},
		{"space in the token", `{"access_token":"a b"}`, want{}},
		{"not ASCII", `{"access_token":"ä"}`, want{}},
		{"too long", `{"access_token":"` + long + `"}`, want{}},
		{"as long as may be", `{"access_token":"` + long[1:] + `"}`, want{Access: long[1:], OK: true}},
		{"empty token", `{"access_token":""}`, want{}},
		{"token a number", `{"access_token":1}`, want{}},
		{"not an object", `["a"]`, want{}},
		{"null", `null`, want{}},
		{"trailing data", `{"access_token":"a"}{}`, want{}},
		{"cut", `{"access_token":"a"`, want{}},
		{"form", `access_token=a&token_type=bearer`, want{}},
	}
	for _, test := range tests {
		doc, ok := parseTokenAnswer(&Provider{}, []byte(test.body))
		got := want{OK: ok}
		if doc.grant != nil {
			got = want{doc.grant.access.reveal(), doc.grant.refresh.reveal(), doc.grant.scopes, doc.grant.hasScopes, ok}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestScopeSeparator(t *testing.T) {
	p := &Provider{ScopeSeparator: ","}
	got, _ := parseTokenAnswer(p, []byte(`{"access_token":"a","scope":"read,write issues:create"}`))
	if diff := cmp.Diff([]string{"read", "write", "issues:create"}, got.grant.scopes); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
}

// Whatever stands in optional members, a well-formed pair comes out as it is.
func TestPairSurvivesOddNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[!#-\[\]-~]{1,40}`)
		access, refresh := token.Draw(t, "access"), token.Draw(t, "refresh")
		odd := rapid.SampledFrom([]string{`1`, `"x"`, `null`, `true`, `-0`, `1e9`, `[]`, `{}`, `[null]`, `{"a":{"b":1}}`, `"3600"`, `""`})
		body := fmt.Sprintf(`{"expires_in":%s,"access_token":%q,"scope":%s,"id_token":%s,"refresh_token":%q,"extra":%s}`,
			odd.Draw(t, "expires_in"), access, odd.Draw(t, "scope"), odd.Draw(t, "id_token"), refresh, odd.Draw(t, "extra"))
		got, ok := parseTokenAnswer(&Provider{}, []byte(body))
		if !ok || got.grant == nil || got.grant.access.reveal() != access || got.grant.refresh.reveal() != refresh {
			t.Fatalf("lost the pair of %s", body)
		}
	})
}

func FuzzTokenAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"access_token":"a","refresh_token":"r","expires_in":3600,"scope":"x y","token_type":"Bearer"}`,
		`{"access_token":"a","expires_in":1e400}`, `{"error":"invalid_grant","error_description":"x"}`,
		`{"access_token":"a","access_token":"b"}`, `{"access_token":"a\r\nb"}`, `{"scope":["x",1]}`, `null`, `{`, "\xff", `{"access_token":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	p := &Provider{ScopeSeparator: ","}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := parseTokenAnswer(p, body)
		if got.grant == nil {
			return
		}
		if !ok || got.error != "" {
			t.Error("a grant that can't be relied on")
		}
		for _, s := range append(got.grant.scopes, got.grant.access.reveal()) {
			if s == "" || strings.ContainsAny(s, "\r\n \x00") {
				t.Errorf("%q got through", s)
			}
		}
		if r := got.grant.refresh.reveal(); r != "" && !validToken(r) {
			t.Errorf("refresh token %q got through", r)
		}
		if got.grant.lifetime < 0 || got.grant.lifetime > maxLifetime {
			t.Errorf("lifetime = %v", got.grant.lifetime)
		}
	})
}
