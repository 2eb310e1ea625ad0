package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/connector/transport/profiles"
)

// ProfilesFile is where a data folder keeps the administrator's endpoint profiles.
func ProfilesFile(data string) string { return filepath.Join(data, "profiles.json") }

// Profiles reads the endpoint profiles of a data folder; no file is no profiles.
func Profiles(data string) (profiles.File, error) {
	f, err := profiles.Load(ProfilesFile(data))
	if errors.Is(err, fs.ErrNotExist) {
		return profiles.File{}, nil
	}
	return f, err
}

// ProfileOf is the endpoint profile that requests to an instance run under: one
// of the administrator's, or one made from the instance's own URL.
func (i Instance) ProfileOf(file []transport.Profile) (transport.Profile, error) {
	if i.Profile == "" {
		return i.ownProfile()
	}
	if len(i.Private) > 0 || i.Rate != 0 || i.Concurrency != 0 {
		return transport.Profile{}, fmt.Errorf("provider %s: private, rate and concurrency are profile %s's to say", i.Name, i.Profile)
	}
	for _, p := range file {
		if p.Name != i.Profile {
			continue
		}
		if p.BaseURL != i.URL {
			return p, fmt.Errorf("provider %s: profile %s is for another URL", i.Name, i.Profile)
		}
		return p, nil
	}
	return transport.Profile{}, fmt.Errorf("provider %s: there is no profile %q in profiles.json", i.Name, i.Profile)
}

func (i Instance) ownProfile() (transport.Profile, error) {
	p := transport.Profile{Name: i.Name, BaseURL: i.URL, Limits: transport.Limits{
		Rate: i.Rate, Burst: int(2 * i.Rate), Concurrency: i.Concurrency}}
	u, err := url.Parse(i.URL)
	if err != nil {
		return p, fmt.Errorf("provider %s: not a URL", i.Name)
	}
	n, err := portOf(u)
	if err != nil {
		return p, fmt.Errorf("provider %s: the URL has no usable port", i.Name)
	}
	for _, text := range i.Private {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return p, fmt.Errorf("provider %s: %q is not an address range", i.Name, text)
		}
		p.Private = append(p.Private, transport.PrivateException{Host: u.Hostname(), Prefix: prefix, Port: n})
	}
	return p, p.Validate()
}

// portOf is the port that a URL is dialled at.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err
}
