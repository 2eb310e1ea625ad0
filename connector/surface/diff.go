package surface

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
)

// A Kind says what a change means for those who use the connector.
type Kind int

const (
	Compatible   Kind = iota + 1
	NeedsConsent      // may do or see more than people agreed to
	Breaking          // something that worked stops
)

func (k Kind) String() string {
	if k < Compatible || k > Breaking {
		return "unclassified"
	}
	return [...]string{"compatible", "needs new consent", "breaking"}[k-1]
}

// MarshalText writes the text form.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// MarshalText writes the text form.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Line is one difference between two surfaces.
type Line struct {
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"` // what differs: a tool, a place in its input, a fact of the connector
	Reason  string `json:"reason"`
	Step    Step   `json:"step"` // the least version step for it
}

func (l Line) String() string { return fmt.Sprintf("%s: %s: %s", l.Kind, l.Subject, l.Reason) }

// Diff lists what changes for those who used old when new takes its place. The
// worst comes first; equal surfaces give no line. Versions are Check's business.
func Diff(old, new Surface) []Line {
	d := &diff{}
	d.connector(old.Manifest, new.Manifest)
	d.tools(old, new)
	slices.SortStableFunc(d.lines, func(a, b Line) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return d.lines
}

type diff struct{ lines []Line }

func (d *diff) say(k Kind, s Step, subject, format string, args ...any) {
	d.lines = append(d.lines, Line{k, subject, fmt.Sprintf(format, args...), s})
}

func (d *diff) breaking(subject, format string, args ...any) {
	d.say(Breaking, Major, subject, format, args...)
}

// widened is a major step: who takes minor updates unread must not ask people
// for more, or send their data elsewhere, without noticing.
func (d *diff) widened(subject, format string, args ...any) {
	d.say(NeedsConsent, Major, subject, format, args...)
}

func (d *diff) compatible(s Step, subject, format string, args ...any) {
	d.say(Compatible, s, subject, format, args...)
}

func (d *diff) connector(old, new manifest.Manifest) {
	for _, fact := range []struct{ what, old, new, why string }{
		{"id", old.ID, new.ID, "it is another connector"},
		{"provider", old.Provider, new.Provider, "connections to the old provider don't serve it"},
	} {
		if fact.old != fact.new {
			d.breaking(fact.what, "was %s, is %s: %s", fact.old, fact.new, fact.why)
		}
	}
	for _, fact := range []struct{ what, old, new, why string }{
		{"owner", old.Owner, new.Owner, "somebody else answers for it"},
		{"endpoint profile", old.EndpointProfile, new.EndpointProfile, "requests go elsewhere"},
		{"auth kind", string(old.Auth.Kind), string(new.Auth.Kind), "people agreed to another way of connecting"},
		{"credential store", old.Auth.CredentialStore, new.Auth.CredentialStore, "credentials are kept elsewhere"},
	} {
		if fact.old != fact.new {
			d.widened(fact.what, "was %s, is %s: %s", orNone(fact.old), orNone(fact.new), fact.why)
		}
	}
	if old.ProviderVersion != new.ProviderVersion {
		d.compatible(Minor, "provider API version", "was %s, is %s", old.ProviderVersion, new.ProviderVersion)
	}
	d.scopes("connecting", old.Auth.Scopes, new.Auth.Scopes)
	for _, name := range missing(old.Output.Excluded, new.Output.Excluded) {
		d.widened("output policy", "%q never left, and may leave now", name)
	}
	for _, name := range missing(new.Output.Excluded, old.Output.Excluded) {
		d.compatible(Patch, "output policy", "%q never leaves any more", name)
	}
	// More than a patch, so that the notes of a release mention it. Not more
	// than that, or authors would keep to themselves what they find out.
	for _, text := range missing(new.Limitations, old.Limitations) {
		d.compatible(Minor, "limitations", "it says now that it can't guarantee this: %s", text)
	}
	for _, text := range missing(old.Limitations, new.Limitations) {
		d.compatible(Patch, "limitations", "no longer a limitation: %s", text)
	}
}

func (d *diff) scopes(subject string, old, new []string) {
	if more := missing(new, old); len(more) > 0 {
		d.widened(subject, "needs more scopes: %s", strings.Join(more, " "))
	}
	if fewer := missing(old, new); len(fewer) > 0 {
		d.compatible(Patch, subject, "needs fewer scopes, without %s", strings.Join(fewer, " "))
	}
}

func (d *diff) tools(old, new Surface) {
	capabilities := map[string]manifest.Capability{}
	for _, c := range new.Manifest.Capabilities {
		capabilities[c.Name] = c
	}
	known := map[string]bool{}
	for _, was := range old.Manifest.Capabilities {
		known[was.Name] = true
		is, still := capabilities[was.Name]
		if !still {
			if was.Deprecated == "" {
				d.breaking(was.Name, "is gone, and was never deprecated before")
			} else {
				d.breaking(was.Name, "is gone, as its deprecation said")
			}
			continue
		}
		d.capability(was, is)
		d.tool(tool(old, was.Name), tool(new, was.Name))
	}
	for _, is := range new.Manifest.Capabilities {
		if !known[is.Name] {
			// Nobody has it until a host switches it on, so a minor step is enough.
			d.say(NeedsConsent, Minor, is.Name, "is new: %s, %s, scopes %s", is.Effect, is.Sensitivity, strings.Join(is.Scopes, " "))
		}
	}
}

func (d *diff) capability(old, new manifest.Capability) {
	name := old.Name
	d.scopes(name, old.Scopes, new.Scopes)
	class(d, name, "effect", old.Effect, new.Effect)
	class(d, name, "sensitivity", old.Sensitivity, new.Sensitivity)
	switch {
	case old.Approval && !new.Approval:
		d.widened(name, "no person approves it any more")
	case !old.Approval && new.Approval:
		d.breaking(name, "waits for a person's approval now")
	}
	if was, is := dedupeText(old.Dedupe), dedupeText(new.Dedupe); was != is && old.Approval && new.Approval {
		d.breaking(name, "repeats were recognised by %s, now by %s: writes that are still open carry the old mark", was, is)
	}
	switch {
	case old.Deprecated == new.Deprecated:
	case new.Deprecated == "":
		d.compatible(Patch, name, "is no longer deprecated")
	case old.Deprecated == "":
		d.compatible(Minor, name, "is deprecated, and still works: %s", new.Deprecated)
	default:
		d.compatible(Patch, name, "the reason of its deprecation changed")
	}
}

func class[C interface {
	connector.Effect | connector.Sensitivity
	String() string
}](d *diff, name, what string, old, new C) {
	switch {
	case new > old:
		d.widened(name, "%s was %s, is %s", what, old, new)
	case new < old:
		d.compatible(Minor, name, "%s was %s, is %s: lower than people agreed to", what, old, new)
	}
}

func (d *diff) tool(old, new Tool) {
	if old.Title != new.Title || old.Description != new.Description {
		d.compatible(Patch, old.Name, "the text that people and models choose by changed")
	}
	d.schema(old.Name+" input", old.Input, new.Input, false)
	d.schema(old.Name+" output", old.Output, new.Output, true)
}

// Check compares two surfaces of a connector and fails when the new version
// hides what changed: no step or a step back, a step that is too small, and a
// tool that goes without having been deprecated in a version before. The error
// has one line for each reason.
func Check(old, new Surface) error {
	if old.Manifest.ID != new.Manifest.ID {
		return fmt.Errorf("%s and %s are two connectors", old.Manifest.ID, new.Manifest.ID)
	}
	was, err := parseVersion(old.Manifest.Version)
	if err != nil {
		return err
	}
	is, err := parseVersion(new.Manifest.Version)
	if err != nil {
		return err
	}
	var faults []string
	for _, c := range old.Manifest.Capabilities {
		if c.Deprecated == "" && tool(new, c.Name).Name == "" {
			faults = append(faults, c.Name+" is gone: a tool is deprecated in one version before it goes in another")
		}
	}
	made := Step(0)
	switch c := is.compare(was); {
	case c < 0:
		faults = append(faults, fmt.Sprintf("the version goes back from %s to %s", old.Manifest.Version, new.Manifest.Version))
	case c > 0:
		made = was.to(is)
	}
	for _, l := range Diff(old, new) {
		if l.Step > made {
			faults = append(faults, fmt.Sprintf("%s (needs a %s step from %s, and %s is a %s one)", l, l.Step, old.Manifest.Version, new.Manifest.Version, made))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("the version does not say what changed:\n  %s", strings.Join(faults, "\n  "))
}

func tool(s Surface, name string) Tool {
	for _, t := range s.Tools {
		if t.Name == name {
			return t
		}
	}
	return Tool{}
}

func dedupeText(d *manifest.Dedupe) string {
	if d == nil {
		return "nothing"
	}
	return strings.TrimSpace(d.Kind + " " + d.Name)
}

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}

// missing are the entries of all that others lacks.
func missing(all, others []string) (gone []string) {
	for _, s := range all {
		if !slices.Contains(others, s) {
			gone = append(gone, s)
		}
	}
	return gone
}
