package record

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// A Player is an http.Handler that answers from a recording. Equal requests get
// their answers in the recorded order, and the last one again after that. It is
// safe for concurrent use.
type Player struct {
	scrub *scrubber

	mu     sync.Mutex
	left   map[string][]Answer
	misses []string
}

// NewPlayer answers from a recording; names are those that it was made with.
func NewPlayer(rec Recording, names []string) *Player {
	p := &Player{scrub: newScrubber(names), left: map[string][]Answer{}}
	for _, e := range rec.Exchanges {
		k := p.key(e.Request)
		p.left[k] = append(p.left[k], e.Answer)
	}
	return p
}

func (p *Player) key(r Request) string {
	return strings.Join([]string{r.Method, r.Path, r.Query, string(p.scrub.again(r.Body))}, "\n")
}

// ServeHTTP answers a request that was recorded; another one gets 501 and is
// remembered as missed.
func (p *Player) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(io.LimitReader(in.Body, maxBody))
	if err != nil {
		http.Error(w, "the request can't be read", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scrub.headers(in.Header)
	r := request(p.scrub, in, body)
	k := p.key(r)
	answers := p.left[k]
	if len(answers) == 0 {
		p.misses = append(p.misses, r.Method+" "+r.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = io.WriteString(w, `{"error":"not_recorded"}`)
		return
	}
	if len(answers) > 1 {
		p.left[k] = answers[1:]
	}
	a := answers[0]
	for name, v := range a.Header {
		w.Header().Set(name, v)
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, strings.ReplaceAll(bodyText(a), operation, operationOf(in, body)))
}

// operationOf is the id that this request carries, for an answer that names it.
func operationOf(in *http.Request, body []byte) string {
	places := []string{in.URL.Path, in.URL.RawQuery, string(body)}
	for _, values := range in.Header {
		places = append(places, values...)
	}
	for _, place := range places {
		if id := operationID.FindString(place); id != "" {
			return id
		}
	}
	return operation
}

func bodyText(a Answer) string {
	if !a.Text {
		var compact bytes.Buffer
		_ = json.Compact(&compact, a.Body) // read as JSON before
		return compact.String()
	}
	var text string
	_ = json.Unmarshal(a.Body, &text) // Read and the recorder leave a string there
	return text
}

// Missed lists requests that were not recorded, as method and scrubbed path.
func (p *Player) Missed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.misses)
}
