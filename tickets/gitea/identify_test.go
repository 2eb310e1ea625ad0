package gitea_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// The account is read from Gitea, and the repositories page by page, however
// small an administrator has made the pages.
// Guarantee: TIX7
func TestIdentifyReadsEveryPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := newClient(t, f)
	for _, c := range []struct{ repos, pageSize, want, asked int }{
		{0, 50, 0, 1}, {1, 50, 1, 2}, {50, 50, 50, 2}, {120, 50, 120, 4}, {9, 2, 9, 6},
	} {
		var repos []string
		for n := range c.repos {
			repos = append(repos, fmt.Sprintf("ana/r%04d", n))
		}
		f.change(func() { f.repos, f.pageSize = repos, c.pageSize })
		f.asked()
		if err := one.trySignIn(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one.conn.Resources, repos) || len(one.conn.Notes) != 0 {
			t.Errorf("%d repositories in pages of %d: connected with %d, notes %v", c.repos, c.pageSize, len(one.conn.Resources), one.conn.Notes)
		}
		want := connector.Account{Issuer: f.URL, Subject: "2", Login: "ana", Organisation: "Gitea"}
		if diff := cmp.Diff(want, one.conn.Account); diff != "" {
			t.Errorf("account (-want +got):\n%s", diff)
		}
		asked := 0
		for _, r := range f.asked() {
			if strings.HasPrefix(r, "GET /api/v1/user/repos?") {
				asked++
			}
		}
		if asked != c.asked {
			t.Errorf("%d repositories in pages of %d: %d requests, want %d", c.repos, c.pageSize, asked, c.asked)
		}
	}
}

// More than is taken is said, not hidden.
func TestIdentifyStopsAtAThousand(t *testing.T) {
	t.Parallel()
	var repos []string
	for n := range 1100 {
		repos = append(repos, fmt.Sprintf("ana/r%04d", n))
	}
	c := connect(t, newFixture(t, repos...))
	if len(c.conn.Resources) != 1000 || len(c.conn.Notes) != 1 || !strings.Contains(c.conn.Notes[0], "first 1000") {
		t.Errorf("%d repositories, notes %v", len(c.conn.Resources), c.conn.Notes)
	}
}

// Gitea's scopes fail open; a door that opens although it was not asked for is
// noted, one that can't be tried is no yes.
// Guarantee: TIX7
func TestIdentifyNoticesWidenedScopes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ana/a")
	f.open = true
	c := connect(t, f)
	if len(c.conn.Notes) != 1 || !strings.Contains(c.conn.Notes[0], "more than was asked for") {
		t.Errorf("notes %v", c.conn.Notes)
	}
	f.change(func() { f.open = false })
	c.signIn()
	if len(c.conn.Notes) != 0 {
		t.Errorf("notes of a narrow token: %v", c.conn.Notes)
	}
	want := []string{"read:issue", "read:repository", "read:user", "write:issue"}
	if got := slices.Sorted(slices.Values(c.conn.Scopes)); !slices.Equal(got, want) {
		t.Errorf("scopes %v", got)
	}

	// T17, T22, T35: answers that say nothing connect nobody.
	for name, bad := range map[string]struct {
		path, body string
		status     int
	}{
		"the probe is failing":     {"/api/v1/notifications/new", `{}`, 404},
		"an account without an id": {"/api/v1/user", `{"login":"ana"}`, 200},
		"an error with 200":        {"/api/v1/user", `{"message":"busy"}`, 200},
		"an account refused":       {"/api/v1/user", `{"message":"x"}`, 401},
		"repositories refused":     {"/api/v1/user/repos", `{"message":"x"}`, 403},
		"a page for repositories":  {"/api/v1/user/repos", `<html>`, 200},
	} {
		f.change(func() {
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != bad.path {
					return false
				}
				w.WriteHeader(bad.status)
				w.Write([]byte(bad.body))
				return true
			}
		})
		if err := c.trySignIn(); err == nil {
			t.Errorf("%s: connected", name)
		}
	}
}
