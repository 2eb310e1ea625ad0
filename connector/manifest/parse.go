package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
)

const (
	maxBytes  = 1 << 20
	maxFaults = 100 // past that, a file isn't a manifest with mistakes
)

var (
	idPattern      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	versionPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	// A profile or store is named, never addressed: no scheme, host or path fits.
	refPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
)

// Parse reads one manifest. Its error joins one [Fault] for each thing wrong,
// in the order of the text. Where the text isn't JSON, the first place that
// isn't is the only fault: nothing behind it can be trusted to mean anything.
func Parse(raw []byte) (Manifest, error) {
	if len(raw) > maxBytes {
		return Manifest{}, fmt.Errorf("the manifest has %d bytes, over the limit of %d", len(raw), maxBytes)
	}
	root, malformed := strictjson.Parse(raw)
	if malformed != nil {
		return Manifest{}, strictjson.Placed(raw, *malformed)
	}
	r := reader{new(strictjson.Reader)}
	m := r.manifest(root)
	found := r.Faults()
	if len(found) == 0 {
		return m, nil
	}
	var faults []error
	for _, f := range found[:min(len(found), maxFaults)] {
		faults = append(faults, strictjson.Placed(raw, f))
	}
	return Manifest{}, errors.Join(faults...)
}

// A reader knows the manifest's keys.
type reader struct{ *strictjson.Reader }

func (r reader) manifest(root strictjson.Node) (m Manifest) {
	var auth, output, capabilities strictjson.Node
	r.Object(root, "", map[string]strictjson.Field{
		"manifest": {Read: func(n strictjson.Node, at string) {
			if n.Kind != '0' || n.Text != strconv.Itoa(Format) {
				r.Fault(n, at, "must be the number %d, the only format there is", Format)
			}
			m.Format = Format
		}},
		"id":                   r.Matches(&m.ID, idPattern, "a lower-case name"),
		"version":              r.Matches(&m.Version, versionPattern, "a semantic version"),
		"owner":                r.Text(&m.Owner),
		"provider":             r.Text(&m.Provider),
		"provider_api_version": r.Text(&m.ProviderVersion),
		"endpoint_profile":     strictjson.Optional(r.Matches(&m.EndpointProfile, refPattern, "the name of a profile")),
		"auth":                 {Read: func(n strictjson.Node, _ string) { auth = n }},
		"capabilities":         {Read: func(n strictjson.Node, _ string) { capabilities = n }},
		"output":               {Read: func(n strictjson.Node, _ string) { output = n }},
		"limitations":          r.Texts(&m.Limitations),
	})
	if auth.Kind != 0 {
		r.Object(auth, "/auth", map[string]strictjson.Field{
			"kind":             r.Matches((*string)(&m.Auth.Kind), idPattern, "a credential kind"),
			"scopes":           r.Texts(&m.Auth.Scopes),
			"credential_store": strictjson.Optional(r.Matches(&m.Auth.CredentialStore, refPattern, "the name of a store")),
		})
	}
	if output.Kind != 0 {
		r.Object(output, "/output", map[string]strictjson.Field{
			"excluded":  r.Texts(&m.Output.Excluded),
			"preserved": r.Texts(&m.Output.Preserved),
		})
		for _, name := range m.Output.Excluded {
			if slices.Contains(m.Output.Preserved, name) {
				r.Fault(output, "/output", "excludes and preserves the same property")
				break
			}
		}
	}
	// Last, because they are read against the id and the scopes.
	if capabilities.Kind != 0 {
		m.Capabilities = r.capabilities(capabilities, m)
	}
	return m
}

func (r reader) capabilities(list strictjson.Node, m Manifest) []Capability {
	const at = "/capabilities"
	if list.Kind != '[' {
		r.Fault(list, at, "must be a list")
		return nil
	}
	if len(list.Items) == 0 {
		r.Fault(list, at, "is empty")
	}
	all := []Capability{}
	names := map[string]bool{}
	for i, item := range list.Items {
		pointer := at + "/" + strconv.Itoa(i)
		all = append(all, r.capability(item, pointer, m, names))
	}
	return all
}

