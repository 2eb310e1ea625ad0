package sandbox

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

var (
	formPart   = regexp.MustCompile(`<form method="post" action="(login|consent)" data-form="(?:login|consent" data-login="([^"]*))">`)
	devicePart = regexp.MustCompile(`<p data-device="(allow|deny)">`)
	fieldPart  = regexp.MustCompile(`<input type="hidden" name="transaction" value="([^"]*)">`)
)

// Login plays the person at the browser: it opens authorizeURL, signs in,
// decides, and returns where the sandbox then sends the browser, without going
// there. Both an answer with a code and one with an error are such a redirect;
// a page that ends the walk is an error. client may be nil; its cookie jar, if
// it has one, keeps the session for the next call, unless another person is next.
func Login(ctx context.Context, client *http.Client, authorizeURL, login, password string, allow bool) (*url.URL, error) {
	to, _, err := walk(ctx, client, authorizeURL, login, password, allow)
	if err == nil && to == nil {
		return nil, errors.New("sandbox: login: the walk ended without a redirect")
	}
	return to, err
}

// walk goes through the pages until they send the browser elsewhere, or until
// the last page about a device.
func walk(ctx context.Context, client *http.Client, authorizeURL, login, password string, allow bool) (*url.URL, []byte, error) {
	var browser http.Client
	if client != nil {
		browser = *client
	}
	if browser.Jar == nil {
		browser.Jar, _ = cookiejar.New(nil)
	}
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	start, err := url.Parse(authorizeURL)
	if err != nil {
		return nil, nil, errors.New("sandbox: login: authorize URL can't be read")
	}
	at, form, signedIn, forced := start, url.Values(nil), false, false
	for range 10 {
		status, next, body, err := visit(ctx, &browser, at, form)
		if err != nil {
			return nil, nil, err
		}
		if next != nil {
			if next.Scheme != start.Scheme || next.Host != start.Host || !ownPage(start.Path, next.Path) {
				return next, nil, nil
			}
			at, form = next, nil
			continue
		}
		if devicePart.Match(body) {
			return nil, body, nil
		}
		what, id := formPart.FindSubmatch(body), fieldPart.FindSubmatch(body)
		if what == nil || id == nil {
			return nil, nil, fmt.Errorf("sandbox: login: status %d and no form", status)
		}
		if string(what[1]) == "consent" && html.UnescapeString(string(what[2])) != login {
			if forced {
				return nil, nil, errors.New("sandbox: login: signed in as another person")
			}
			again := *start
			q := again.Query()
			q.Set("prompt", "login")
			again.RawQuery = q.Encode()
			at, form, forced = &again, nil, true
			continue
		}
		form = url.Values{"transaction": {html.UnescapeString(string(id[1]))}}
		at = at.ResolveReference(&url.URL{Path: string(what[1])})
		if string(what[1]) == "login" {
			if signedIn {
				return nil, nil, errors.New("sandbox: login: login or password refused")
			}
			signedIn = true
			form.Set("login", login)
			form.Set("password", password)
		} else if allow {
			form.Set("decision", "allow")
		} else {
			form.Set("decision", "deny")
		}
	}
	return nil, nil, errors.New("sandbox: login: too many steps")
}

// ownPage tells the sandbox's next page from the client's callback on the same host.
func ownPage(authorize, next string) bool {
	dir := authorize[:strings.LastIndex(authorize, "/")+1]
	return next == dir+"consent" || next == dir+"login" || next == authorize
}

func visit(ctx context.Context, browser *http.Client, at *url.URL, form url.Values) (int, *url.URL, []byte, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return 0, nil, nil, errors.New("sandbox: login: bad address")
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := browser.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL, which carries state and challenge
		}
		return 0, nil, nil, fmt.Errorf("sandbox: login: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("sandbox: login: %w", err)
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		next, err := res.Location()
		if err != nil {
			return 0, nil, nil, errors.New("sandbox: login: redirect without address")
		}
		return res.StatusCode, next, nil, nil
	}
	return res.StatusCode, nil, text, nil
}
