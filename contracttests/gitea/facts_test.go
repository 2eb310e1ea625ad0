package gitea_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/google/go-cmp/cmp"
)

// What a driver for Gitea leans on or defends against, seen at version 1.26.0. A failure
// here is news about the provider and not a fault of ours: look at the driver first.
func TestFacts(t *testing.T) {
	o := newOrg(t)
	o.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx := t.Context()
	const scope = "read:user read:repository write:issue"
	issues := "/repos/" + o.repo + "/issues"
	token := o.connect(t, scope)

	t.Run("titles are trimmed to nothing and cut at 255, with success", func(t *testing.T) {
		if status, body := o.bearer(t, token.Access, "POST", issues, `{"title":"   "}`); status != 201 || !strings.Contains(body, `"title":""`) {
			t.Errorf("blank: %d %s", status, body)
		}
		status, body := o.bearer(t, token.Access, "POST", issues, `{"title":"`+strings.Repeat("t", 300)+`"}`)
		if status != 201 || !strings.Contains(body, `"title":"`+strings.Repeat("t", 252)+`…"`) {
			t.Errorf("long: %d %s", status, body)
		}
	})

	t.Run("refusals", func(t *testing.T) {
		_, err := o.CreateRepo(ctx, ben, "secret", true)
		check(t, err)
		absent := `{"errors":null,"message":"not found","url":"` + o.URL + `/api/swagger"}`
		for _, tc := range []struct {
			token, method, path, in string
			status                  int
			body                    string // empty: not looked at
		}{
			{token.Access, "POST", issues, `{"body":"x"}`, 422, `{"message":"[Title]: Required","url":"` + o.URL + `/api/swagger"}`},
			{token.Access, "POST", issues, `{"title":"x","assignees":["nobody"]}`, 422, ""},
			{token.Access, "POST", issues, `{"title":"x","invented":true}`, 201, ""},
			{token.Access, "GET", issues + "/4711", "", 404, absent},
			{token.Access, "GET", "/repos/ben/secret/issues/1", "", 404, absent},
			{token.Access, "GET", "/repos/ben/absent/issues/1", "", 404, absent},
			{token.Access, "POST", "/repos/ben/secret/issues", `{"title":"x"}`, 404, absent},
			// T35: an owner who does not exist is told apart from a hidden repository.
			{token.Access, "GET", "/repos/nobody/absent/issues/1", "", 404, `{"errors":["user redirect does not exist [name: nobody]"],"message":"GetUserByName","url":"` + o.URL + `/api/swagger"}`},
			{token.Access, "DELETE", "/repos/" + o.repo, "", 403, `{"message":"token does not have at least one of required scope(s), required=[write:repository], token scope=write:issue,read:repository,read:user","url":"` + o.URL + `/api/swagger"}`},
			{"garbage", "GET", "/user", "", 401, `{"message":"invalid username, password or token","url":"` + o.URL + `/api/swagger"}`},
			{token.Refresh, "GET", "/user", "", 401, ""},
		} {
			status, body := o.bearer(t, tc.token, tc.method, tc.path, tc.in)
			if status != tc.status || (tc.body != "" && strings.TrimSpace(body) != tc.body) {
				t.Errorf("%s %s %s: %d %s", tc.method, tc.path, tc.in, status, body)
			}
		}
	})

	t.Run("the person's repositories include those shared with them, not all that they may read", func(t *testing.T) {
		_, err := o.CreateRepo(ctx, ana, "open", false)
		check(t, err)
		check(t, o.AddCollaborator(ctx, o.repo, ben, "read"))
		defer func() { check(t, o.RemoveCollaborator(ctx, o.repo, ben)) }()
		var repos []struct {
			FullName    string          `json:"full_name"`
			Permissions map[string]bool `json:"permissions"`
		}
		check(t, o.API(ctx, ben, "GET", "/user/repos", nil, &repos))
		got := map[string]map[string]bool{}
		for _, r := range repos {
			got[r.FullName] = r.Permissions
		}
		want := map[string]map[string]bool{
			o.repo:       {"admin": false, "push": false, "pull": true},
			"ben/secret": {"admin": true, "push": true, "pull": true},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("GET /user/repos (-want +got):\n%s", diff)
		}
	})

	t.Run("T11 a label filter that matches no label returns everything", func(t *testing.T) {
		all, err := o.ListIssues(ctx, o.repo)
		check(t, err)
		status, body := o.bearer(t, token.Access, "GET", issues+"?state=all&type=issues&labels=absent", "")
		if n := strings.Count(body, `"content_version"`); status != 200 || n != len(all) || n == 0 {
			t.Errorf("%d with %d of %d issues", status, n, len(all))
		}
	})

	t.Run("pages have a total, links only while there is more than one, and end empty", func(t *testing.T) {
		get := func(query string) (http.Header, string) {
			req, err := http.NewRequestWithContext(ctx, "GET", o.URL+"/api/v1"+issues+query, nil)
			check(t, err)
			req.Header.Set("Authorization", "Bearer "+token.Access)
			resp, err := o.client.Do(req)
			check(t, err)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			check(t, err)
			return resp.Header, strings.TrimSpace(string(b))
		}
		if h, _ := get("?limit=2"); h.Get("X-Total-Count") != "3" || !strings.Contains(h.Get("Link"), `rel="next"`) || strings.Contains(h.Get("Link"), `rel="prev"`) {
			t.Errorf("first page: %v", h)
		}
		if h, _ := get("?limit=2&page=2"); strings.Contains(h.Get("Link"), `rel="next"`) {
			t.Errorf("last page: %v", h)
		}
		if h, body := get("?limit=2&page=9"); body != "[]" || h.Get("X-Total-Count") != "3" || strings.Contains(h.Get("Link"), `rel="next"`) {
			t.Errorf("page behind the end: %v %s", h, body)
		}
		if h, _ := get("?limit=50"); h.Get("Link") != "" || h.Get("X-Total-Count") != "3" {
			t.Errorf("only page: %v", h)
		}
	})

	t.Run("FAIL OPEN an unknown scope is every scope", func(t *testing.T) {
		all := o.withApp(t, "open", true)
		got := all.connect(t, "read:user tickets:invented")
		if status, body := all.bearer(t, got.Access, "PATCH", "/repos/"+o.repo, `{"description":"x"}`); status != 200 {
			t.Errorf("write with no valid write scope: %d %s", status, body)
		}
		if _, body := all.introspect(t, got.Access); !strings.Contains(body, `"scope":"read:user tickets:invented"`) {
			t.Errorf("introspection shows %s", body)
		}
	})

	t.Run("a second grant of a confidential client keeps the old scope, of a public one fails", func(t *testing.T) {
		confidential := o.withApp(t, "confidential", true)
		confidential.connect(t, "read:user")
		wider := confidential.connect(t, "read:user write:repository")
		if status, body := confidential.introspect(t, wider.Access); status != 200 || !strings.Contains(body, `"scope":"read:user",`) {
			t.Errorf("introspection: %d %s", status, body)
		}
		u, _, err := o.authorize(t, "read:user", ana, anaPassword, true)
		if err != nil || u.Query().Get("error") != "server_error" {
			t.Errorf("public client ended at %v, %v", u, err)
		}
	})

	t.Run("introspection answers 401 in plain text for a token that is not one", func(t *testing.T) {
		want := fmt.Sprintf(`"scope":%q,"username":"ana","iss":%q,"sub":"2","aud":[%q]}`, scope, o.URL, o.app.ClientID)
		if status, body := o.introspect(t, token.Access); status != 200 || !strings.HasPrefix(body, `{"active":true,`) || !strings.Contains(body, want) {
			t.Errorf("live token: %d %s, want %s", status, body, want)
		}
		for _, dead := range []string{"garbage", token.Refresh} {
			if status, body := o.introspect(t, dead); status != 401 || body != "Failed to authenticate user" {
				t.Errorf("dead token: %d %s", status, body)
			}
		}
		if status, body := o.introspect(t, ""); status != 200 || body != `{"active":false}` {
			t.Errorf("no token: %d %s", status, body)
		}
	})

	t.Run("refresh tokens: one counter a person and client, and no binding to the client", func(t *testing.T) {
		refresh := func(o *org, token string) (int, tokens) {
			return o.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
		}
		first := o.connect(t, scope)
		second := o.connect(t, scope)
		if status, got := refresh(o, first.Refresh); status != 400 || got.Error != "unauthorized_client" {
			t.Errorf("first connection after a second was made: %d %s", status, got.Error)
		}
		if status, _ := o.bearer(t, first.Access, "GET", "/user", ""); status != 200 {
			t.Errorf("its access token: %d", status)
		}
		other := o.withApp(t, "other", false)
		if status, _ := refresh(other, second.Refresh); status != 200 {
			t.Errorf("another client's refresh: %d", status)
		}
		if status, got := refresh(o, second.Refresh); status != 400 {
			t.Errorf("the rightful client's refresh afterwards: %d %s", status, got.Error)
		}
	})

	t.Run("the keyword search lags behind", func(t *testing.T) {
		_, err := o.CreateIssue(ctx, ana, o.repo, gitea.NewIssue{Title: "searchable zebra"})
		check(t, err)
		empty := 0
		for {
			status, body := o.bearer(t, token.Access, "GET", issues+"?q=zebra&state=all", "")
			if status != 200 {
				t.Fatalf("search: %d %s", status, body)
			}
			if strings.Contains(body, "searchable zebra") {
				break
			}
			empty++
		}
		t.Logf("searches that found nothing after the create had answered: %d", empty)
	})

	t.Run("T16 a moved repository redirects even writes, an archived one locks", func(t *testing.T) {
		check(t, o.API(ctx, ana, "PATCH", "/repos/"+o.repo, map[string]any{"name": "moved"}, nil))
		for _, method := range []string{"GET", "POST"} {
			if status, _ := o.bearer(t, token.Access, method, issues, `{"title":"x"}`); status != 301 {
				t.Errorf("%s to the old name: %d", method, status)
			}
		}
		check(t, o.API(ctx, ana, "PATCH", "/repos/ana/moved", map[string]any{"archived": true}, nil))
		if status, body := o.bearer(t, token.Access, "POST", "/repos/ana/moved/issues", `{"title":"x"}`); status != 423 || !strings.Contains(body, "ana/moved is archived") {
			t.Errorf("archived: %d %s", status, body)
		}
	})
}
