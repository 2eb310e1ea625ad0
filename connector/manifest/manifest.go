package manifest

import (
	"encoding/json"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Format is the version of the document's own form.
const Format = 1

// A Manifest describes one version of one connector. Its JSON form has every
// key; lists that hold nothing are empty, not absent.
type Manifest struct {
	Format          int    `json:"manifest"` // always [Format]
	ID              string `json:"id"`
	Version         string `json:"version"` // semantic version of the connector
	Owner           string `json:"owner"`
	Provider        string `json:"provider"`
	ProviderVersion string `json:"provider_api_version"`
	// EndpointProfile names where the provider is; the address itself is the
	// administrator's and stays out. Set by the host, absent when empty.
	EndpointProfile string       `json:"endpoint_profile,omitempty"`
	Auth            Auth         `json:"auth"`
	Capabilities    []Capability `json:"capabilities"`
	Output          Output       `json:"output"`
	Limitations     []string     `json:"limitations"` // what the provider can't guarantee
}

// Auth is how the connector is connected.
type Auth struct {
	Kind   connector.AuthKind `json:"kind"`
	Scopes []string           `json:"scopes"` // everything that is asked for
	// CredentialStore names where the host keeps credentials. Set by the host,
	// absent when empty.
	CredentialStore string `json:"credential_store,omitempty"`
}

// A Capability is one operation with both of its risk classes.
type Capability struct {
	Name        string                `json:"name"`
	Scopes      []string              `json:"scopes"`
	Effect      connector.Effect      `json:"effect"`
	Sensitivity connector.Sensitivity `json:"sensitivity"`
	Approval    bool                  `json:"approval"`             // a person approves each payload
	Dedupe      *Dedupe               `json:"dedupe,omitempty"`     // writes have it, reads don't
	Deprecated  string                `json:"deprecated,omitempty"` // why not to use it any more
}

// Dedupe says how the provider recognises a repeated write.
type Dedupe struct {
	Kind string `json:"kind"`           // none, header, field, marker
	Name string `json:"name,omitempty"` // of the header or the field
}

// Output is the policy for what may leave.
type Output struct {
	Excluded []string `json:"excluded"` // properties that never leave, at any depth
	// Preserved are the properties that can leave: those that the closed output
	// schemas declare, at any depth.
	Preserved []string `json:"preserved"`
}

// Of describes a connector. It reports what is there and judges nothing: a
// connector that [connector.Lint] refuses gives a manifest that [Parse] refuses.
func Of(c connector.Connector) Manifest {
	m := Manifest{
		Format: Format, ID: c.ID, Version: c.Version, Owner: c.Owner,
		Provider: c.Provider, ProviderVersion: c.ProviderVersion,
		Auth:         Auth{Kind: c.Auth.Kind, Scopes: list(c.Auth.Scopes)},
		Capabilities: []Capability{},
		Output:       Output{Excluded: list(c.Excluded), Preserved: []string{}},
		Limitations:  list(c.Limitations),
	}
	for i, d := range c.Definitions() {
		capability := Capability{
			Name: d.Name, Scopes: list(d.Scopes), Effect: d.Effect, Sensitivity: d.Sensitivity,
			Approval: d.Approval, Deprecated: d.Deprecated,
		}
		if d.Effect != connector.EffectRead {
			dedupe := c.Operations[i].Dedupe()
			capability.Dedupe = &Dedupe{Kind: dedupeText(dedupe.Kind), Name: dedupe.Name}
		}
		m.Capabilities = append(m.Capabilities, capability)
		m.Output.Preserved = append(m.Output.Preserved, declared(d.OutputSchema)...)
	}
	slices.Sort(m.Output.Preserved)
	m.Output.Preserved = slices.Compact(m.Output.Preserved)
	return m
}

// UnmarshalJSON is Parse, so that there is no lax way in.
func (m *Manifest) UnmarshalJSON(raw []byte) error {
	parsed, err := Parse(raw)
	if err == nil {
		*m = parsed
	}
	return err
}

func dedupeText(k connector.DedupeKind) string {
	if k == connector.DedupeNone {
		return "none"
	}
	return string(k)
}

// list keeps the order and drops repeats, which mean nothing in these lists.
func list(all []string) []string {
	once := []string{}
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// declared collects the names of all properties of a schema. A schema that is
// not JSON has none; Lint reports it.
func declared(schema []byte) []string {
	var doc any
	if json.Unmarshal(schema, &doc) != nil {
		return nil
	}
	var names []string
	var visit func(any)
	visit = func(node any) {
		switch n := node.(type) {
		case map[string]any:
			if properties, ok := n["properties"].(map[string]any); ok {
				for name := range properties {
					names = append(names, name)
				}
			}
			for _, child := range n {
				visit(child)
			}
		case []any:
			for _, child := range n {
				visit(child)
			}
		}
	}
	visit(doc)
	return names
}
