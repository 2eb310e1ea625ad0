package host

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSendersOfInstances(t *testing.T) {
	t.Parallel()
	from, proxies, err := senders([]Instance{{Name: "a", EventsFrom: []string{"192.0.2.0/24", "2001:db8::/32"}, EventsVia: []string{"10.0.0.0/8"}}, {Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(all []netip.Prefix) (out []string) {
		for _, p := range all {
			out = append(out, p.String())
		}
		return out
	}
	if _, listed := from["b"]; listed {
		t.Error("a provider that nothing is said about is listed")
	}
	if diff := cmp.Diff([]string{"192.0.2.0/24", "2001:db8::/32", "10.0.0.0/8"}, append(text(from["a"]), text(proxies)...)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"192.0.2.1", "192.0.2.1/24", "::ffff:192.0.2.0/120", "example.org", ""} {
		if _, _, err := senders([]Instance{{Name: "a", EventsFrom: []string{bad}}}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
