package profiles

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

const (
	maxBytes  = 1 << 20
	maxFaults = 100 // past that, a file isn't a profile file with mistakes
)

// The same form as a manifest's reference to a profile.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// A File is what an administrator's profile file says.
type File struct {
	Profiles []transport.Profile
	NAT64    []netip.Prefix // as in transport.Config
}

// Parse reads one profile file. Files reads what roots_file and
// proxy_credentials_file name; nil: naming a file is a fault. On an error there
// is no profile at all, because a set with one missing is another policy.
func Parse(raw []byte, files func(name string) ([]byte, error)) (File, error) {
	if len(raw) > maxBytes {
		return File{}, fmt.Errorf("the profile file has %d bytes, over the limit of %d", len(raw), maxBytes)
	}
	root, malformed := strictjson.Parse(raw)
	if malformed != nil {
		return File{}, strictjson.Placed(raw, *malformed)
	}
	r := reader{new(strictjson.Reader), files}
	all := r.file(root)
	found := r.Faults()
	if len(found) == 0 {
		return all, nil
	}
	var faults []error
	for _, f := range found[:min(len(found), maxFaults)] {
		faults = append(faults, strictjson.Placed(raw, f))
	}
	return File{}, errors.Join(faults...)
}

// Static makes the profiles findable by name.
func Static(all []transport.Profile) transport.Static {
	s := transport.Static{}
	for _, p := range all {
		s[p.Name] = p
	}
	return s
}

// A reader knows the keys of a profile file.
type reader struct {
	*strictjson.Reader
	files func(string) ([]byte, error)
}

func (r reader) file(root strictjson.Node) (f File) {
	names := map[string]bool{}
	r.Object(root, "", map[string]strictjson.Field{
		"profiles": {Read: func(list strictjson.Node, at string) {
			r.List(list, at, func(n strictjson.Node, at string) {
				p := r.profile(n, at)
				if name, ok := n.Member("name"); ok && p.Name != "" {
					if names[p.Name] {
						r.Fault(name, at+"/name", "names a profile that is there already")
					}
					names[p.Name] = true
				}
				f.Profiles = append(f.Profiles, p)
			})
			if list.Kind == '[' && len(list.Items) == 0 {
				r.Fault(list, at, "is empty: without a profile nothing can be reached")
			}
		}},
		"nat64": strictjson.Optional(strictjson.Field{Read: func(list strictjson.Node, at string) {
			r.List(list, at, func(n strictjson.Node, at string) {
				prefix, err := netip.ParsePrefix(n.Text)
				if n.Kind != '"' || err != nil || prefix != prefix.Masked() || prefix.Addr().Is4() || prefix.Bits() != 96 {
					r.Fault(n, at, "must be an IPv6 /96 such as \"2001:db8:64::/96\"")
					return
				}
				f.NAT64 = append(f.NAT64, prefix)
			})
		}}),
	})
	return f
}

// A place is a URL of a profile that waits for the exceptions it is judged with.
type place struct {
	node strictjson.Node
	at   string
	url  string
}

func (r reader) profile(n strictjson.Node, at string) (p transport.Profile) {
	var (
		base, proxy place
		auth        []place
		exceptions  []exception
		roots       int
		credentials string
	)
	keep := func(into *place) strictjson.Field {
		return strictjson.Field{Read: func(n strictjson.Node, at string) {
			r.Text(&into.url).Read(n, at)
			into.node, into.at = n, at
		}}
	}
	r.Object(n, at, map[string]strictjson.Field{
		"name":     r.Matches(&p.Name, namePattern, "a lower-case name of at most 64 characters"),
		"base_url": keep(&base),
		"auth_origins": strictjson.Optional(strictjson.Field{Read: func(n strictjson.Node, at string) {
			r.List(n, at, func(item strictjson.Node, at string) {
				var o place
				keep(&o).Read(item, at)
				auth = append(auth, o)
			})
		}}),
		"private": strictjson.Optional(strictjson.Field{Read: func(n strictjson.Node, at string) {
			r.List(n, at, func(item strictjson.Node, at string) { exceptions = append(exceptions, r.exception(item, at)) })
		}}),
		"roots":                     strictjson.Optional(r.roots(&p.Roots, &roots, false)),
		"roots_file":                strictjson.Optional(r.roots(&p.Roots, &roots, true)),
		"proxy":                     strictjson.Optional(keep(&proxy)),
		"proxy_credentials_file":    strictjson.Optional(r.credentials(&credentials)),
		"http2":                     strictjson.Optional(r.truth(&p.HTTP2)),
		"request_id_header":         strictjson.Optional(r.requestID(&p.RequestIDHeader)),
		"refuses_before_processing": strictjson.Optional(r.statuses(&p.RefusesBeforeProcessing)),
		"limits":                    strictjson.Optional(r.limits(&p.Limits)),
	})
	if n.Kind != '{' {
		return p
	}
	before := len(r.Faults())
	r.places(&p, base, auth, proxy, credentials, exceptions)
	if member, ok := n.Member("proxy_credentials_file"); ok && proxy.url == "" {
		r.Fault(member, at+"/proxy_credentials_file", "is for a proxy, and there is none")
	}
	// All that the transport checks was asked above, key by key. Should it ever
	// refuse more than that, the profile must not pass here.
	if len(r.Faults()) == before && before == 0 {
		if err := p.Validate(); err != nil {
			r.Fault(n, at, "%s", reason(p))
		}
	}
	return p
}

// reason is the transport's own word on the first thing wrong with a profile,
// or empty. Its texts quote no value.
func reason(p transport.Profile) string {
	err := p.Validate()
	if err == nil {
		return ""
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		err = all.Unwrap()[0]
	}
	if inner := errors.Unwrap(err); inner != nil { // without the name of the field
		err = inner
	}
	return err.Error()
}
