package gitea_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
)

// A sweep walks all repositories of the grant to their last page, whatever size
// the pages have, open and closed; a repository that is gone keeps no other.
// Guarantee: HOO5
func TestSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a", "ana/b", "ana/c")
	f.pageSize = 3
	var want []string
	for _, repo := range []string{"ana/a", "ana/c"} {
		for n := range 7 {
			f.add(repo, func(i *issue) {
				switch n {
				case 2:
					i.PullRequest = &struct{}{}
				case 3:
					i.State = "closed"
				}
			})
			if n != 2 {
				want = append(want, fmt.Sprintf("%s#%d", repo, n+1))
			}
		}
	}
	c := connect(t, f)
	f.mu.Lock()
	f.repos = slices.DeleteFunc(f.repos, func(r string) bool { return r == "ana/b" })
	f.mu.Unlock()
	r := inventory(t, c)
	// T32: an absolute time on the wire, not the zone of whoever asks, and rounded down.
	since := time.Date(2026, 1, 2, 6, 4, 5, 999e6, time.FixedZone("", 3*60*60))
	var got []string
	for cursor := ""; ; {
		page, err := tickets.List(t.Context(), r, c.caller, since, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Version != day.UTC().Format(time.RFC3339) || !strings.HasPrefix(e.ID, e.Project+"#") {
				t.Errorf("entry %+v", e)
			}
			got = append(got, e.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, q := range f.asked() {
		if strings.Contains(q, "/issues?") && (!strings.Contains(q, "state=all") || !strings.Contains(q, "since=2026-01-02T03%3A04%3A05Z")) {
			t.Errorf("asked %s", q)
		}
	}
	if _, err := tickets.List(t.Context(), r, c.caller, time.Time{}, "1 0 0 - other/repo"); connector.CodeOf(err) != connector.CodeCursorInvalid {
		t.Errorf("a position in a repository outside of the grant: %v", err)
	}
}

// inventory is the listing behind a mirror, for one client.
func inventory(t *testing.T, c *client) *connector.Runtime {
	t.Helper()
	profile := transport.Loopback("gitea", c.f.URL)
	profile.Limits.Rate = 1000
	tr, err := transport.New(transport.Config{Profiles: transport.Static{"gitea": profile}, Credentials: c.host.Credentials})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	lister, ok := tickets.NewInventory(gitea.Driver{})
	if !ok {
		t.Fatal("Gitea can't be swept")
	}
	r, err := connector.New(connector.Config{Connectors: []connector.Connector{lister}, Policy: host.Local{}, Consent: host.Local{},
		Connections: c.host.Credentials, Transport: tr, Auditor: c.host.Audit})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// D3: a sweep of a server that repeats a page fails, so it neither runs for ever
// nor passes for one that saw everything.
// Guarantee: HOO5
func TestSweepOfAPageThatRepeats(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a")
	for range 5 {
		f.add("ana/a", nil)
	}
	f.change(func() {
		f.pageSize = 2
		f.before = func(_ http.ResponseWriter, q *http.Request) bool { alwaysFirst(q); return false }
	})
	c := connect(t, f)
	r := inventory(t, c)
	page, err := tickets.List(t.Context(), r, c.caller, time.Time{}, "")
	if err != nil || len(page.Entries) != 2 || page.Next == "" {
		t.Fatalf("first page %+v, %v", page, err)
	}
	if page, err = tickets.List(t.Context(), r, c.caller, time.Time{}, page.Next); connector.CodeOf(err) != connector.CodeProviderContract {
		t.Errorf("the same page again: %+v, %v", page, err)
	}
}
