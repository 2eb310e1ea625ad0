package console

import (
	"net/url"
	"regexp"
)

// returnable are the pages that a sign-in may end on. The value travels through the
// browser, so it is matched whole: no scheme, no host, no second slash, no dots.
var returnable = regexp.MustCompile(`^/(?:(?:connections|approvals|operations|deliveries)(?:/[A-Za-z0-9_-]{1,80})?|connect\?t=[A-Z0-9]{16,64})?$`)

// returnTo is where to go after a sign-in: the wish if it is a page of ours, else
// the first page.
func returnTo(wish string) string {
	if returnable.MatchString(wish) {
		return wish
	}
	return "/"
}

func returnQuery(u *url.URL) string {
	return url.Values{"return": {returnTo(u.RequestURI())}}.Encode()
}
