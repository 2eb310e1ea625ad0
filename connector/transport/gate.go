package transport

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// maxTarget keeps paths and queries below what servers and proxies take.
const maxTarget = 16 << 10

// errBlocked is what the gate and the dial guard answer. It is never retried.
type errBlocked struct{ why string }

func (e *errBlocked) Error() string { return e.why }

func blocked(why string) error { return &errBlocked{why} }

// target composes the URL of a request from the profile and a relative path.
func (e *endpoint) target(path string, query url.Values) (*url.URL, error) {
	if err := cleanPath(path); err != nil {
		return nil, &errBlocked{"the path: " + err.Error()}
	}
	u := &url.URL{Scheme: e.base.scheme, Host: e.base.urlHost, RawQuery: query.Encode()}
	full := e.prefix + path
	var err error
	if u.Path, err = url.PathUnescape(full); err != nil {
		return nil, blocked("the path does not decode")
	}
	if u.RawPath = full; u.EscapedPath() != full {
		return nil, blocked("the path would be sent otherwise than it was checked")
	}
	if len(full)+len(u.RawQuery) > maxTarget {
		return nil, connector.Fail(connector.CodeInvalidInput, "the request's address is over %d bytes", maxTarget)
	}
	return u, nil
}

// admit is the origin pin. It looks at the URL that is about to be sent, not at
// what was asked for, and stands right before the credential.
func (e *endpoint) admit(u *url.URL) error {
	switch {
	case u.Scheme != e.base.scheme || u.Host != e.base.urlHost:
		return blocked("another origin than the profile's")
	case u.User != nil || u.Opaque != "" || u.Fragment != "":
		return blocked("parts that a request must not have")
	case !strings.HasPrefix(u.EscapedPath(), e.prefix+"/") && u.EscapedPath() != e.prefix:
		return blocked("a path outside the profile's")
	}
	return nil
}

// follow says where a redirect leads. Nil and no error: it stays on the origin
// but leaves the base path, as to a sign-in page, and is not followed.
func (e *endpoint) follow(from *url.URL, location string) (*url.URL, error) {
	to, err := url.Parse(location)
	if err != nil || len(location) > maxTarget {
		return nil, blocked("a redirect to no valid address")
	}
	to = from.ResolveReference(to)
	to.Fragment, to.RawFragment = "", ""
	if to.Scheme != e.base.scheme || to.Host != e.base.urlHost || to.User != nil || to.Opaque != "" {
		return nil, blocked("a redirect to another origin")
	}
	if err := cleanPath(to.EscapedPath()); err != nil || !printable(to.RawQuery) {
		return nil, blocked("a redirect to an unclean path")
	}
	if e.admit(to) != nil {
		return nil, nil
	}
	return to, nil
}

// cleanPath accepts an absolute path in percent-encoded form that servers,
// proxies and we read alike. It refuses everything that one of them might
// decode into a slash, a dot segment or a control character.
func cleanPath(p string) error {
	if p == "" || p[0] != '/' {
		return errors.New("it does not start with a slash")
	}
	encoded := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}?#", c) >= 0:
			return errors.New("it has a character that must be encoded")
		case c == '%':
			if i+2 >= len(p) || !isHex(p[i+1]) || !isHex(p[i+2]) {
				return errors.New("it has a broken encoding")
			}
			switch d := unhex(p[i+1])<<4 | unhex(p[i+2]); {
			case d < ' ' || d == 0x7f || d == '/' || d == '\\' || d == '.':
				return errors.New("it hides a separator, a dot or a control character")
			case d == '%' && i+4 < len(p) && isHex(p[i+3]) && isHex(p[i+4]):
				return errors.New("it is encoded twice")
			}
			encoded = true
			i += 2
		}
	}
	for rest := p[1:]; ; {
		segment, more, found := strings.Cut(rest, "/")
		// Some servers cut path parameters off before they resolve dots.
		name, _, _ := strings.Cut(segment, ";")
		if name == "." || name == ".." || segment == "" && found {
			return errors.New("it has a dot segment or an empty one")
		}
		if !found {
			break
		}
		rest = more
	}
	if encoded {
		// Overlong forms of dots and slashes are invalid UTF-8.
		if s, err := url.PathUnescape(p); err != nil || !utf8.ValidString(s) {
			return errors.New("it is not UTF-8")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

func printable(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