func (r reader) capability(n strictjson.Node, at string, m Manifest, names map[string]bool) (c Capability) {
	r.Object(n, at, map[string]strictjson.Field{
		"name": {Read: func(n strictjson.Node, at string) {
			r.Matches(&c.Name, namePattern, "connector.operation, in lower case").Read(n, at)
			if c.Name == "" {
				return
			}
			if m.ID != "" && !strings.HasPrefix(c.Name, m.ID+".") {
				r.Fault(n, at, "must begin with the connector's id and a dot")
			}
			if names[c.Name] {
				r.Fault(n, at, "names a capability that is there already")
			}
			names[c.Name] = true
		}},
		"scopes": {Read: func(n strictjson.Node, at string) {
			r.Texts(&c.Scopes).Read(n, at)
			if n.Kind == '[' && len(n.Items) == 0 {
				r.Fault(n, at, "is empty: a capability needs at least one scope")
			}
			for i, scope := range n.Items {
				if scope.Kind == '"' && m.Auth.Scopes != nil && !slices.Contains(m.Auth.Scopes, scope.Text) {
					r.Fault(scope, at+"/"+strconv.Itoa(i), "is a scope that auth never asks for")
				}
			}
		}},
		"effect": {Read: func(n strictjson.Node, at string) {
			c.Effect = class(r, n, at, connector.EffectRead, connector.EffectIrreversible)
		}},
		"sensitivity": {Read: func(n strictjson.Node, at string) {
			c.Sensitivity = class(r, n, at, connector.SensitivityPublic, connector.SensitivityRestricted)
		}},
		"approval": {Read: func(n strictjson.Node, at string) {
			if n.Kind != 't' && n.Kind != 'f' {
				r.Fault(n, at, "must be true or false")
			}
			c.Approval = n.Kind == 't'
		}},
		"dedupe": strictjson.Optional(strictjson.Field{Read: func(n strictjson.Node, at string) { c.Dedupe = r.dedupe(n, at) }}),
		// Present and empty would be a deprecation without a reason.
		"deprecated": strictjson.Optional(r.Text(&c.Deprecated)),
	})
	if c.Effect > connector.EffectRead {
		if member, ok := n.Member("approval"); ok && member.Kind == 'f' {
			r.Fault(member, at+"/approval", "must be true: every write is approved")
		}
		if _, ok := n.Member("dedupe"); !ok {
			r.Fault(n, at, "is a write and lacks the key dedupe; say none if the provider recognises no repeat")
		}
	} else if member, ok := n.Member("dedupe"); ok && c.Effect == connector.EffectRead {
		r.Fault(member, at+"/dedupe", "is for writes, and this is a read")
	}
	return c
}

func (r reader) dedupe(n strictjson.Node, at string) *Dedupe {
	var d Dedupe
	r.Object(n, at, map[string]strictjson.Field{
		"kind": {Read: func(n strictjson.Node, at string) {
			known := []string{"none", string(connector.DedupeHeader), string(connector.DedupeField), string(connector.DedupeMarker)}
			if n.Kind != '"' || !slices.Contains(known, n.Text) {
				r.Fault(n, at, "must be one of %s", strings.Join(known, ", "))
				return
			}
			d.Kind = n.Text
		}},
		"name": strictjson.Optional(r.Text(&d.Name)),
	})
	needs := d.Kind == string(connector.DedupeHeader) || d.Kind == string(connector.DedupeField)
	if needs && d.Name == "" {
		r.Fault(n, at, "needs the name of the %s", d.Kind)
	}
	return &d
}

// class reads one of the closed lists of risk classes. There is no class that
// an absent or unknown one stands for.
func class[C interface {
	~int
	String() string
}](r reader, n strictjson.Node, at string, low, high C) C {
	var known []string
	for c := low; c <= high; c++ {
		if n.Kind == '"' && n.Text == c.String() {
			return c
		}
		known = append(known, c.String())
	}
	r.Fault(n, at, "must be one of %s", strings.Join(known, ", "))
	return 0
}
