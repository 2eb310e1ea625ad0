package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
)

// CreateUser makes a user who can sign in at once.
func (s *Server) CreateUser(ctx context.Context, login, password string) error {
	err := s.API(ctx, s.admin.login, http.MethodPost, "/admin/users", map[string]any{
		"username": login, "password": password, "email": login + "@example.test", "must_change_password": false,
	}, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passwords[login] = password
	return nil
}

// CreateRepo makes an empty repository with issues switched on and returns its full name,
// owner/name.
func (s *Server) CreateRepo(ctx context.Context, owner, name string, private bool) (string, error) {
	var repo struct {
		FullName string `json:"full_name"`
	}
	err := s.API(ctx, owner, http.MethodPost, "/user/repos", map[string]any{"name": name, "private": private}, &repo)
	return repo.FullName, err
}

// CreateLabel makes a label of a repository (owner/name) and returns its id.
func (s *Server) CreateLabel(ctx context.Context, repo, name string) (int64, error) {
	var label struct{ ID int64 }
	err := s.API(ctx, s.admin.login, http.MethodPost, "/repos/"+repo+"/labels", map[string]any{"name": name, "color": "#00aabb"}, &label)
	return label.ID, err
}

// AddCollaborator lets a user into a repository (owner/name) with permission read, write
// or admin.
func (s *Server) AddCollaborator(ctx context.Context, repo, login, permission string) error {
	return s.API(ctx, s.admin.login, http.MethodPut, "/repos/"+repo+"/collaborators/"+login, map[string]any{"permission": permission}, nil)
}

// RemoveCollaborator undoes AddCollaborator.
func (s *Server) RemoveCollaborator(ctx context.Context, repo, login string) error {
	return s.API(ctx, s.admin.login, http.MethodDelete, "/repos/"+repo+"/collaborators/"+login, nil, nil)
}

// An OAuthApp is an OAuth client registration.
type OAuthApp struct {
	ID           int64
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"` // made for public clients too, which need none
}

// CreateOAuthApp registers an OAuth client that belongs to a user. A public client
// (confidential false) must use PKCE.
func (s *Server) CreateOAuthApp(ctx context.Context, login, name string, redirectURIs []string, confidential bool) (OAuthApp, error) {
	var app OAuthApp
	err := s.API(ctx, login, http.MethodPost, "/user/applications/oauth2", map[string]any{
		"name": name, "redirect_uris": redirectURIs, "confidential_client": confidential,
	}, &app)
	if err == nil && (app.ClientID == "" || app.ClientSecret == "") {
		err = errors.New("gitea: the application has no client id or secret")
	}
	return app, err
}

// CreateWebhook makes a webhook of a repository (owner/name) that sends JSON to target,
// signed with secret, for the named events ("issues", "issue_comment", ...), and returns
// its id. Gitea sends an empty signature when secret is empty.
func (s *Server) CreateWebhook(ctx context.Context, repo, target, secret string, events ...string) (int64, error) {
	var hook struct{ ID int64 }
	err := s.API(ctx, s.admin.login, http.MethodPost, "/repos/"+repo+"/hooks", map[string]any{
		"type": "gitea", "active": true, "events": events,
		"config": map[string]string{"url": target, "content_type": "json", "secret": secret},
	}, &hook)
	return hook.ID, err
}

// RevokeGrants is the user who takes back what was granted to an application: its access
// and refresh tokens are dead afterwards. Gitea has no API for it, so this signs in and
// uses the settings page.
func (s *Server) RevokeGrants(ctx context.Context, login string, app OAuthApp) error {
	password, ok := s.password(login)
	if !ok {
		return errors.New("gitea: no such user was made here")
	}
	b, err := newBrowser(s.client)
	if err != nil {
		return err
	}
	if err := b.signIn(ctx, s.URL, login, password); err != nil {
		return err
	}
	list := s.URL + "/user/settings/applications"
	page, err := b.send(ctx, http.MethodGet, list, nil)
	if err != nil {
		return err
	}
	grants := revokeLink(app.ID).FindAllStringSubmatch(page.body, -1)
	if len(grants) == 0 {
		return errors.New("gitea: this user granted nothing to the application")
	}
	for _, grant := range grants {
		answer, err := b.send(ctx, http.MethodPost, list+grant[1], url.Values{})
		if err != nil {
			return err
		}
		if answer.status != http.StatusOK {
			return fmt.Errorf("gitea: revoking a grant answered %d", answer.status)
		}
	}
	return nil
}

func revokeLink(app int64) *regexp.Regexp {
	return regexp.MustCompile(fmt.Sprintf(`"/user/settings/applications(/oauth2/%d/revoke/[0-9]+)"`, app))
}
