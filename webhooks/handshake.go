package webhooks

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHandshake is the longest token that is given back, in bytes.
const maxHandshake = 2 << 10

var (
	handshaken   = outcome{http.StatusOK, "handshake"}
	badHandshake = outcome{http.StatusBadRequest, "handshake"}
)

// handshake gives back the token with which some providers ask, before they
// subscribe, whether an address is ours. An endpoint answers as long as it waits
// for its secret and never after: a page that repeats what anyone asks for is of
// use to others than the provider.
func (r *receiver) handshake(w http.ResponseWriter, req *http.Request, to addressee) (o outcome, asked bool) {
	if to.Handshake == "" || len(to.accepts) > 0 || req.URL.RawQuery == "" {
		return outcome{}, false
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return badHandshake, true
	}
	tokens, asked := query[to.Handshake]
	switch {
	case !asked:
		return outcome{}, false
	case len(tokens) != 1, tokens[0] == "", len(tokens[0]) > maxHandshake, !utf8.ValidString(tokens[0]), strings.IndexFunc(tokens[0], unicode.IsControl) >= 0:
		return badHandshake, true
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(html.EscapeString(tokens[0])))
	return handshaken, true
}
