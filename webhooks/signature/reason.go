package signature

import "net/http"

// A Reason is why a delivery was refused. The list is closed; it is for metrics
// and operators, never for the sender.
type Reason string

const (
	NoUsableSecret   Reason = "no_usable_secret" // none, or none that is valid now
	MissingHeader    Reason = "missing_header"   // one that the scheme needs
	AmbiguousHeader  Reason = "ambiguous_header" // one that came more than once
	MalformedHeader  Reason = "malformed_header" // an id that is none
	WrongContentType Reason = "wrong_content_type"
	MalformedForm    Reason = "malformed_form" // not exactly one payload field
	MalformedSig     Reason = "malformed_signature"
	WrongSignature   Reason = "wrong_signature"
	MissingTime      Reason = "missing_time" // signed content has none
	TooOld           Reason = "too_old"
	TooNew           Reason = "too_new"
)

// Error implements error.
func (r Reason) Error() string { return "webhook refused: " + string(r) }

// HTTPStatus is the answer to the sender. All that concerns the signature is one
// answer, so that a forger learns nothing.
func (r Reason) HTTPStatus() int {
	switch r {
	case NoUsableSecret:
		return http.StatusServiceUnavailable // ours to mend
	case MissingHeader, AmbiguousHeader, MalformedHeader, MalformedForm:
		return http.StatusBadRequest
	case WrongContentType:
		return http.StatusUnsupportedMediaType
	}
	return http.StatusUnauthorized
}
