package record

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const maxBody = 8 << 20

// Config says what to record.
type Config struct {
	// To is the provider, such as https://api.example.org. No path.
	To string
	// Names are of fields whose values must go, beside those that are named like
	// secrets. A connector's Excluded belongs here.
	Names []string
	// Canaries are secrets that must not be in the recording in any encoding.
	Canaries []string
}

// A Recorder is an http.Handler that passes requests on to one provider. It is
// safe for concurrent use; exchanges are in the order of their answers.
type Recorder struct {
	to     *url.URL
	client *http.Client
	scrub  *scrubber
	config Config

	mu        sync.Mutex
	exchanges []Exchange
}

// NewRecorder checks the configuration.
func NewRecorder(c Config) (*Recorder, error) {
	to, err := url.Parse(c.To)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" || to.Host == "" || to.Path != "" && to.Path != "/" || to.RawQuery != "" || to.User != nil {
		return nil, errors.New("record: the provider is named by scheme and host, without a path")
	}
	return &Recorder{to: to, scrub: newScrubber(c.Names), config: c, client: &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// A kept connection that dies makes net/http send some requests twice.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}}, nil
}

// ServeHTTP passes one request on and keeps the exchange. A request that was not
// answered is answered with 502 and not kept.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(io.LimitReader(in.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		http.Error(w, "the request can't be recorded", http.StatusRequestEntityTooLarge)
		return
	}
	target := *in.URL
	target.Scheme, target.Host = r.to.Scheme, r.to.Host
	out, err := http.NewRequestWithContext(in.Context(), in.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, "the request can't be passed on", http.StatusBadRequest)
		return
	}
	out.GetBody = nil
	out.Header = in.Header.Clone()
	for _, hop := range []string{"Connection", "Keep-Alive", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Accept-Encoding"} {
		out.Header.Del(hop)
	}
	resp, err := r.client.Do(out)
	if err != nil {
		http.Error(w, "the provider did not answer", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil || len(answer) > maxBody {
		http.Error(w, "the answer can't be recorded", http.StatusBadGateway)
		return
	}
	r.keep(in, body, resp, answer)
	for name, values := range resp.Header {
		if name != "Connection" && name != "Transfer-Encoding" && name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}

// keptHeaders of answers are what connectors look at.
var keptHeaders = []string{"Content-Type", "Etag", "Last-Modified", "Retry-After", "X-Request-Id", "X-Total-Count", "Link", "Location"}

func (r *Recorder) keep(in *http.Request, body []byte, resp *http.Response, answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Everything that this exchange teaches is known before any of it is kept.
	r.scrub.headers(in.Header)
	r.scrub.headers(resp.Header)
	e := Exchange{Answer: Answer{Status: resp.StatusCode, Header: map[string]string{}}}
	e.Answer.Body, e.Answer.Text = r.scrub.body(resp.Header.Get("Content-Type"), answer)
	e.Request = request(r.scrub, in, body)
	for _, name := range keptHeaders {
		if v := resp.Header.Get(name); v != "" {
			if name == "Link" || name == "Location" {
				v = strings.ReplaceAll(r.links(v), r.to.String(), "")
			}
			e.Answer.Header[name] = r.scrub.text(v)
		}
	}
	r.exchanges = append(r.exchanges, e)
}

// links scrubs the queries of addresses in a header.
func (r *Recorder) links(v string) string {
	parts := strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune("<>;, \"", c) })
	for _, p := range parts {
		if u, err := url.Parse(p); err == nil && u.RawQuery != "" {
			clean := *u
			clean.RawQuery = r.scrub.query(u.Query())
			v = strings.ReplaceAll(v, p, clean.String())
		}
	}
	return v
}

// request is what a request is recorded as, and compared by.
func request(s *scrubber, in *http.Request, body []byte) Request {
	r := Request{Method: in.Method}
	r.Body, _ = s.body(in.Header.Get("Content-Type"), body)
	r.Query = s.query(in.URL.Query())
	r.Path = s.text(in.URL.EscapedPath())
	return r
}

// Len is how many exchanges were kept.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.exchanges)
}

// Write writes the recording, or ErrCanary and nothing. Exchanges from before a
// secret became known are scrubbed of it now.
func (r *Recorder) Write(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := Recording{Format: Format, Exchanges: []Exchange{}}
	for _, e := range r.exchanges {
		rec.Exchanges = append(rec.Exchanges, r.scrub.rescrub(e))
	}
	return write(w, rec, append(r.scrub.known(), r.config.Canaries...))
}
