package transport

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// bodyRules say what of an answer is kept.
type bodyRules struct {
	ok, fail int64 // bytes of a 2xx body and of another
	json     bool  // a 2xx body must be JSON by its media type
}

// A bodyFault is an answer whose status came and whose body can't be used.
type bodyFault struct {
	code connector.Code
	why  string
	cut  bool // the connection ended too early; asking again may help
	err  error
}

func (e *bodyFault) Error() string { return e.why }
func (e *bodyFault) Unwrap() error { return e.err }

func contractFault(why string) error {
	return &bodyFault{code: connector.CodeProviderContract, why: why}
}

var errTooLong = errors.New("over the limit")

// readBody reads and closes the body of an answer. A 2xx body comes whole or
// not at all. Of other answers the status is what counts: their body is cut at
// the limit, and left out when it can't be read.
func readBody(resp *http.Response, rules bodyRules) ([]byte, error) {
	defer resp.Body.Close()
	ok := resp.StatusCode >= 200 && resp.StatusCode <= 299
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, contractFault("the provider switched protocols without being asked")
	case resp.StatusCode == http.StatusPartialContent:
		return nil, contractFault("the provider sent a part without being asked for one")
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified,
		resp.Request.Method == http.MethodHead, resp.ContentLength == 0:
		return nil, nil
	case !ok:
		body, err := readAll(resp, rules.fail)
		if err != nil && !errors.Is(err, errTooLong) {
			return nil, nil
		}
		return body, nil
	}
	if rules.json && !isJSON(resp.Header["Content-Type"]) {
		return nil, contractFault("the answer is not JSON by its content type")
	}
	body, err := readAll(resp, rules.ok)
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, errTooLong):
		return nil, &bodyFault{code: connector.CodeTooLarge, why: "the answer is over the profile's size limit"}
	}
	var fault *bodyFault
	if errors.As(err, &fault) {
		return nil, err
	}
	return nil, &bodyFault{code: connector.CodeProviderContract, why: "the answer was cut off", cut: true, err: err}
}

// readAll returns at most limit decoded bytes, with errTooLong if there were
// more. The wire form is held to the same limit: a stream of empty gzip members
// decodes to nothing for ever.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit && len(resp.Header["Content-Encoding"]) == 0 && resp.StatusCode < 300 {
		return nil, errTooLong
	}
	wire := &limitReader{r: resp.Body, left: limit}
	var body io.Reader = wire
	var packed bool
	switch encoding := strings.ToLower(strings.Join(resp.Header["Content-Encoding"], ",")); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		packed = true
		z, err := unzip(wire)
		if err != nil {
			return nil, err
		}
		defer gzips.Put(z)
		body = &limitReader{r: z, left: limit}
	default:
		return nil, contractFault("the answer has an encoding that was not asked for")
	}
	// The length is the provider's word: it may save growing, not cost memory.
	size := int64(512)
	if !packed && resp.ContentLength > 0 {
		size = min(resp.ContentLength, 64<<10)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := buf.ReadFrom(body)
	if err == nil && packed {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
	}
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) {
		return nil, contractFault("the answer's compression is damaged")
	}
	return buf.Bytes(), err
}

var gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}

func unzip(r io.Reader) (*gzip.Reader, error) {
	z := gzips.Get().(*gzip.Reader)
	switch err := z.Reset(r); {
	case err == nil:
		return z, nil
	case errors.Is(err, gzip.ErrHeader):
		return nil, contractFault("the answer's compression is damaged")
	default: // io.EOF too: not one byte came, which must not pass as empty
		return nil, err
	}
}

// limitReader is io.LimitedReader with an error in place of a silent end.
type limitReader struct {
	r    io.Reader
	left int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n - 1, errTooLong
	}
	return n, err
}

// isJSON accepts application/json and types that end in +json (RFC 6838), in
// UTF-8 (RFC 8259 8.1).
func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == "application/json" || lines[0] == "application/json; charset=utf-8" {
		return true
	}
	kind, params, err := mime.ParseMediaType(lines[0])
	if err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
