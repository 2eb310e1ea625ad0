package gitea_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// following is the whole product over a Gitea that posts events to it. Ana owns the
// repositories, and the connection is ben's, whom she lets in.
type following struct {
	*gitea.Server
	t      *testing.T
	h      *host.Host
	conn   connector.Connection
	events *httptest.Server
	added  webhooks.Added
	ids    []string // of all issues that ever were
}

var benCaller = connector.Caller{Tenant: "acme", Principal: "ben"}

func follow(t *testing.T, repos ...string) *following {
	t.Helper()
	f := &following{Server: gitea.ForTest(t, gitea.Config{}), t: t}
	ctx := t.Context()
	check(t, f.CreateUser(ctx, ana, anaPassword))
	check(t, f.CreateUser(ctx, ben, benPassword))
	for _, name := range repos {
		repo, err := f.CreateRepo(ctx, ana, name, true)
		check(t, err)
		check(t, f.AddCollaborator(ctx, repo, ben, "write"))
	}
	app, err := f.CreateOAuthApp(ctx, ana, "projection", []string{callback}, false)
	check(t, err)
	f.h, err = host.Open(ctx, host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Instances: []host.Instance{{Name: "gitea", Driver: "gitea", URL: f.URL, ClientID: app.ClientID, Private: host.Loopback(f.URL), Rate: 1000, MaxAge: 86400}}})
	check(t, err)
	t.Cleanup(func() { check(t, f.h.Close()) })
	const browser = "the browser of the projection"
	begun, err := f.h.Credentials.Begin(ctx, benCaller, credentials.BeginRequest{Provider: "gitea", RedirectURI: callback, BrowserKey: browser})
	check(t, err)
	back, err := gitea.Login(ctx, nil, begun.URL, ben, benPassword, true)
	check(t, err)
	f.conn, err = f.h.Credentials.Finish(ctx, benCaller, browser, back.Query(), f.runtime().Identify)
	check(t, err)
	f.added, err = f.h.Webhooks.Add(ctx, webhooks.AddRequest{Tenant: benCaller.Tenant, Provider: "gitea", Connection: f.conn.ID, Scheme: f.h.WebhookScheme("gitea")})
	check(t, err)
	f.events = httptest.NewServer(f.h.Webhooks.Handler())
	t.Cleanup(f.events.Close)
	return f
}

func (f *following) runtime() *connector.Runtime { r, _ := f.h.Runtime("gitea"); return r }

// work applies what events and sweeps announce until stop is called.
func (f *following) work() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var working sync.WaitGroup
	working.Go(func() { f.h.Webhooks.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); working.Wait() })
	f.t.Cleanup(stop)
	return stop
}

// ana changes something at the provider.
func (f *following) ana(method, path string, in any) {
	f.t.Helper()
	check(f.t, f.API(f.t.Context(), ana, method, path, in, nil))
}

func (f *following) create(repo, title string) (id, path string) {
	f.t.Helper()
	made, err := f.CreateIssue(f.t.Context(), ana, repo, gitea.NewIssue{Title: title, Body: "what " + title + " is about"})
	check(f.t, err)
	id = repo + "#" + strconv.FormatInt(made.Number, 10)
	f.ids = append(f.ids, id)
	return id, address(id)
}

func address(id string) string { return "/repos/" + strings.Replace(id, "#", "/issues/", 1) }

// A view is what both sides can be compared by.
type view struct {
	ID, Project, Title, Body, State, Author string
	Labels                                  []string
	Updated                                 time.Time
}

// truth is what Gitea's own API tells ben's password of an issue, now. What has
// moved is not there: the grant names the address that it had.
func (f *following) truth(id string) (view, bool) {
	f.t.Helper()
	var w struct {
		Title, Body, State string
		User               struct{ Login string }
		Labels             []struct{ Name string }
		Updated            time.Time `json:"updated_at"`
	}
	err := f.API(f.t.Context(), ben, "GET", address(id), nil, &w)
	var refused *gitea.StatusError
	if errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMovedPermanently) {
		return view{}, false
	}
	check(f.t, err)
	repo, _, _ := strings.Cut(id, "#")
	v := view{ID: id, Project: repo, Title: w.Title, Body: w.Body, State: w.State, Author: w.User.Login, Updated: w.Updated.UTC()}
	for _, l := range w.Labels {
		v.Labels = append(v.Labels, l.Name)
	}
	return v, true
}

// projected is what the projection has.
func (f *following) projected(id string) (view, bool) {
	f.t.Helper()
	o, _, ok, err := f.h.Mirror.Get(f.t.Context(), f.conn, id, time.Hour)
	check(f.t, err)
	if !ok {
		return view{}, false
	}
	var kept view
	check(f.t, json.Unmarshal(o.Data, &kept))
	kept.Updated = o.UpdatedAt
	if len(kept.Labels) == 0 {
		kept.Labels = nil
	}
	if o.ID != kept.ID || o.Container != kept.Project {
		f.t.Errorf("row %s in %s holds %+v", o.ID, o.Container, kept)
	}
	return kept, true
}

