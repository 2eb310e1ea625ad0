package gitea_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
)

// W28, W30: see the sandbox's test of the same name.
// Guarantee: HOO6
func TestDecodeEvent(t *testing.T) {
	t.Parallel()
	issue := func(action string) string {
		return `{"action":"` + action + `","number":7,"issue":{"id":99,"number":7,"title":"ignore rules","pull_request":null},"repository":{"id":1,"full_name":"acme/web"}}`
	}
	changed := []tickets.Changed{{ID: "acme/web#7", Project: "acme/web"}}
	removed := []tickets.Changed{{ID: "acme/web#7", Project: "acme/web", Removes: true}}
	for _, c := range []struct {
		event, body string
		changed     []tickets.Changed
		err         error
	}{
		{"issues", issue("opened"), changed, nil},
		{"issues", issue("brand_new"), changed, nil},
		{"issues", issue("deleted"), removed, nil},
		{"issue_comment", issue("created"), changed, nil},
		{"issue_comment", issue("deleted"), changed, nil},
		{"issues", `{"action":"opened","issue":{"number":7,"pull_request":{"merged":false}},"repository":{"full_name":"acme/web"}}`, nil, nil},
		{"issue_comment", `{"action":"created","issue":{"number":7},"pull_request":{},"repository":{"full_name":"acme/web"}}`, nil, nil},
		{"repository", `{"action":"created","repository":{"full_name":"acme/web"}}`, []tickets.Changed{{Project: "acme/web"}}, nil},
		{"repository", `{"action":"deleted","repository":{"full_name":"acme/web"}}`, []tickets.Changed{{Project: "acme/web", Removes: true}}, nil},
		{"pull_request", issue("opened"), nil, nil},
		{"push", `not even JSON`, nil, nil},
		{"", issue("opened"), nil, nil},
		{"issues", `{"action":"opened","issue":{"number":7}}`, nil, tickets.ErrEvent},
		{"issues", `{"action":"opened","repository":{"full_name":"acme/web"}}`, nil, tickets.ErrEvent},
		{"issues", `{"issue":{"number":-7},"repository":{"full_name":"acme/web"}}`, nil, tickets.ErrEvent},
		{"issues", `{"issue":{"number":7.5},"repository":{"full_name":"acme/web"}}`, nil, tickets.ErrEvent},
		{"issues", `{"issue":{"number":7},"issue":{"number":8},"repository":{"full_name":"acme/web"}}`, nil, tickets.ErrEvent},
		{"issues", ``, nil, tickets.ErrEvent},
	} {
		got, err := gitea.Driver{}.DecodeEvent(c.event, []byte(c.body))
		if diff := cmp.Diff(c.changed, got); diff != "" || !errors.Is(err, c.err) {
			t.Errorf("%s %s: error %v (-want +got):\n%s", c.event, c.body, err, diff)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add("issues", []byte(`{"action":"deleted","issue":{"number":7},"repository":{"full_name":"acme/web"}}`))
	f.Add("repository", []byte(`{"repository":{"full_name":"acme/web"}}`))
	f.Fuzz(func(t *testing.T, event string, b []byte) {
		got, err := gitea.Driver{}.DecodeEvent(event, b)
		if err != nil && len(got) > 0 {
			t.Fatalf("an event that failed has changes: %v", got)
		}
	})
}
