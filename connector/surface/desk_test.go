package surface

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

type note struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

type getIn struct {
	ID string `json:"id"`
}

// desk is a connector with a read and a write. The schemas are the tests'.
func desk(input, output string) connector.Connector {
	spec := func(name string, effect connector.Effect) connector.Spec {
		return connector.Spec{Name: name, Title: "Note", Doc: "Something about a note.", Effect: effect,
			Sensitivity: connector.SensitivityInternal, Scopes: []string{"notes"}}
	}
	get := spec("desk.get", connector.EffectRead)
	if input != "" {
		get.Input = []byte(input)
	}
	if output != "" {
		get.Output = []byte(output)
	}
	return connector.Connector{
		ID: "desk", Version: "1.2.3", Owner: "tests", Provider: "notes", ProviderVersion: "v1",
		Auth:        connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"profile", "notes"}},
		Excluded:    []string{"private"},
		Limitations: []string{"notes are not versioned"},
		Identify: func(context.Context, *connector.Access) (connector.Identity, error) {
			return connector.Identity{}, nil
		},
		Operations: []connector.Operation{
			connector.Write(spec("desk.write", connector.EffectReversible), connector.Steps[note, note]{
				Plan:   func(context.Context, *connector.Access, note) (r connector.Request, err error) { return },
				Decode: connector.DecodeJSON[note],
				ID:     func(n note) string { return n.ID },
				Find: func(context.Context, *connector.Access, connector.OperationID, note) (n note, f connector.Found, err error) {
					return
				},
				Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Idempotency-Key"},
			}),
			connector.Read(get, func(context.Context, *connector.Access, map[string]any) (map[string]any, error) {
				return map[string]any{"id": "n1"}, nil
			}),
		},
	}
}

const (
	plainInput  = `{"type":"object","properties":{"id":{"type":"string","maxLength":10},"how":{"enum":["a","b"]}},"required":["id"],"additionalProperties":false}`
	plainOutput = `{"type":"object","properties":{"id":{"type":"string","maxLength":10},"how":{"enum":["a","b"]}},"required":["id"],"additionalProperties":false}`
)

func surfaceOf(t testing.TB) Surface {
	t.Helper()
	c := desk(plainInput, plainOutput)
	if err := connector.Lint(c); err != nil {
		t.Fatal(err)
	}
	return reread(t, Of(c))
}

// reread is a surface as its lock file says it.
func reread(t testing.TB, s Surface) Surface {
	t.Helper()
	read, err := Read(strings.NewReader(text(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func text(t testing.TB, s Surface) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// with is a surface whose desk.get takes and returns these schemas.
func with(s Surface, input, output string) Surface {
	s.Tools = slices.Clone(s.Tools)
	for i := range s.Tools {
		if s.Tools[i].Name == "desk.get" {
			if input != "" {
				s.Tools[i].Input = json.RawMessage(input)
			}
			if output != "" {
				s.Tools[i].Output = json.RawMessage(output)
			}
		}
	}
	return s
}

func lines(all []Line) []string {
	var out []string
	for _, l := range all {
		out = append(out, fmt.Sprintf("%s [%s]", l, l.Step))
	}
	return out
}
