package kit

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// ErrNoOrganisation says that the environment names no organisation to test with.
var ErrNoOrganisation = errors.New("the environment names no organisation")

// ErrNoPerson is what Connect of a Provider returns for a person who has no account
// there. Checks that need the person are not claimed then.
var ErrNoPerson = errors.New("the provider has no account for this person")

// Books are a team's own organisation, seen past the connector by the API of its
// provider: the only part of such a harness that has to be written. Seed returns
// when reads and lists show the object; Count counts in both containers, and fails
// rather than return less.
type Books interface {
	Seed(ctx context.Context, api API, o Object) (id string, err error)
	Count(ctx context.Context, api API, marker string) (int, error)
}

// An API asks the provider directly with the owner's credential.
type API struct {
	client *http.Client
	facts  Facts
	token  string
}

// FromEnv is the harness for an organisation of the team's own, for tests alone:
// the checks make objects in it, and only the team can clear them away. Nothing is
// read but these variables, and without PREFIX_URL it is ErrNoOrganisation, on
// which a test skips:
//
//	PREFIX_URL             where the API is, https and the path that all requests begin with
//	PREFIX_TOKEN           a static key or token of the owner
//	PREFIX_STRANGER_TOKEN  of somebody who sees nothing of the owner's; empty: not claimed
//	PREFIX_HEADER          where the key goes, empty: Authorization
//	PREFIX_SCHEME          what stands before it, empty: Bearer (with PREFIX_HEADER: nothing)
//	PREFIX_TOKEN_URL, PREFIX_CLIENT_ID, PREFIX_CLIENT_SECRET
//	                       OAuth client credentials for the connector; PREFIX_TOKEN
//	                       is then for Books alone
//	PREFIX_CONTAINERS      two of them, with a comma between; empty: none
//	PREFIX_NAME, PREFIX_VERSION
//	                       what the report calls the provider and its API
//	PREFIX_ROOTS           file of PEM certificates, empty: the system's
//
// The evidence of the report is a real system.
func FromEnv(prefix string, books Books) (Harness, error) {
	get := func(name string) string { return os.Getenv(prefix + "_" + name) }
	o := &organisation{books: books, facts: Facts{Name: get("NAME"), Version: get("VERSION"), Evidence: RealSystem, URL: strings.TrimSuffix(get("URL"), "/")}}
	if o.facts.URL == "" {
		return nil, fmt.Errorf("%w: %s_URL is empty", ErrNoOrganisation, prefix)
	}
	if o.facts.Name == "" {
		o.facts.Name = strings.ToLower(prefix)
	}
	if both := get("CONTAINERS"); both != "" {
		first, second, ok := strings.Cut(both, ",")
		if !ok || first == "" || second == "" || strings.Contains(second, ",") {
			return nil, fmt.Errorf("%s_CONTAINERS names two, with a comma between", prefix)
		}
		o.facts.Containers = [2]string{strings.TrimSpace(first), strings.TrimSpace(second)}
	}
	if file := get("ROOTS"); file != "" {
		var err error
		if o.facts.Roots, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	o.tokens = map[Person]string{Owner: get("TOKEN"), Stranger: get("STRANGER_TOKEN")}
	if o.tokens[Owner] == "" {
		return nil, fmt.Errorf("%s_TOKEN is empty", prefix)
	}
	o.facts.SignIn = credentials.Provider{Kind: credentials.KindStatic, Header: get("HEADER")}
	if scheme := get("SCHEME"); scheme != "" {
		o.facts.SignIn.Prefix = scheme + " "
	}
	if id := get("CLIENT_ID"); id != "" {
		o.facts.SignIn = credentials.Provider{Kind: credentials.KindClientCredentials, TokenURL: get("TOKEN_URL"), ClientID: id,
			ClientSecret: credentials.NewSecret(get("CLIENT_SECRET")), Method: credentials.AuthPost}
	}
	return o, nil
}

type organisation struct {
	facts  Facts
	books  Books
	tokens map[Person]string
}

// Start reaches nothing: the organisation is there.
func (o *organisation) Start(context.Context, string, int64) (Provider, error) {
	client, err := clientTrusting(o.facts.Roots)
	if err != nil {
		return nil, err
	}
	return &organisationProvider{o, API{client, o.facts, o.tokens[Owner]}}, nil
}

type organisationProvider struct {
	*organisation
	api API
}

func (p *organisationProvider) Facts() Facts { return p.facts }

func (p *organisationProvider) Connect(ctx context.Context, s *credentials.Service, c connector.Caller, who Person, w Wish) (connector.Connection, error) {
	if p.facts.SignIn.Kind == credentials.KindClientCredentials {
		if who != Owner {
			return connector.Connection{}, ErrNoPerson
		}
		return WithKey(ctx, s, c, w, credentials.Secret{})
	}
	if p.tokens[who] == "" {
		return connector.Connection{}, ErrNoPerson
	}
	return WithKey(ctx, s, c, w, credentials.NewSecret(p.tokens[who]))
}

func (p *organisationProvider) Seed(ctx context.Context, o Object) (string, error) {
	return p.books.Seed(ctx, p.api, o)
}

func (p *organisationProvider) Count(ctx context.Context, marker string) (int, error) {
	return p.books.Count(ctx, p.api, marker)
}

func (p *organisationProvider) Close() error {
	p.api.client.CloseIdleConnections()
	return nil
}

// Do sends one request, with in as JSON unless it is nil, and reads a 2xx answer
// into out. path begins with a slash and is below the API's URL. It follows no
// redirect, because the credential would go along.
func (a API) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.facts.URL+path, body)
	if err != nil {
		return errors.New("the path makes no URL")
	}
	header, value := a.facts.SignIn.Header, a.facts.SignIn.Prefix+a.token
	if header == "" {
		header = "Authorization"
		if a.facts.SignIn.Prefix == "" {
			value = "Bearer " + a.token
		}
	}
	r.Header.Set(header, value)
	r.Header.Set("Accept", "application/json")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return fmt.Errorf("%s of the provider's own API: %w", method, withoutURL(err))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return fmt.Errorf("%s of the provider's own API: status %d", method, resp.StatusCode)
	case out == nil:
		return nil
	}
	return json.Unmarshal(raw, out)
}

func clientTrusting(roots []byte) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(roots) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(roots) {
			return nil, errors.New("the roots are no PEM certificates")
		}
	}
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// withoutURL is the cause alone: the query of a URL may be nobody's business.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