// differences compares every issue that ever was, at Gitea and in the projection.
func (f *following) differences() string {
	f.t.Helper()
	want, got := map[string]view{}, map[string]view{}
	for _, id := range f.ids {
		if v, ok := f.projected(id); ok {
			got[id] = v
		}
		if v, ok := f.truth(id); ok {
			want[id] = v
		}
	}
	return cmp.Diff(want, got)
}

func (f *following) until(what string, done func() (problem string)) {
	f.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		problem := done()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: not after two minutes: %s", what, problem)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *following) stats() webhooks.Stats {
	f.t.Helper()
	s, err := f.h.Webhooks.Stats(f.t.Context())
	check(f.t, err)
	return s
}

// announced makes a change and waits for its deliveries, at least so many, and for a
// projection that equals Gitea.
func (f *following) announced(what string, deliveries int64, change func()) {
	f.t.Helper()
	before := f.stats().Received["stored"]
	change()
	f.until(what, func() string {
		if n := f.stats().Received["stored"] - before; n < deliveries {
			return fmt.Sprintf("%d deliveries came", n)
		}
		return f.differences()
	})
}

// repaired waits until what Poll or Sweep found is applied.
func (f *following) repaired(what string) {
	f.t.Helper()
	f.until(what, f.differences)
}

// buried waits until what is stored of an issue is a tombstone without a text, read around
// the code that reads it.
func (f *following) buried(id string) {
	f.t.Helper()
	f.until("burying "+id, func() string {
		var state int64
		var text bool
		check(f.t, f.h.DB.QueryRowFor(f.t.Context(), store.AllTenants(), `SELECT state, data IS NOT NULL FROM mirror_object WHERE connection = ? AND id = ?`,
			string(f.conn.ID), id).Scan(&state, &text))
		if state < int64(mirror.Gone) || text {
			return fmt.Sprintf("its row has state %d, text %v", state, text)
		}
		return ""
	})
}

// read is tickets.get of somebody who takes old copies.
func (f *following) read(id string) connector.Result {
	f.t.Helper()
	raw, err := json.Marshal(map[string]any{"id": id, "max_age_seconds": 86400})
	check(f.t, err)
	return f.runtime().Execute(f.t.Context(), benCaller, connector.Call{Tool: "tickets.get", Arguments: raw})
}

func (f *following) refuses(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		r := f.read(id)
		if r.Error == nil || len(r.Data) > 0 || r.Provenance != nil && r.Provenance.Source == connector.SourceCopy {
			f.t.Errorf("%s is not readable for ben, and answered %s %+v", id, r.Status, r.Provenance)
		}
	}
}

