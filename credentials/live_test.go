package credentials

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: CRE8
func TestLiveIsTheConnectionUntilItIsCut(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		c := r.connect(alice, "alice")
		got, err := r.Live(t.Context(), alice.Tenant, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("connection (-want +got):\n%s", diff)
		}
		_, err = r.Live(t.Context(), "another", c.ID)
		wantCode(t, err, connector.CodeConnectionRequired)
		_, err = r.Live(t.Context(), alice.Tenant, "con_absent")
		wantCode(t, err, connector.CodeConnectionRequired)
		if _, err := r.Disconnect(t.Context(), alice, c.ID, ""); err != nil {
			t.Fatal(err)
		}
		_, err = r.Live(t.Context(), alice.Tenant, c.ID)
		wantCode(t, err, connector.CodeConnectionRequired)
	})
}
