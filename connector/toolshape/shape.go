package toolshape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Shape is one vendor's JSON for tools. The zero value is none, and all its
// methods fail. The methods are safe for concurrent use.
type Shape int

const (
	OpenAI          Shape = iota + 1 // Chat Completions
	OpenAIResponses                  // Responses
	Anthropic                        // Messages
)

var errNoShape = errors.New("toolshape: not a shape of this package")

func (s Shape) String() string {
	switch s {
	case OpenAI:
		return "openai"
	case OpenAIResponses:
		return "openai_responses"
	case Anthropic:
		return "anthropic"
	}
	return "none"
}

func (s Shape) known() bool { return s >= OpenAI && s <= Anthropic }

// fail makes an error that says where, and never quotes what a model wrote.
func (s Shape) fail(format string, args ...any) error {
	return fmt.Errorf("toolshape: %s: "+format, append([]any{s}, args...)...)
}

const maxName = 64

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)

// vendorName is the name that a model sees.
func vendorName(name string) (string, error) {
	if !namePattern.MatchString(name) {
		return "", fmt.Errorf("the name %q does not match %s", name, namePattern)
	}
	if len(name) > maxName {
		return "", fmt.Errorf("the name %q has %d characters, over the vendors' limit of %d", name, len(name), maxName)
	}
	return swap.Replace(name), nil
}

// ourName takes any text that a model wrote. Because the swap is its own
// inverse for every text, only what vendorName made comes back as one of ours.
func ourName(written string) string { return swap.Replace(written) }

var swap = strings.NewReplacer(".", "-", "-", ".")

// encode writes compact JSON without the escapes for HTML, which only cost a
// model tokens.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
