package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// An Instance is one ticket system that an administrator set up: which driver
// speaks to it, where it is and which client we are there.
type Instance struct {
	Name     string `json:"name"`   // what connections call their provider
	Driver   string `json:"driver"` // sandbox or gitea
	URL      string `json:"url"`
	ClientID string `json:"client_id,omitempty"` // empty: the driver's default, if it has one
	// SignIn is how an account is connected: empty, with OAuth at the provider;
	// "key", by a key or personal token that a person made there and enters here.
	SignIn string `json:"sign_in,omitempty"`
	// Private are address ranges that the URL's host may resolve into. Empty:
	// public addresses only.
	Private []string `json:"private,omitempty"`
	// Profile names an endpoint profile of the administrator's file, which then
	// says where the provider is and how it is reached. Empty: a profile is
	// made from URL and Private.
	Profile string `json:"profile,omitempty"`
	// Scopes are asked for instead of the connector's own. Empty: those.
	Scopes []string `json:"scopes,omitempty"`
	// MoreScopes may be asked for beside Scopes, by a connection that a call finds
	// without one of them. Empty: no others can be asked for.
	MoreScopes []string `json:"more_scopes,omitempty"`
	// EventsFrom are the address ranges that the provider posts events from, a
	// second lock beside its signature. Empty: any.
	EventsFrom []string `json:"events_from,omitempty"`
	// EventsVia are the address ranges of proxies in front of this server, whose
	// X-Forwarded-For is believed about the sender of events. Empty: none.
	EventsVia []string `json:"events_via,omitempty"`
	// Rate is how many calls a second one connection may make, Concurrency how
	// many at once. Zero: the transport's defaults.
	Rate        float64 `json:"rate,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	// MaxAge is how many seconds ago a stored copy of a ticket may have been fetched
	// to be returned to a caller who takes one. Zero: every read asks the provider.
	MaxAge int `json:"copies_max_age_seconds,omitempty"`
}

// SignInKey is the Instance.SignIn of personal tokens.
const SignInKey = "key"

// drivers are what an Instance can name: the driver, its authorization server's
// endpoints below the instance's URL, and how it signs webhooks. The endpoints are
// pinned, not discovered.
var drivers = map[string]struct {
	driver                   tickets.Driver
	authorize, token, revoke string
	device                   string // RFC 8628; empty: it has none
	iss                      bool
	client                   string // registered there by default
	signs                    string // a scheme of webhooks/signature
}{
	"sandbox": {sandboxorg.Driver{}, "/oauth/authorize", "/oauth/token", "/oauth/revoke", "/oauth/device_authorization", true, "drawbridge-cli", "standard"},
	"gitea":   {gitea.Driver{}, "/login/oauth/authorize", "/login/oauth/access_token", "", "", false, "", "gitea"},
}

// Loopback returns the address range for an instance on this machine, and none
// for any other host: a literal loopback address is private by an
// administrator's own word, a name never is.
func Loopback(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil || !addr.IsLoopback() {
		return nil
	}
	return []string{netip.PrefixFrom(addr, addr.BitLen()).String()}
}

// Check reports what is wrong with an instance, or nil.
func (i Instance) Check() error {
	if i.Name == "" || i.URL == "" {
		return errors.New("a provider needs a name and a URL")
	}
	d, ok := drivers[i.Driver]
	if !ok {
		return fmt.Errorf("provider %s: there is no driver %q", i.Name, i.Driver)
	}
	if i.MaxAge < 0 {
		return fmt.Errorf("provider %s: a copy's age is negative", i.Name)
	}
	if i.SignIn != "" && i.SignIn != SignInKey {
		return fmt.Errorf("provider %s: sign_in is empty or %q", i.Name, SignInKey)
	}
	if i.SignIn == "" && i.ClientID == "" && d.client == "" {
		return fmt.Errorf("provider %s: which OAuth client is Drawbridge there?", i.Name)
	}
	if i.Profile != "" {
		return nil // the file is checked when it is opened
	}
	_, err := i.ownProfile()
	return err
}

// Callback is the path of the redirect URI on pages that are served: one of its
// own for each client, so that an answer can't be taken for another server's. A
// driver's default client is registered with /callback.
func (i Instance) Callback() string {
	if i.ClientID == "" {
		return "/callback"
	}
	return "/callback/" + url.PathEscape(i.Name)
}

func (i Instance) connector(kept tickets.Copies) (connector.Connector, error) {
	if err := i.Check(); err != nil {
		return connector.Connector{}, err
	}
	c := tickets.NewWithCopies(drivers[i.Driver].driver, kept)
	c.Provider = i.Name
	if i.SignIn == SignInKey {
		c.Auth.Kind = connector.AuthStatic
	}
	return c, nil
}

// inventory is the listing behind the mirror of this instance.
func (i Instance) inventory() (connector.Connector, bool) {
	c, ok := tickets.NewInventory(drivers[i.Driver].driver)
	c.Provider = i.Name
	return c, ok
}

func (i Instance) provider(c connector.Connector) credentials.Provider {
	d := drivers[i.Driver]
	p := credentials.Provider{ID: i.Name, Profile: i.Name, Issuer: i.URL, Scopes: c.Auth.Scopes, MoreScopes: i.MoreScopes}
	if len(i.Scopes) > 0 {
		p.Scopes = i.Scopes
	}
	if i.SignIn == SignInKey {
		p.Kind = credentials.KindStatic
		return p
	}
	p.AuthorizationURL, p.TokenURL, p.IssAdvertised = i.URL+d.authorize, i.URL+d.token, d.iss
	p.Method, p.ClientID = credentials.AuthNone, i.ClientID
	if p.ClientID == "" {
		p.ClientID = d.client
	}
	if d.revoke != "" {
		p.RevocationURL = i.URL + d.revoke
	}
	if d.device != "" {
		p.DeviceURL = i.URL + d.device
	}
	return p
}

type instancesFile struct {
	Providers []Instance `json:"providers"`
}

func instancesPath(data string) string { return filepath.Join(data, "providers.json") }

// Instances reads the providers of a data folder; none yet is not an error. An
// unknown key is: a misspelt restriction must not be silently absent.
func Instances(data string) ([]Instance, error) {
	raw, err := os.ReadFile(instancesPath(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file instancesFile
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("providers.json: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("providers.json: text after the object")
	}
	return file.Providers, nil
}

// SaveInstance adds a provider to a data folder, or replaces the one of the
// same name.
func SaveInstance(data string, i Instance) error {
	all, err := Instances(data)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(other Instance) bool { return other.Name == i.Name })
	raw, err := json.MarshalIndent(instancesFile{append(all, i)}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	// Renamed into place, so that another process reads the old file or the new.
	temporary := instancesPath(data) + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, instancesPath(data))
}
