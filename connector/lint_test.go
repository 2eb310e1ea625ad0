package connector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// read makes a read of any input type, for schemas that must not load.
func read[In any](edit func(*connector.Spec)) func(*connector.Connector) {
	return func(c *connector.Connector) {
		s := spec("desk.get", connector.EffectRead)
		if edit != nil {
			edit(&s)
		}
		c.Operations[0] = connector.Read(s, func(context.Context, *connector.Access, In) (note, error) { return note{}, nil })
	}
}

func specOf(edit func(*connector.Spec)) func(*connector.Connector) { return read[getIn](edit) }

func steps(edit func(*connector.Steps[createIn, note])) func(*connector.Connector) {
	return func(c *connector.Connector) {
		s := newToy(&stages{}).steps
		edit(&s)
		c.Operations[2] = connector.Write(spec("desk.create", connector.EffectCompensable), s)
	}
}

// Guarantee: CON1, CON2, CON3, CON4, RUN2
func TestLintNamesEachFault(t *testing.T) {
	t.Parallel()
	type nested struct {
		Inner struct {
			Deep []struct {
				Token string `json:"Access_Token"`
			} `json:"deep"`
		} `json:"inner"`
	}
	type open struct {
		Any map[string]int `json:"any"`
	}
	for _, c := range []struct {
		name string
		edit func(*connector.Connector)
		want string
	}{
		{"id", func(c *connector.Connector) { c.ID = "Desk" }, `connector id "Desk" must match ^[a-z][a-z0-9_]*$`},
		{"id with a newline", func(c *connector.Connector) { c.ID = "desk\n" }, `connector id "desk\n" must match`},
		{"version", func(c *connector.Connector) { c.Version = "v1" }, `desk: version "v1" is not a semantic version`},
		{"version with a leading zero", func(c *connector.Connector) { c.Version = "1.02.3" }, `desk: version "1.02.3" is not a semantic version`},
		{"owner", func(c *connector.Connector) { c.Owner = "" }, `desk: the owner is missing`},
		{"provider", func(c *connector.Connector) { c.Provider = "" }, `desk: the provider is missing`},
		{"provider version", func(c *connector.Connector) { c.ProviderVersion = "" }, `desk: the provider API version is missing`},
		{"auth", func(c *connector.Connector) { c.Auth.Kind = "" }, `desk: the auth kind is missing`},
		{"identify", func(c *connector.Connector) { c.Identify = nil }, `desk can't be connected: it has no Identify`},
		{"no operations", func(c *connector.Connector) { c.Operations = nil }, `desk has no operations`},
		{"zero operation", func(c *connector.Connector) { c.Operations[0] = connector.Operation{} }, `operation "" must be named desk.something`},
		{"foreign name", specOf(func(s *connector.Spec) { s.Name = "other.get" }), `operation "other.get" must be named desk.something, in lower case`},
		{"name in capitals", specOf(func(s *connector.Spec) { s.Name = "desk.Get" }), `operation "desk.Get" must be named desk.something, in lower case`},
		{"name twice", specOf(func(s *connector.Spec) { s.Name = "desk.search" }), `desk.search is there twice`},
		{"title", specOf(func(s *connector.Spec) { s.Title = "" }), `desk.get needs a title and a doc`},
		{"doc", specOf(func(s *connector.Spec) { s.Doc = "" }), `desk.get needs a title and a doc`},
		{"effect", specOf(func(s *connector.Spec) { s.Effect = 0 }), `desk.get is unclassified: set its effect`},
		{"effect beyond the list", specOf(func(s *connector.Spec) { s.Effect = 5 }), `desk.get is unclassified: set its effect`},
		{"read with an effect", specOf(func(s *connector.Spec) { s.Effect = connector.EffectIrreversible }),
			`desk.get is made as a read but its effect is irreversible_write`},
		{"write as a read", func(c *connector.Connector) {
			c.Operations[2] = connector.Write(spec("desk.create", connector.EffectRead), newToy(&stages{}).steps)
		}, `desk.create is made as a write but its effect is read`},
		{"sensitivity", specOf(func(s *connector.Spec) { s.Sensitivity = 0 }), `desk.get is unclassified: set its sensitivity`},
		{"no scope", specOf(func(s *connector.Spec) { s.Scopes = nil }), `desk.get names no scope that it needs`},
		{"scope never asked for", specOf(func(s *connector.Spec) { s.Scopes = []string{"admin"} }),
			`desk.get needs scope "admin", which the connector never asks for`},
		{"no handler", func(c *connector.Connector) {
			c.Operations[0] = connector.Read[getIn, note](spec("desk.get", connector.EffectRead), nil)
		}, `desk.get has no handler`},
		{"no list handler", func(c *connector.Connector) {
			c.Operations[1] = connector.List[searchIn, note](spec("desk.search", connector.EffectRead), nil)
		}, `desk.search has no handler`},
		{"no plan", steps(func(s *connector.Steps[createIn, note]) { s.Plan = nil }), `desk.create can't be sent: it has no Plan`},
		{"no decode", steps(func(s *connector.Steps[createIn, note]) { s.Decode = nil }), `desk.create can't be read back: it has no Decode`},
		{"no id", steps(func(s *connector.Steps[createIn, note]) { s.ID = nil }), `desk.create can't be proven: it has no ID`},
		{"no find", steps(func(s *connector.Steps[createIn, note]) { s.Find = nil }), `desk.create can't be settled: it has no Find`},
		{"header without a name", steps(func(s *connector.Steps[createIn, note]) { s.Dedupe.Name = "" }),
			`desk.create: a header that recognises repeats needs a name`},
		{"field without a name", steps(func(s *connector.Steps[createIn, note]) { s.Dedupe = connector.Dedupe{Kind: connector.DedupeField} }),
			`desk.create: a field that recognises repeats needs a name`},
		{"excluded property", func(c *connector.Connector) { c.Excluded = []string{"title"} },
			`desk.get would let "title" out, which the connector excludes`},
		{"reserved, deep", read[nested](nil), `desk.get: "Access_Token" can't be a parameter; the framework supplies it`},
		{"open object in a type", read[open](nil), `desk.get: input schema: /properties/any is an open object`},
		{"open object in a schema", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","properties":{"id":{"type":"string"},"depth":{"type":"integer"}}}`)
		}), `desk.get: input schema: the schema is an open object: set additionalProperties to false`},
		{"open object below a reference", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{"$ref":"#/$defs/x"},"depth":{}},"$defs":{"x":{"type":["object","null"]}}}`)
		}), `/$defs/x is an open object`},
		{"schema from outside", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{"$ref":"https://schema.example/x"},"depth":{"type":"integer"}}}`)
		}), `desk.get: input schema:`},
		{"schema from a file", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{"$ref":"file:///etc/passwd"},"depth":{"type":"integer"}}}`)
		}), `desk.get: input schema:`},
		{"not a schema", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"objekt","properties":{"id":{},"depth":{}}, "additionalProperties":false}`)
		}), `desk.get: input schema:`},
		{"not JSON", specOf(func(s *connector.Spec) { s.Input = []byte(`{`) }), `desk.get: input schema: not a JSON object`},
		{"schema without a field", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"}}}`)
		}), `getIn has a field "depth" that the schema does not declare`},
		{"schema with more than the type", specOf(func(s *connector.Spec) {
			s.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{"id":{},"depth":{},"more":{}}}`)
		}), `the schema declares "more", which connector_test.getIn has no field for`},
		{"output schema", specOf(func(s *connector.Spec) { s.Output = []byte(`{"type":"object","properties":{"id":{},"title":{}}}`) }),
			`desk.get: output schema: the schema is an open object`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.edit = c.edit
			err := connector.Lint(h.toy.connector(h.stages))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Lint = %v, want %q", err, c.want)
			}
			h.config.Connectors = []connector.Connector{h.toy.connector(h.stages)}
			if rt, err := connector.New(h.config); rt != nil || err == nil {
				t.Errorf("New = %v, %v; want the same refusal", rt, err)
			}
		})
	}
}

// Guarantee: CON3
func TestReservedNamesAreNoParametersAtAnyDepth(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"tenant", "tenant_id", "user_id", "principal", "connection", "connection_id", "account_id", "token", "access_token",
		"refresh_token", "api_key", "authorization", "password", "secret", "credential", "approval", "approval_id", "approved",
		"operation_id", "idempotency_key", "intent", "url", "base_url", "uri", "host", "hostname", "endpoint", "port", "proxy", "headers",
		"Tenant", "URL",
	} {
		for where, shape := range map[string]string{
			"top":        `"properties":{"id":{"type":"string"},"depth":{"type":"integer"},%q:{"type":"string"}}`,
			"nested":     `"properties":{"id":{"type":"object","additionalProperties":false,"properties":{%q:{"type":"string"}}},"depth":{"type":"integer"}}`,
			"in items":   `"properties":{"id":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{%q:{"type":"string"}}}},"depth":{"type":"integer"}}`,
			"definition": `"$defs":{"d":{"type":"object","additionalProperties":false,"properties":{%q:{"type":"string"}}}},"properties":{"id":{"$ref":"#/$defs/d"},"depth":{"type":"integer"}}`,
			"a choice":   `"properties":{"id":{"oneOf":[{"type":"string"},{"type":"object","additionalProperties":false,"properties":{%q:{"type":"string"}}}]},"depth":{"type":"integer"}}`,
		} {
			if where == "top" {
				continue // refused earlier: the Go type has no such field
			}
			s := spec("desk.get", connector.EffectRead)
			s.Input = fmt.Appendf(nil, `{"type":"object","additionalProperties":false,`+shape+`}`, name)
			c := connector.Connector{ID: "desk", Operations: []connector.Operation{
				connector.Read(s, func(context.Context, *connector.Access, getIn) (note, error) { return note{}, nil }),
			}}
			want := fmt.Sprintf("desk.get: %q can't be a parameter; the framework supplies it", name)
			if err := connector.Lint(c); !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: Lint = %v, want %q", name, where, err, want)
			}
		}
	}
}

// Guarantee: CON1
func TestLintReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.edit = func(c *connector.Connector) {
		c.Version, c.Owner, c.Identify = "x", "", nil
		specOf(func(s *connector.Spec) { s.Effect, s.Sensitivity, s.Scopes = 0, 0, nil })(c)
		steps(func(s *connector.Steps[createIn, note]) { *s = connector.Steps[createIn, note]{} })(c)
	}
	err := connector.Lint(h.toy.connector(h.stages))
	for _, want := range []string{"version", "owner", "Identify", "set its effect", "set its sensitivity", "no scope", "no Plan", "no Decode", "no ID", "no Find"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Lint does not say %q: %v", want, err)
		}
	}
	if err := connector.Lint(newToy(&stages{}).connector(&stages{})); err != nil {
		t.Errorf("Lint of the toy = %v, want nothing", err)
	}
}

// Guarantee: RUN2
func TestRuntimeRefusesWhatItCannotKeepApart(t *testing.T) {
	t.Parallel()
	toy := func(edit func(*connector.Connector)) connector.Connector {
		y := newToy(&stages{})
		y.edit = edit
		return y.connector(&stages{})
	}
	for _, c := range []struct {
		name string
		edit func(*connector.Config)
		want string
	}{
		{"same tool in two connectors", func(c *connector.Config) {
			c.Connectors = append(c.Connectors, toy(func(c *connector.Connector) { c.Provider = "other" }))
		}, `tool "desk.get" is registered twice`},
		{"same provider twice", func(c *connector.Config) { c.Connectors = append(c.Connectors, toy(nil)) }, `provider "notes" has two connectors`},
		{"no policy", func(c *connector.Config) { c.Policy = nil }, "config: Policy is missing"},
		{"no consent", func(c *connector.Config) { c.Consent = nil }, "config: Consent is missing"},
		{"no connections", func(c *connector.Config) { c.Connections = nil }, "config: Connections is missing"},
		{"no transport", func(c *connector.Config) { c.Transport = nil }, "config: Transport is missing"},
		{"no auditor", func(c *connector.Config) { c.Auditor = nil }, "config: Auditor is missing"},
		{"no cursors for a list", func(c *connector.Config) { c.Cursors = nil }, "config: Cursors, which desk.search needs, is missing"},
		{"no ledger for a write", func(c *connector.Config) { c.Operations = nil }, "config: Operations, which desk.create needs, is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.config.Connectors = []connector.Connector{toy(nil)}
			c.edit(&h.config)
			if rt, err := connector.New(h.config); rt != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New = %v, %v; want %q", rt, err, c.want)
			}
		})
	}
}
