package connector

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	idPattern      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	versionPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// reserved names are facts that the host or the framework supplies. A model that
// could set one would choose its own tenant, credential or target.
// They are compared without case, underscores and dashes.
var reserved = []string{
	"tenant", "tenantid", "user", "userid", "principal", "principalid", "connection", "connectionid", "accountid",
	"token", "accesstoken", "refreshtoken", "apikey", "authorization", "password", "secret", "credential", "credentials",
	"approval", "approvalid", "approved", "operationid", "idempotencykey", "intent",
	"url", "baseurl", "uri", "host", "hostname", "endpoint", "port", "proxy", "headers",
}

var plain = strings.NewReplacer("_", "", "-", "")

// Lint reports everything that is wrong with a connector at once, in the words
// of its author; nil means that it can be mounted.
func Lint(c Connector) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !idPattern.MatchString(c.ID) {
		fault("connector id %q must match %s", c.ID, idPattern)
	}
	if !versionPattern.MatchString(c.Version) {
		fault("%s: version %q is not a semantic version", c.ID, c.Version)
	}
	for _, fact := range []struct{ what, value string }{{"owner", c.Owner}, {"provider", c.Provider},
		{"provider API version", c.ProviderVersion}, {"auth kind", string(c.Auth.Kind)}} {
		if fact.value == "" {
			fault("%s: the %s is missing", c.ID, fact.what)
		}
	}
	if c.Identify == nil {
		fault("%s can't be connected: it has no Identify, and what a user typed is not believed", c.ID)
	}
	if len(c.Operations) == 0 {
		fault("%s has no operations", c.ID)
	}
	names := map[string]bool{}
	for _, o := range c.Operations {
		s := o.spec
		faults = append(faults, o.faults...)
		if !namePattern.MatchString(s.Name) || !strings.HasPrefix(s.Name, c.ID+".") {
			fault("operation %q must be named %s.something, in lower case", s.Name, c.ID)
		}
		if names[s.Name] {
			fault("%s is there twice", s.Name)
		}
		names[s.Name] = true
		if s.Title == "" || s.Doc == "" {
			fault("%s needs a title and a doc: a model chooses by them", s.Name)
		}
		if s.Effect < EffectRead || s.Effect > EffectIrreversible {
			fault("%s is unclassified: set its effect", s.Name)
		} else if (o.kind == kindWrite) == (s.Effect == EffectRead) {
			fault("%s is made as a %s but its effect is %s", s.Name, o.kind, s.Effect)
		}
		if s.Sensitivity < SensitivityPublic || s.Sensitivity > SensitivityRestricted {
			fault("%s is unclassified: set its sensitivity", s.Name)
		}
		if len(s.Scopes) == 0 {
			fault("%s names no scope that it needs", s.Name)
		}
		for _, scope := range s.Scopes {
			if !slices.Contains(c.Auth.Scopes, scope) {
				fault("%s needs scope %q, which the connector never asks for", s.Name, scope)
			}
		}
		switch o.dedupe.Kind {
		case DedupeNone, DedupeHeader, DedupeField, DedupeMarker:
		default:
			fault("%s: there is no way of recognising repeats called %q", s.Name, o.dedupe.Kind)
		}
		if o.settle < 0 {
			fault("%s: a settle time can't be negative", s.Name)
		}
		if o.dedupe.Kind == DedupeHeader && o.dedupe.Name == "" || o.dedupe.Kind == DedupeField && o.dedupe.Name == "" {
			fault("%s: a %s that recognises repeats needs a name", s.Name, o.dedupe.Kind)
		}
		faults = append(faults, lintSchemas(c, o)...)
	}
	return errors.Join(faults...)
}

func lintSchemas(c Connector, o Operation) (faults []error) {
	if o.input != nil {
		o.input.Properties(func(property string) {
			if slices.Contains(reserved, plain.Replace(strings.ToLower(property))) {
				faults = append(faults, fmt.Errorf("%s: %q can't be a parameter; the framework supplies it", o.spec.Name, property))
			}
		})
	}
	if o.output != nil {
		o.output.Properties(func(property string) {
			if slices.Contains(c.Excluded, property) {
				faults = append(faults, fmt.Errorf("%s would let %q out, which the connector excludes", o.spec.Name, property))
			}
		})
	}
	return faults
}

func (k opKind) String() string { return [...]string{"", "read", "list", "write"}[k] }

// Definition is what a model or a person is shown of the operation when it is
// mounted as part of c.
func (o Operation) definition(c Connector) Definition {
	s := o.spec
	d := Definition{
		Name: s.Name, Title: s.Title, Description: s.Doc, Effect: s.Effect, Sensitivity: s.Sensitivity,
		Scopes: slices.Clone(s.Scopes), Approval: o.kind == kindWrite, Connector: c.ID, Version: c.Version,
		Provider: c.Provider, Limitations: slices.Clone(c.Limitations), Deprecated: s.Deprecated,
	}
	if o.input != nil {
		d.InputSchema = slices.Clone(o.input.Raw)
	}
	if o.output != nil {
		d.OutputSchema = slices.Clone(o.output.Raw)
	}
	return d
}

// Dedupe says how the provider recognises this write; zero for reads.
func (o Operation) Dedupe() Dedupe { return o.dedupe }

// Definitions describes all operations of a connector in their order.
func (c Connector) Definitions() []Definition {
	all := make([]Definition, len(c.Operations))
	for i, o := range c.Operations {
		all[i] = o.definition(c)
	}
	return all
}
