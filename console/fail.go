package console

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// notFound is the one answer for what is absent, another tenant's and another
// principal's. It depends on nothing but the session.
func (c *Console) notFound(w http.ResponseWriter, r *http.Request, s *session) {
	c.refuse(w, r, s, http.StatusNotFound, "Not found", "There is nothing here, or nothing that you can see.")
}

// fail answers with an error of a service, in words for people. The cause is for
// the log.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, s *session, err error) {
	e := connector.AsError(err)
	if e.Code == connector.CodeNotFound {
		c.notFound(w, r, s)
		return
	}
	status := e.Code.HTTPStatus()
	if status >= http.StatusInternalServerError {
		c.log.ErrorContext(r.Context(), "page failed", "code", e.Code.String(), "err", err)
	}
	c.refuse(w, r, s, status, headings[e.Code], sentence(e.Report().Message)+" "+advice(e))
}

var headings = map[connector.Code]string{
	connector.CodePermissionDenied: "This is not allowed",
	connector.CodeConflict:         "This can't be done any more",
	connector.CodeGone:             "This link no longer works",
	connector.CodeRateLimited:      "Too many at once",
	connector.CodeUnavailable:      "Not possible at the moment",
	connector.CodeInvalidInput:     "Something is missing or wrong",
	connector.CodeTooLarge:         "This is too large",
}

// advice is what to do next, where the code's own word says so.
func advice(e *connector.Error) string {
	switch e.Advice() {
	case connector.NextFixInput:
		if e.Code == connector.CodeConflict {
			return "Go back and look at its present state."
		}
		return "Go back and correct it."
	case connector.NextWait:
		return "Wait a moment and try again."
	case connector.NextReconnect:
		return "Connect the account again."
	case connector.NextAskPerson:
		return "Ask your administrator; the log of the server says more."
	}
	return ""
}

func (c *Console) refuse(w http.ResponseWriter, r *http.Request, s *session, status int, heading, text string) {
	if heading == "" {
		heading = "This did not work"
	}
	c.render(w, r, s, status, "error", page{Title: heading}, strings.TrimSpace(text))
}

// sentence makes one of an error's message.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(message)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(message[size:], ".") + "."
}
