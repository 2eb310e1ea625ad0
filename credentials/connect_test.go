package credentials

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: CRE1
func TestConnectReadsTheAccountAndServesCalls(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")

		want := connector.Connection{
			ID: c.ID, Tenant: "acme", Principal: "alice", Provider: "tickets", Profile: "org",
			Account:   connector.Account{Issuer: b.org.Issuer(), Subject: "acct-alice", Login: "alice", Organisation: "acme"},
			Scopes:    []string{"tickets:read", "profile:read", "offline_access"},
			Resources: []string{"orders", "web"}, AuthzVersion: 1,
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("connection (-want +got):\n%s", diff)
		}
		got, err := r.Resolve(t.Context(), alice, "tickets", []string{"tickets:read"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("resolved (-want +got):\n%s", diff)
		}
		if err := r.Current(t.Context(), got); err != nil {
			t.Error(err)
		}
		if status, err := r.get(got); status != http.StatusOK || err != nil {
			t.Errorf("read = %d, %v", status, err)
		}
	})
}
