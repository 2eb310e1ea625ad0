package record

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// Format is the version of the recording's form.
const Format = 1

// A Recording is what was exchanged, in order.
type Recording struct {
	Format    int        `json:"recording"`
	Exchanges []Exchange `json:"exchanges"`
}

// An Exchange is one request and its answer, scrubbed.
type Exchange struct {
	Request Request `json:"request"`
	Answer  Answer  `json:"answer"`
}

// A Request is what requests are told apart by.
type Request struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Query  string          `json:"query,omitempty"` // names sorted
	Body   json.RawMessage `json:"body,omitempty"`  // JSON, or a string
}

// An Answer is what the provider said.
type Answer struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"`
	Body   json.RawMessage   `json:"body,omitempty"` // JSON, or a string
	Text   bool              `json:"text,omitempty"` // the body is a string that holds the text
}

// Read reads a recording. An unknown key is an error: what it means would be lost.
func Read(r io.Reader) (Recording, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var rec Recording
	if err := d.Decode(&rec); err != nil {
		return rec, fmt.Errorf("record: the recording can't be read: %w", err)
	}
	if rec.Format != Format {
		return rec, fmt.Errorf("record: there is no format %d", rec.Format)
	}
	return rec, nil
}

// ErrCanary is returned when a secret was about to be written. The error does
// not repeat it.
var ErrCanary = errors.New("record: a secret is in the recording; nothing was written")

// write encodes a recording after looking for every canary in it.
func write(w io.Writer, rec Recording, canaries []string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(rec); err != nil {
		return err
	}
	for _, c := range canaries {
		for _, form := range encodings(c) {
			if strings.Contains(b.String(), form) {
				return ErrCanary
			}
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// encodings are the forms in which a secret stands in requests and answers. In
// base64 its neighbours shift it, so each of the three shifts is looked for.
func encodings(secret string) []string {
	if secret == "" {
		return nil
	}
	quoted, _ := json.Marshal(secret) // a string always encodes
	forms := []string{secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret))}
	for shift := range 3 {
		padded := append(make([]byte, shift), secret...)
		// Characters that depend on the neighbours are left out.
		whole := base64.RawStdEncoding.EncodeToString(padded[:len(padded)/3*3])
		if shift > 0 && len(whole) >= 4 {
			whole = whole[4:]
		}
		if len(whole) >= 8 {
			forms = append(forms, whole, strings.NewReplacer("+", "-", "/", "_").Replace(whole))
		}
	}
	return forms
}