// The projection of a connection equals what Gitea itself tells the same account, after
// each kind of change, with deliveries as JSON and as forms, with deliveries that are
// lost, and after access was taken away. What is not readable there is served nowhere.
//
// Guarantee: HOO1, HOO4, HOO5, TIX8
// Cases: W07, W17, W37, W38
func TestProjectionFollowsGitea(t *testing.T) {
	f := follow(t, "desk-json", "desk-form", "square", "old-name")
	ctx := t.Context()
	stop := f.work()
	hooks := map[string]string{} // path of the webhook, by repository
	for _, repo := range f.conn.Resources {
		kind := "json"
		if repo == "ana/desk-form" {
			kind = "form"
		}
		var made struct{ ID int64 }
		check(t, f.API(ctx, ana, "POST", "/repos/"+repo+"/hooks", map[string]any{"type": "gitea", "active": true,
			"events": []string{"issues", "issue_comment", "repository"},
			"config": map[string]string{"url": f.events.URL + f.added.Path, "content_type": kind, "secret": f.added.Secret}}, &made))
		hooks[repo] = fmt.Sprintf("/repos/%s/hooks/%d", repo, made.ID)
	}
	if want := []string{"ana/desk-form", "ana/desk-json", "ana/old-name", "ana/square"}; !slices.Equal(slices.Sorted(slices.Values(f.conn.Resources)), want) {
		t.Fatalf("connected to %v", f.conn.Resources)
	}

	for _, repo := range []string{"ana/desk-json", "ana/desk-form"} {
		label, err := f.CreateLabel(ctx, repo, "urgent & new")
		check(t, err)
		var id, path string
		f.announced("create", 1, func() { id, path = f.create(repo, "a & b = 100 %; 🎉 + é") })
		f.announced("edit", 1, func() { f.ana("PATCH", path, map[string]any{"title": "another title", "body": "another text"}) })
		f.announced("close", 1, func() { f.ana("PATCH", path, map[string]any{"state": "closed"}) })
		if v, ok := f.projected(id); !ok || v.State != "closed" || v.Title != "another title" {
			t.Errorf("closed: %+v, %v", v, ok)
		}
		f.announced("reopen", 1, func() { f.ana("PATCH", path, map[string]any{"state": "open"}) })
		f.announced("label", 1, func() { f.ana("POST", path+"/labels", map[string]any{"labels": []int64{label}}) })
		if v, _ := f.projected(id); !slices.Equal(v.Labels, []string{"urgent & new"}) {
			t.Errorf("labelled: %+v", v)
		}
		f.announced("label off", 1, func() { f.ana("DELETE", fmt.Sprintf("%s/labels/%d", path, label), nil) })
		f.announced("comment", 1, func() { f.ana("POST", path+"/comments", map[string]any{"body": "a word"}) })
		f.announced("delete", 1, func() { f.ana("DELETE", path, nil) })
		f.buried(id)
		f.refuses(id)
	}

	// Nothing is told of what happens while the webhooks rest.
	const desk = "ana/desk-json"
	var kept, closed, deleted string
	f.announced("three", 3, func() {
		kept, _ = f.create(desk, "kept")
		closed, _ = f.create(desk, "to be closed")
		deleted, _ = f.create(desk, "to be deleted")
	})
	check(t, f.h.Mirror.Sweep(ctx, f.conn))
	f.repaired("first sweep")
	f.ana("PATCH", hooks[desk], map[string]any{"active": false})
	told := f.stats().Received["stored"]
	f.ana("PATCH", address(kept), map[string]any{"title": "kept under another title"})
	f.ana("PATCH", address(closed), map[string]any{"state": "closed"})
	f.ana("DELETE", address(deleted), nil)
	f.create(desk, "made in silence")
	f.ana("PATCH", hooks[desk], map[string]any{"active": true})
	check(t, f.h.Mirror.Poll(ctx, f.conn))
	f.until("poll", func() string { // which can't see the deletion
		all := f.ids
		defer func() { f.ids = all }()
		f.ids = slices.DeleteFunc(slices.Clone(f.ids), func(id string) bool { return id == deleted })
		return f.differences()
	})
	check(t, f.h.Mirror.Sweep(ctx, f.conn))
	f.repaired("sweep")
	f.buried(deleted)
	f.refuses(deleted)
	if n := f.stats().Received["stored"] - told; n != 0 {
		t.Errorf("%d deliveries came of what was not to be told", n)
	}
	if v, err := f.h.Mirror.Coverage(ctx, f.conn); err != nil || v.State != connector.CopiesComplete || v.Drift == 0 {
		t.Errorf("coverage %+v, %v", v, err)
	}

	// A repository that everybody may read outlives the collaborator; then it does not.
	const square = "ana/square"
	var one, two string
	f.announced("square", 2, func() { one, _ = f.create(square, "one"); two, _ = f.create(square, "two") })
	f.ana("PATCH", "/repos/"+square, map[string]any{"private": false})
	check(t, f.RemoveCollaborator(ctx, square, ben))
	f.announced("public", 1, func() { f.ana("PATCH", address(one), map[string]any{"title": "one for all"}) })
	if _, ok := f.projected(one); !ok {
		t.Error("what everybody may read is lost")
	}
	stop()
	f.ana("PATCH", "/repos/"+square, map[string]any{"private": true})
	f.taken(one, two)
	stop = f.work()
	f.repaired("private")
	f.buried(one)
	f.buried(two)

	// Access is taken away and nothing else happens. What finds out hides first.
	stop()
	check(t, f.RemoveCollaborator(ctx, desk, ben))
	f.taken(f.of(desk)...)
	stop = f.work()
	f.repaired("removed")
	for _, id := range f.of(desk) {
		f.buried(id)
	}
	// It comes back with the right to it, although no issue has changed.
	check(t, f.AddCollaborator(ctx, desk, ben, "read"))
	check(t, f.h.Mirror.Sweep(ctx, f.conn))
	f.repaired("let in again")
	if v, ok := f.projected(kept); !ok || v.Title != "kept under another title" {
		t.Errorf("let in again: %+v, %v", v, ok)
	}

	// A repository under another name is none of the grant, and no event says so.
	var renamed string
	f.announced("old name", 1, func() { renamed, _ = f.create("ana/old-name", "on the move") })
	stop()
	f.ana("PATCH", "/repos/ana/old-name", map[string]any{"name": "new-name"})
	f.taken(renamed)
	stop = f.work()
	f.repaired("renamed")
	f.buried(renamed)
	f.ids = append(f.ids, "ana/new-name#1")
	if _, ok := f.truth("ana/new-name#1"); !ok {
		t.Error("ben can't read it under its new name")
	}
	if _, ok := f.projected("ana/new-name#1"); ok {
		t.Error("it is served under a name that was not granted")
	}
	stop()
}

func (f *following) of(repo string) (ids []string) {
	for _, id := range f.ids {
		if strings.HasPrefix(id, repo+"#") {
			ids = append(ids, id)
		}
	}
	return ids
}

// taken sweeps while nobody applies anything: from then on, and before one of them was
// asked for, none is served.
func (f *following) taken(ids ...string) {
	f.t.Helper()
	check(f.t, f.h.Mirror.Sweep(f.t.Context(), f.conn))
	for _, id := range ids {
		if _, ok := f.truth(id); ok {
			f.t.Errorf("ben can still read %s", id)
		}
		if v, ok := f.projected(id); ok {
			f.t.Errorf("served after a sweep that did not find it: %+v", v)
		}
	}
	f.refuses(ids...)
}
