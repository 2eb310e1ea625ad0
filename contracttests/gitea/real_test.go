package gitea_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/google/go-cmp/cmp"
)

// The whole way of a connector with nothing of ours in it: sign in, consent, exchange,
// create, look into the provider's ledger, be cut off.
func TestRealServer(t *testing.T) {
	o := newOrg(t)
	const scope = "read:user read:repository write:issue"
	first := o.connect(t, scope)

	t.Run("people who refuse, mistype or come from nowhere", func(t *testing.T) {
		u, _, err := o.authorize(t, scope, ana, anaPassword, false)
		if err != nil || u.Query().Get("error") != "access_denied" || u.Query().Get("state") != "s t/a&te" {
			t.Errorf("refusal ended at %v, %v", u, err)
		}
		if _, _, err := o.authorize(t, scope, ana, "wrong", true); err == nil {
			t.Error("a wrong password signed in")
		}
		unknown := *o
		unknown.app.ClientID = "nobody"
		if _, _, err := unknown.authorize(t, scope, ana, anaPassword, true); err == nil {
			t.Error("an unknown client was sent a code")
		}
	})

	t.Run("the token is the person's, within its scopes", func(t *testing.T) {
		if status, body := o.bearer(t, first.Access, "GET", "/user", ""); status != 200 || !strings.Contains(body, `"login":"ana"`) {
			t.Errorf("GET /user: %d %s", status, body)
		}
		if status, body := o.bearer(t, first.Access, "PATCH", "/repos/"+o.repo, `{"description":"x"}`); status != 403 || !strings.Contains(body, "write:repository") {
			t.Errorf("PATCH without its scope: %d %s", status, body)
		}
	})

	t.Run("what is created is in the ledger", func(t *testing.T) {
		label, err := o.CreateLabel(t.Context(), o.repo, "bug")
		check(t, err)
		status, body := o.bearer(t, first.Access, "POST", "/repos/"+o.repo+"/issues",
			fmt.Sprintf(`{"title":"printer on fire","body":"line\r\nline","labels":[%d],"assignees":["ana"]}`, label))
		if status != 201 {
			t.Fatalf("create: %d %s", status, body)
		}
		all, err := o.ListIssues(t.Context(), o.repo)
		check(t, err)
		if len(all) != 1 {
			t.Fatalf("ledger holds %d issues, want 1", len(all))
		}
		got := all[0]
		if got.ID == 0 || got.CreatedAt.IsZero() || got.UpdatedAt.IsZero() || got.URL != o.URL+"/"+o.repo+"/issues/1" {
			t.Errorf("ledger has %+v", got)
		}
		want := gitea.Issue{
			ID: got.ID, Number: 1, Title: "printer on fire", Body: "line\r\nline", State: "open", Author: ana,
			Labels: []string{"bug"}, Assignees: []string{ana}, URL: got.URL, CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ledger (-want +got):\n%s", diff)
		}
	})

	t.Run("access lists hold, and T13 labels of strangers are dropped", func(t *testing.T) {
		ctx := t.Context()
		var refused *gitea.StatusError
		if _, err := o.CreateIssue(ctx, ben, o.repo, gitea.NewIssue{Title: "x"}); !errors.As(err, &refused) || refused.Status != 404 {
			t.Errorf("a stranger's create: %v", err)
		}
		check(t, o.AddCollaborator(ctx, o.repo, ben, "read"))
		made, err := o.CreateIssue(ctx, ben, o.repo, gitea.NewIssue{Title: "x", Labels: []int64{1}})
		check(t, err)
		if made.Author != ben || made.Labels != nil {
			t.Errorf("made %+v, want ben's without labels", made)
		}
		check(t, o.RemoveCollaborator(ctx, o.repo, ben))
		if err := o.API(ctx, ben, "GET", "/repos/"+o.repo, nil, nil); !errors.As(err, &refused) || refused.Status != 404 {
			t.Errorf("after removal: %v", err)
		}
	})

	t.Run("the ledger turns every page and sees closed issues", func(t *testing.T) {
		ctx := t.Context()
		repo, err := o.CreateRepo(ctx, ana, "many", true)
		check(t, err)
		for i := range 51 {
			_, err := o.CreateIssue(ctx, ana, repo, gitea.NewIssue{Title: fmt.Sprint("n", i)})
			check(t, err)
		}
		check(t, o.API(ctx, ana, "PATCH", "/repos/"+repo+"/issues/7", map[string]any{"state": "closed"}, nil))
		all, err := o.ListIssues(ctx, repo)
		check(t, err)
		if len(all) != 51 || all[0].Title != "n50" || all[50].Title != "n0" || all[44].State != "closed" {
			t.Errorf("ledger holds %d issues", len(all))
		}
	})

	t.Run("a webhook is signed over the bytes that arrive", func(t *testing.T) {
		type delivery struct {
			header http.Header
			body   []byte
		}
		got := make(chan delivery, 1)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got <- delivery{r.Header, b}
		}))
		defer receiver.Close()
		_, err := o.CreateWebhook(t.Context(), o.repo, receiver.URL, "hook secret", "issues")
		check(t, err)
		_, err = o.CreateIssue(t.Context(), ana, o.repo, gitea.NewIssue{Title: "tell me"})
		check(t, err)
		d := <-got
		mac := hmac.New(sha256.New, []byte("hook secret"))
		mac.Write(d.body)
		if want := hex.EncodeToString(mac.Sum(nil)); d.header.Get("X-Gitea-Signature") != want || d.header.Get("X-Hub-Signature-256") != "sha256="+want {
			t.Errorf("signature headers %v", d.header)
		}
		if d.header.Get("X-Gitea-Event") != "issues" || d.header.Get("X-Gitea-Delivery") == "" {
			t.Errorf("headers %v", d.header)
		}
	})

	t.Run("a refresh token works once", func(t *testing.T) {
		form := func() url.Values {
			return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first.Refresh}}
		}
		status, second := o.token(t, form())
		if status != 200 || second.Refresh == "" || second.Refresh == first.Refresh {
			t.Fatalf("refresh: %d %s", status, second.Error)
		}
		if status, again := o.token(t, form()); status != 400 || again.Error != "unauthorized_client" {
			t.Errorf("second use: %d %s", status, again.Error)
		}
		if status, _ := o.bearer(t, second.Access, "GET", "/user", ""); status != 200 {
			t.Errorf("new access token: %d", status)
		}
	})

	t.Run("revoked grants are dead at once", func(t *testing.T) {
		check(t, o.RevokeGrants(t.Context(), ana, o.app))
		if status, _ := o.bearer(t, first.Access, "GET", "/user", ""); status != 401 {
			t.Errorf("access token after revocation: %d", status)
		}
		if err := o.RevokeGrants(t.Context(), ana, o.app); err == nil {
			t.Error("revoked a grant that is gone")
		}
	})

	t.Run("nothing is left behind", func(t *testing.T) {
		check(t, o.Close())
		if left := processesOf(t, o.Dir); len(left) > 0 {
			t.Errorf("still running: %q", left)
		}
		if _, err := os.Stat(o.Log); err != nil {
			t.Errorf("the log is gone: %v", err)
		}
	})
}

