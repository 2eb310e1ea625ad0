package connector

import "net/http"

// classify is the default table from a complete answer to an error; nil means
// success. A connector's own Classify is asked first.
//
// For a write the table also says what is proven: a refusal (4xx) proves that
// nothing was applied, and so do 307 and 308; a 5xx or any other redirect
// proves nothing at all.
func classify(r Response, class Class) *Error {
	if r.Status >= 200 && r.Status <= 299 || r.Status == http.StatusNotModified && class == ClassRead {
		return nil
	}
	e := Fail(CodeProviderContract, "the provider answered with status %d", r.Status)
	refused := true
	switch s := r.Status; {
	case s == http.StatusUnauthorized:
		e.Code, e.Message = CodeConnectionRequired, "the provider no longer accepts this connection's credential"
	case s == http.StatusForbidden:
		e.Code, e.Message = CodePermissionDenied, "the provider does not allow this"
	case s == http.StatusNotFound:
		e.Code, e.Message = CodeNotFound, ""
	case s == http.StatusGone:
		e.Code, e.Message = CodeGone, ""
	case s == http.StatusConflict, s == http.StatusPreconditionFailed:
		e.Code, e.Message = CodeConflict, ""
	case s == http.StatusTooManyRequests:
		e.Code, e.Message = CodeRateLimited, ""
	case s == http.StatusBadRequest, s == http.StatusUnprocessableEntity, s == http.StatusRequestEntityTooLarge:
		e.Code, e.Message = CodeInvalidInput, "the provider refused the request as invalid"
	case s == http.StatusRequestTimeout:
		e.Code, e.Message, refused = CodeUnavailable, "", false
	case s == http.StatusTemporaryRedirect || s == http.StatusPermanentRedirect:
		e.Code, e.Message = CodeMoved, "" // RFC 9110 15.4.8: the method was not performed here
	case s >= 300 && s <= 399:
		// 301 to 303 may answer a write that was carried out.
		e.Code, e.Message, refused = CodeProviderContract, "a redirect came where none is expected", false
	case s >= 500:
		e.Code, e.Message, refused = CodeUnavailable, "", false
	case s < 400:
		refused = false
	}
	e.RetryAfter = r.RetryAfter
	if class == ClassWrite {
		e.Effect = DispositionNotApplied
		if !refused {
			e.Effect = DispositionUnknown
		}
	}
	return e
}
