package host

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// A Mount is a connector that the caller brings, with what an administrator would
// say about its provider. Its Provider is what connections call it.
type Mount struct {
	Connector connector.Connector
	// SignIn is how its credentials work. ID, Profile and, if there are none, Scopes
	// are the host's to fill.
	SignIn credentials.Provider
	// Profile is where the provider is and how it is reached. Name is the host's to
	// fill.
	Profile transport.Profile

	inventory   *connector.Connector // lists what there is, for reconciliation
	subscribing *connector.Connector // makes and lists subscriptions
}

// mounts are the instances and what the caller brings, as one kind.
func (h *Host) mounts(c Config) ([]Mount, error) {
	var all []Mount
	for _, i := range c.Instances {
		con, err := i.connector(copies{h, time.Duration(i.MaxAge) * time.Second})
		if err != nil {
			return nil, err
		}
		m := Mount{Connector: con, SignIn: i.provider(con)}
		if m.Profile, err = i.ProfileOf(c.Profiles.Profiles); err != nil {
			return nil, err
		}
		if list, ok := i.inventory(); ok {
			m.inventory = &list
		}
		if hooks, ok := i.subscribing(); ok {
			m.subscribing = &hooks
		}
		all = append(all, m)
	}
	for _, m := range c.Mounts {
		name := m.Connector.Provider
		if name == "" {
			return nil, errors.New("host: a connector that is mounted needs the name of its provider")
		}
		m.SignIn.ID, m.SignIn.Profile, m.Profile.Name = name, name, name
		if len(m.SignIn.Scopes) == 0 {
			m.SignIn.Scopes = m.Connector.Auth.Scopes
		}
		all = append(all, m)
	}
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.Connector.Provider] {
			return nil, fmt.Errorf("host: there are two providers %q", m.Connector.Provider)
		}
		seen[m.Connector.Provider] = true
	}
	return all, nil
}

// ports are the TCP ports of everything that a profile lets requests go to.
func ports(p transport.Profile) (all []uint16) {
	for _, raw := range append([]string{p.BaseURL, p.Proxy}, p.AuthOrigins...) {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			continue
		}
		if n, err := portOf(u); err == nil {
			all = append(all, n)
		}
	}
	return all
}
