package gitea

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// Login is the person at the browser: it signs in, opens authorizeURL, allows or refuses
// what the page asks, and returns where the server then sends the browser, which is the
// client's redirect URI with code or error and state. It does not follow that redirect.
//
// client carries the requests and may be nil. Its cookie jar is used if it has one, so a
// second Login with the same client is the same browser; without one, each Login is a new
// browser.
//
// Gitea skips the question for a confidential client that was granted something before;
// then allow has no say. An address that Gitea answers with an error page, because the
// client or its redirect URI is unknown, is an error.
func Login(ctx context.Context, client *http.Client, authorizeURL, login, password string, allow bool) (*url.URL, error) {
	target, err := url.Parse(authorizeURL)
	if err != nil || target.Host == "" {
		return nil, errors.New("gitea: authorization address is not an absolute URL")
	}
	b, err := newBrowser(client)
	if err != nil {
		return nil, err
	}
	origin := &url.URL{Scheme: target.Scheme, Host: target.Host}
	if err := b.signIn(ctx, origin.String(), login, password); err != nil {
		return nil, err
	}
	page, err := b.send(ctx, http.MethodGet, authorizeURL, nil)
	if err != nil {
		return nil, err
	}
	if page.status == http.StatusOK {
		form := hiddenFields(page.body)
		if form.Get("client_id") == "" {
			return nil, errors.New("gitea: authorization page asks nothing")
		}
		form.Set("granted", fmt.Sprint(allow))
		page, err = b.send(ctx, http.MethodPost, origin.String()+"/login/oauth/grant", form)
		if err != nil {
			return nil, err
		}
	}
	return page.redirectTo(target.Query().Get("redirect_uri"))
}

// browser is an http.Client that keeps cookies and shows redirects.
type browser struct{ client http.Client }

func newBrowser(client *http.Client) (*browser, error) {
	b := &browser{}
	if client != nil {
		b.client = *client
	}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if b.client.Jar == nil {
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, fmt.Errorf("gitea: %w", err)
		}
		b.client.Jar = jar
	}
	return b, nil
}

func (b *browser) signIn(ctx context.Context, origin, login, password string) error {
	page, err := b.send(ctx, http.MethodPost, origin+"/user/login", url.Values{"user_name": {login}, "password": {password}})
	if err != nil {
		return err
	}
	if page.status != http.StatusSeeOther {
		return fmt.Errorf("gitea: signing in answered %d", page.status)
	}
	return nil
}

type page struct {
	status   int
	location string
	body     string
}

// send posts form if it is not nil. Error texts leave out the address, whose query holds
// state and challenge.
func (b *browser) send(ctx context.Context, method, address string, form url.Values) (page, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return page{}, errors.New("gitea: browser was given a broken address")
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return page{}, fmt.Errorf("gitea: %s %s: %w", method, req.URL.Path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return page{}, fmt.Errorf("gitea: %s %s: %w", method, req.URL.Path, err)
	}
	return page{status: resp.StatusCode, location: resp.Header.Get("Location"), body: string(text)}, nil
}

// redirectTo returns the page's redirect if it leads to the client: same scheme, host and
// path as its redirect URI.
func (p page) redirectTo(redirectURI string) (*url.URL, error) {
	if p.status < 300 || p.status > 399 {
		return nil, fmt.Errorf("gitea: authorization ended with an answer %d instead of a redirect", p.status)
	}
	want, err := url.Parse(redirectURI)
	if err != nil {
		return nil, errors.New("gitea: redirect URI is not a URL")
	}
	got, err := url.Parse(p.location)
	if err != nil {
		return nil, errors.New("gitea: authorization ended with a broken redirect")
	}
	if got.Scheme != want.Scheme || got.Host != want.Host || got.Path != want.Path {
		return nil, errors.New("gitea: authorization ended with a redirect to another place than the client")
	}
	return got, nil
}

var (
	inputTag  = regexp.MustCompile(`<input\s[^>]*>`)
	attribute = regexp.MustCompile(`([a-zA-Z_-]+)="([^"]*)"`)
)

// hiddenFields returns the hidden inputs of the page's form, as a browser would send them.
func hiddenFields(body string) url.Values {
	fields := url.Values{}
	for _, tag := range inputTag.FindAllString(body, -1) {
		attributes := map[string]string{}
		for _, m := range attribute.FindAllStringSubmatch(tag, -1) {
			attributes[m[1]] = html.UnescapeString(m[2])
		}
		if attributes["type"] == "hidden" && attributes["name"] != "" {
			fields.Add(attributes["name"], attributes["value"])
		}
	}
	return fields
}
