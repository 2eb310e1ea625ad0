package kit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/tickets"
	giteadriver "github.com/drawbridge-dev/drawbridge/tickets/gitea"
)

// The same kit against a ticket system that nobody here wrote.
// Guarantee: TST1, TIX7
func TestGiteaTicketDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Gitea and waits for its settle time")
	}
	s := kit.Tickets(tickets.New(giteadriver.Driver{}), giteaHarness{gitea.ForTest(t, gitea.Config{})})
	r := kit.Run(t, s)
	for _, o := range r.Checks {
		if o.Result == kit.NotClaimed {
			t.Logf("%s not claimed: %s", o.ID, o.Why)
		}
	}
	fmt.Printf("figure: contract gitea  %d passed  %d not claimed  %.1f s\n", r.Count(kit.Passed), r.Count(kit.NotClaimed), r.Seconds)
}

// giteaHarness puts a new pair of people into a server that is already up.
type giteaHarness struct{ *gitea.Server }

var giteaLogins = map[kit.Person]string{kit.Owner: "ana", kit.Stranger: "ben"}

const giteaPassword = "correct-horse-9"

func (h giteaHarness) Start(ctx context.Context, _ string, _ int64) (kit.Provider, error) {
	p := &giteaProvider{Server: h.Server, granted: map[kit.Person]string{}}
	for _, login := range giteaLogins {
		if err := p.CreateUser(ctx, login, giteaPassword); err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"desk", "other"} {
		var err error
		if p.repos[i], err = p.CreateRepo(ctx, giteaLogins[kit.Owner], name, true); err != nil {
			return nil, err
		}
	}
	// A list of nothing must be empty, not absent.
	if _, err := p.CreateRepo(ctx, giteaLogins[kit.Stranger], "own", true); err != nil {
		return nil, err
	}
	var running struct {
		Version string `json:"version"`
	}
	if err := p.API(ctx, giteaLogins[kit.Owner], "GET", "/version", nil, &running); err != nil {
		return nil, err
	}
	p.version = running.Version
	var err error
	p.app, err = p.CreateOAuthApp(ctx, giteaLogins[kit.Owner], "contract", []string{kit.RedirectURI}, false)
	return p, err
}

type giteaProvider struct {
	*gitea.Server
	version string
	repos   [2]string
	app     gitea.OAuthApp
	granted map[kit.Person]string
}

// Close leaves the server to the test that started it.
func (*giteaProvider) Close() error { return nil }

func (p *giteaProvider) Facts() kit.Facts {
	return kit.Facts{Name: "Gitea", Version: p.version, Evidence: kit.RealSystem, URL: p.URL, Containers: p.repos,
		SignIn: credentials.Provider{Issuer: p.URL, AuthorizationURL: p.URL + "/login/oauth/authorize",
			TokenURL: p.URL + "/login/oauth/access_token", ClientID: p.app.ClientID, Method: credentials.AuthNone}}
}

func (p *giteaProvider) Connect(ctx context.Context, s *credentials.Service, caller connector.Caller, who kit.Person, w kit.Wish) (connector.Connection, error) {
	// Gitea keeps one set of scopes for each person and application, and refuses
	// any other until the grant is taken back.
	scopes := strings.Join(w.Scopes, " ")
	if was, ok := p.granted[who]; ok && was != scopes {
		if err := p.RevokeGrants(ctx, giteaLogins[who], p.app); err != nil {
			return connector.Connection{}, err
		}
	}
	p.granted[who] = scopes
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return kit.SignIn(ctx, s, caller, w, func(ctx context.Context, authorizeURL string) (*url.URL, error) {
		return gitea.Login(ctx, client, authorizeURL, giteaLogins[who], giteaPassword, true)
	})
}

// Seed returns when the keyword search, which lags, has the issue.
func (p *giteaProvider) Seed(ctx context.Context, o kit.Object) (string, error) {
	made, err := p.CreateIssue(ctx, giteaLogins[kit.Owner], o.Container, gitea.NewIssue{Title: o.Title, Body: o.Body})
	if err != nil {
		return "", err
	}
	word, _, _ := strings.Cut(o.Title, " ")
	all, err := p.ListIssues(ctx, o.Container)
	if err != nil {
		return "", err
	}
	want := 0
	for _, i := range all {
		if strings.Contains(i.Title, word) {
			want++
		}
	}
	for {
		var found []struct{}
		if err := p.API(ctx, giteaLogins[kit.Owner], "GET", "/repos/"+o.Container+"/issues?state=all&type=issues&limit=50&q="+url.QueryEscape(word), nil, &found); err != nil {
			return "", err
		}
		if len(found) == want {
			return o.Container + "#" + strconv.FormatInt(made.Number, 10), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the index never had it: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *giteaProvider) Count(ctx context.Context, marker string) (n int, err error) {
	for _, repo := range p.repos {
		all, err := p.ListIssues(ctx, repo)
		if err != nil {
			return 0, err
		}
		for _, i := range all {
			if strings.Contains(i.Title, marker) {
				n++
			}
		}
	}
	return n, nil
}

func (p *giteaProvider) Retitle(ctx context.Context, id, title string) error {
	repo, number, ok := strings.Cut(id, "#")
	if !ok {
		return errors.New("not an id of this provider")
	}
	return p.API(ctx, giteaLogins[kit.Owner], "PATCH", "/repos/"+repo+"/issues/"+number, map[string]string{"title": title}, nil)
}
