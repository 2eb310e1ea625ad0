package sandbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAuthorizationCodeWithPKCE(t *testing.T) {
	t.Parallel()
	b := start(t, Config{})
	q := b.signIn("alice", nil)
	if q.Get("state") != "st4te" || q.Get("iss") != b.Issuer() || q.Get("code") == "" {
		t.Fatalf("redirect carries %v", q)
	}
	got := b.exchange(q.Get("code"))
	if got.Status != 200 || got.Type != "Bearer" || got.Refresh == "" || string(got.Expires) != "600" || got.Scope != scopes {
		t.Fatalf("token answer = %+v", got)
	}
	var me struct {
		Subject, Login string
		Organisation   Organisation
		Projects       []ProjectRef
	}
	b.call("GET", "/api/v1/me", got.Access, nil).into(t, &me)
	if diff := cmp.Diff([]ProjectRef{{"orders", "Order platform"}, {"web", "Web shop"}}, me.Projects); diff != "" {
		t.Errorf("projects of alice (-want +got):\n%s", diff)
	}
	if me.Login != "alice" || me.Organisation.ID != "acme" || me.Subject != "acct-alice" {
		t.Errorf("me = %+v", me)
	}
}