// processesOf returns the command lines of processes that name the folder or run in it.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	check(t, err)
	var found []string
	for _, p := range all {
		line, _ := os.ReadFile(p + "/cmdline") // a process may end meanwhile
		cwd, _ := os.Readlink(p + "/cwd")
		if bytes.Contains(line, []byte(dir)) || strings.HasPrefix(cwd, dir) {
			found = append(found, string(line))
		}
	}
	return found
}

// T02 against a system that keeps its own books: the answer is lost, the ticket is there.
func TestFaultProxyInFront(t *testing.T) {
	o := newOrg(t)
	ctx := t.Context()
	p, err := fault.Start(ctx, o.URL)
	check(t, err)
	t.Cleanup(func() { check(t, p.Close()) })
	o.base = p.URL() // consent and tokens go through the proxy too
	token := o.connect(t, "write:issue").Access

	p.Next(fault.Rule{Method: "POST", Path: "/api/v1/repos/", Action: fault.LoseAnswer})
	req, err := http.NewRequestWithContext(ctx, "POST", p.URL()+"/api/v1/repos/"+o.repo+"/issues", strings.NewReader(`{"title":"lost"}`))
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if resp, err := o.client.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("got %d, want no answer", resp.StatusCode)
	}
	seen := p.Seen()
	if e := seen[len(seen)-1]; e.Action != fault.LoseAnswer || !cmp.Equal(e.Upstream, []int{201}) || e.Status != 0 {
		t.Errorf("recorded %v", e)
	}
	all, err := o.ListIssues(ctx, o.repo)
	check(t, err)
	if len(all) != 1 || all[0].Title != "lost" {
		t.Errorf("ledger holds %+v, want the one whose answer was lost", all)
	}
}

func TestShortLivesAndReusableRefreshTokens(t *testing.T) {
	s := gitea.ForTest(t, gitea.Config{AccessTokenLife: time.Second, ReuseRefreshTokens: true})
	o := seed(t, s)
	token := o.connect(t, "read:user")
	if token.Expires != 1 {
		t.Errorf("expires_in = %d, want 1", token.Expires)
	}
	for {
		status, body := o.bearer(t, token.Access, "GET", "/user", "")
		if status == 401 {
			break
		}
		if status != 200 {
			t.Fatalf("GET /user: %d %s", status, body)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for range 2 {
		if status, again := o.token(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.Refresh}}); status != 200 {
			t.Errorf("refresh: %d %s", status, again.Error)
		}
	}
}
