package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
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
	root, malformed := parse(raw)
	if malformed != nil {
		return Manifest{}, malformed
	}
	var r reader
	m := r.manifest(root)
	if len(r.found) == 0 {
		return m, nil
	}
	slices.SortStableFunc(r.found, func(a, b found) int { return cmp.Compare(a.at, b.at) })
	var faults []error
	for _, f := range r.found[:min(len(r.found), maxFaults)] {
		faults = append(faults, fault(raw, f.at, f.pointer, f.problem))
	}
	return Manifest{}, errors.Join(faults...)
}

func (r *reader) manifest(root node) (m Manifest) {
	var auth, output, capabilities node
	r.object(root, "", map[string]field{
		"manifest": {read: func(n node, at string) {
			if n.kind != '0' || n.text != strconv.Itoa(Format) {
				r.fault(n, at, "must be the number %d, the only format there is", Format)
			}
			m.Format = Format
		}},
		"id":                   r.matches(&m.ID, idPattern, "a lower-case name"),
		"version":              r.matches(&m.Version, versionPattern, "a semantic version"),
		"owner":                r.text(&m.Owner),
		"provider":             r.text(&m.Provider),
		"provider_api_version": r.text(&m.ProviderVersion),
		"endpoint_profile":     optional(r.matches(&m.EndpointProfile, refPattern, "the name of a profile")),
		"auth":                 {read: func(n node, _ string) { auth = n }},
		"capabilities":         {read: func(n node, _ string) { capabilities = n }},
		"output":               {read: func(n node, _ string) { output = n }},
		"limitations":          r.texts(&m.Limitations),
	})
	if auth.kind != 0 {
		r.object(auth, "/auth", map[string]field{
			"kind":             r.matches((*string)(&m.Auth.Kind), idPattern, "a credential kind"),
			"scopes":           r.texts(&m.Auth.Scopes),
			"credential_store": optional(r.matches(&m.Auth.CredentialStore, refPattern, "the name of a store")),
		})
	}
	if output.kind != 0 {
		r.object(output, "/output", map[string]field{
			"excluded":  r.texts(&m.Output.Excluded),
			"preserved": r.texts(&m.Output.Preserved),
		})
		for _, name := range m.Output.Excluded {
			if slices.Contains(m.Output.Preserved, name) {
				r.fault(output, "/output", "excludes and preserves the same property")
				break
			}
		}
	}
	// Last, because they are read against the id and the scopes.
	if capabilities.kind != 0 {
		m.Capabilities = r.capabilities(capabilities, m)
	}
	return m
}

func (r *reader) capabilities(list node, m Manifest) []Capability {
	const at = "/capabilities"
	if list.kind != '[' {
		r.fault(list, at, "must be a list")
		return nil
	}
	if len(list.items) == 0 {
		r.fault(list, at, "is empty")
	}
	all := []Capability{}
	names := map[string]bool{}
	for i, item := range list.items {
		pointer := at + "/" + strconv.Itoa(i)
		all = append(all, r.capability(item, pointer, m, names))
	}
	return all
}

func (r *reader) capability(n node, at string, m Manifest, names map[string]bool) (c Capability) {
	r.object(n, at, map[string]field{
		"name": {read: func(n node, at string) {
			r.matches(&c.Name, namePattern, "connector.operation, in lower case").read(n, at)
			if c.Name == "" {
				return
			}
			if m.ID != "" && !strings.HasPrefix(c.Name, m.ID+".") {
				r.fault(n, at, "must begin with the connector's id and a dot")
			}
			if names[c.Name] {
				r.fault(n, at, "names a capability that is there already")
			}
			names[c.Name] = true
		}},
		"scopes": {read: func(n node, at string) {
			r.texts(&c.Scopes).read(n, at)
			if n.kind == '[' && len(n.items) == 0 {
				r.fault(n, at, "is empty: a capability needs at least one scope")
			}
			for i, scope := range n.items {
				if scope.kind == '"' && m.Auth.Scopes != nil && !slices.Contains(m.Auth.Scopes, scope.text) {
					r.fault(scope, at+"/"+strconv.Itoa(i), "is a scope that auth never asks for")
				}
			}
		}},
		"effect": {read: func(n node, at string) {
			c.Effect = class(r, n, at, connector.EffectRead, connector.EffectIrreversible)
		}},
		"sensitivity": {read: func(n node, at string) {
			c.Sensitivity = class(r, n, at, connector.SensitivityPublic, connector.SensitivityRestricted)
		}},
		"approval": {read: func(n node, at string) {
			if n.kind != 't' && n.kind != 'f' {
				r.fault(n, at, "must be true or false")
			}
			c.Approval = n.kind == 't'
		}},
		"dedupe": optional(field{read: func(n node, at string) { c.Dedupe = r.dedupe(n, at) }}),
		// Present and empty would be a deprecation without a reason.
		"deprecated": optional(r.text(&c.Deprecated)),
	})
	if c.Effect > connector.EffectRead {
		if member, ok := n.member("approval"); ok && member.kind == 'f' {
			r.fault(member, at+"/approval", "must be true: every write is approved")
		}
		if _, ok := n.member("dedupe"); !ok {
			r.fault(n, at, "is a write and lacks the key dedupe; say none if the provider recognises no repeat")
		}
	} else if member, ok := n.member("dedupe"); ok && c.Effect == connector.EffectRead {
		r.fault(member, at+"/dedupe", "is for writes, and this is a read")
	}
	return c
}

func (r *reader) dedupe(n node, at string) *Dedupe {
	var d Dedupe
	r.object(n, at, map[string]field{
		"kind": {read: func(n node, at string) {
			known := []string{"none", string(connector.DedupeHeader), string(connector.DedupeField), string(connector.DedupeMarker)}
			if n.kind != '"' || !slices.Contains(known, n.text) {
				r.fault(n, at, "must be one of %s", strings.Join(known, ", "))
				return
			}
			d.Kind = n.text
		}},
		"name": optional(r.text(&d.Name)),
	})
	needs := d.Kind == string(connector.DedupeHeader) || d.Kind == string(connector.DedupeField)
	if needs && d.Name == "" {
		r.fault(n, at, "needs the name of the %s", d.Kind)
	}
	return &d
}

// class reads one of the closed lists of risk classes. There is no class that
// an absent or unknown one stands for.
func class[C interface {
	~int
	String() string
}](r *reader, n node, at string, low, high C) C {
	var known []string
	for c := low; c <= high; c++ {
		if n.kind == '"' && n.text == c.String() {
			return c
		}
		known = append(known, c.String())
	}
	r.fault(n, at, "must be one of %s", strings.Join(known, ", "))
	return 0
}
