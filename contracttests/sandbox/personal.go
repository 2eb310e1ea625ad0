package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// PersonalToken is a bearer token of an account that reads and writes tickets, as its
// owner would make one there.
func (s *Server) PersonalToken(ctx context.Context, login string) (string, error) {
	const id, secret = "personal-tokens", "of-the-organisation"
	if err := s.RegisterClient(Client{ID: id, Secret: secret, Account: login}); err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"tickets:read tickets:write profile:read"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(id, secret)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var out struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
		return "", errors.Join(errors.New("sandbox: no personal token was made"), err)
	}
	return out.Token, nil
}
