package edge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// Introspection asks the authorization server about each token (RFC 7662). It keeps
// no answers: a token that was revoked is refused at once.
type Introspection struct {
	Claims
	Issuer           string // what identities are said to come from; an answer may not name another
	URL              string // https, or http on a loopback address
	ClientID, Secret string // ours, for HTTP basic authentication
	Client           *http.Client
	Now              func() time.Time
}

// NewIntrospection checks the configuration.
func NewIntrospection(i Introspection) (*Introspection, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(i.URL)
	if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, errors.New("edge: introspection must be https, or http on a loopback address")
	}
	if i.Issuer == "" || i.ClientID == "" {
		return nil, errors.New("edge: introspection needs the issuer and our client")
	}
	if i.Client == nil {
		i.Client = plainClient()
	}
	if i.Now == nil {
		i.Now = time.Now
	}
	return &i, nil
}

// Verify asks. What can't be understood is no permission.
func (i *Introspection) Verify(ctx context.Context, token string) (Identity, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.URL, strings.NewReader(url.Values{"token": {token}, "token_type_hint": {"access_token"}}.Encode()))
	if err != nil {
		return Identity{}, errors.New("introspection can't be asked")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(i.ClientID), url.QueryEscape(i.Secret))
	resp, err := i.Client.Do(r)
	if err != nil {
		return Identity{}, errors.New("introspection can't be reached") // the cause may quote the request
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusOK {
		return Identity{}, errors.New("introspection failed")
	}
	var answer struct {
		Active bool   `json:"active"`
		Issuer string `json:"iss"`
	}
	if jsonv2.Unmarshal(raw, &answer) != nil {
		return Identity{}, errors.New("introspection answered something else")
	}
	if !answer.Active || answer.Issuer != "" && answer.Issuer != i.Issuer {
		return Identity{}, ErrToken
	}
	return i.identity(raw, i.Issuer, i.Now())
}
