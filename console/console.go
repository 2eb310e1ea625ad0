package console

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of sessions and links.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "console", FS: files}
}

// Credentials is what the pages do with connections. *credentials.Service is one.
type Credentials interface {
	Begin(context.Context, connector.Caller, credentials.BeginRequest) (credentials.Begun, error)
	Finish(ctx context.Context, caller connector.Caller, browserKey string, query url.Values, identify credentials.Identify) (connector.Connection, error)
	Setup(ctx context.Context, caller connector.Caller, r credentials.SetupRequest, identify credentials.Identify) (connector.Connection, error)
	List(context.Context, connector.Caller) ([]credentials.View, error)
	Show(context.Context, connector.Caller, connector.ConnectionID) (credentials.View, error)
	Disconnect(ctx context.Context, caller connector.Caller, id connector.ConnectionID, reason string) (credentials.Steps, error)
}

// Ledger is what the pages do with writes. *operations.Ledger is one.
type Ledger interface {
	Approvals(context.Context, connector.TenantID, operations.Filter, ...operations.ApprovalState) ([]operations.Card, error)
	Approval(ctx context.Context, tenant connector.TenantID, id string) (operations.Card, error)
	Approve(ctx context.Context, tenant connector.TenantID, id, by string) (operations.Card, error)
	Deny(ctx context.Context, tenant connector.TenantID, id, by, reason string) (operations.Card, error)
	Withdraw(ctx context.Context, tenant connector.TenantID, id, by, reason string) (operations.Card, error)
	Operations(context.Context, connector.TenantID, operations.Filter, ...connector.OperationState) ([]operations.Line, error)
	Operation(ctx context.Context, tenant connector.TenantID, id string) (operations.Detail, error)
	Settle(ctx context.Context, tenant connector.TenantID, id string, v operations.Verdict) (operations.Detail, error)
}

// A Provider is one ticket system that can be connected.
type Provider struct {
	Name  string // what connections call it
	Title string // what people call it; empty: Name
	Host  string // where it is, for people
	// Scopes are all that may be asked for, with the reason for each.
	Scopes []Scope
	// Key: nobody signs in there; a person enters a key or personal token that
	// was made there (credentials.KindStatic).
	Key bool
	// Callback is the path that the provider sends the browser back to:
	// "/callback/NAME" (also when empty), or "/callback" for one whose
	// registration has that address. Two providers may share the latter only
	// if their servers name themselves in the answer (iss, RFC 9207).
	Callback string
}

// A Scope is one permission at a provider.
type Scope struct {
	Name   string
	Reason string // why it is needed, as a sentence for people
	// Extra is asked for only when a connect link names it.
	Extra bool
}

// Config says what a Console shows and who may sign in.
type Config struct {
	DB          *store.DB   // required, opened with Migrations
	Keys        *keys.Ring  // required
	Credentials Credentials // required
	Ledger      Ledger      // required
	// Providers lists what can be connected, in the order it is shown. It is
	// asked for each page. Nil: nothing.
	Providers func() []Provider
	// Identify reads the account behind a fresh token of a provider; nil for a
	// provider that is not there. Required.
	Identify func(provider string) credentials.Identify
	// LookUp asks the provider once what became of a write whose outcome is
	// unknown. Nil: pages do not offer it.
	LookUp func(context.Context, connector.OperationRecord) (connector.OperationRecord, error)
	// Deliveries are the events that providers sent. Nil: there is no such page.
	Deliveries Deliveries
	// BaseURL is how browsers reach the pages: https://HOST, or http://HOST on a
	// loopback address, without a path. Required.
	BaseURL string
	// Local is the one person who signs in with LocalLink. Zero: nobody.
	Local connector.Caller
	// OIDC is how a team signs in. Nil: it does not.
	OIDC *OIDC
	// Logger gets ids, codes and causes. Nil discards.
	Logger *slog.Logger
}

// A Console serves the pages. It is safe for concurrent use, and any number of
// processes may serve one database.
type Console struct {
	cfg     Config
	base    *url.URL
	log     *slog.Logger
	handler http.Handler

	mu       sync.Mutex
	identity *oidc.Provider // found at the first sign-in; nil before
}

// New checks the configuration. It touches neither the database nor the network.
func New(c Config) (*Console, error) {
	switch {
	case c.DB == nil || c.Keys == nil || c.Credentials == nil || c.Ledger == nil || c.Identify == nil:
		return nil, errors.New("console: DB, Keys, Credentials, Ledger and Identify are required")
	case (c.Local.Tenant == "") != (c.Local.Principal == ""):
		return nil, errors.New("console: the local person needs a tenant and a principal")
	case c.Local.Tenant == "" && c.OIDC == nil:
		return nil, errors.New("console: nobody could sign in; set Local or OIDC")
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || checkWeb(base) != nil || base.Path != "" || base.RawQuery != "" || base.User != nil {
		return nil, errors.New("console: the base URL must be https://HOST, or http://HOST on a loopback address, without a path")
	}
	if c.OIDC != nil {
		if err := c.OIDC.check(); err != nil {
			return nil, err
		}
	}
	if c.Providers == nil {
		c.Providers = func() []Provider { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	console := &Console{cfg: c, base: base, log: c.Logger}
	console.handler = console.mount()
	return console, nil
}

// Handler serves all pages, below the root of the base URL.
func (c *Console) Handler() http.Handler { return c.handler }

// ApprovalLink is the address of an approval's card. Only the person in whose name
// the write would be done sees it.
func (c *Console) ApprovalLink(id string) string {
	return c.base.String() + "/approvals/" + url.PathEscape(id)
}

// provider finds one that can be connected.
func (c *Console) provider(name string) (Provider, bool) {
	for _, p := range c.cfg.Providers() {
		if p.Name == name {
			return p.complete(), true
		}
	}
	return Provider{}, false
}

// complete fills in what may be left empty.
func (p Provider) complete() Provider {
	if p.Title == "" {
		p.Title = p.Name
	}
	if p.Callback == "" {
		p.Callback = "/callback/" + url.PathEscape(p.Name)
	}
	return p
}

// ask is the subset of scopes that a page asks for: those of a link, or the usual ones.
func (p Provider) ask(names []string) ([]Scope, error) {
	var asked []Scope
	for _, s := range p.Scopes {
		if names == nil && !s.Extra || slices.Contains(names, s.Name) {
			asked = append(asked, s)
		}
	}
	if names != nil && len(asked) != len(names) {
		return nil, connector.Fail(connector.CodePermissionDenied, "the administrator does not let this be asked for")
	}
	return asked, nil
}

// checkWeb accepts https, and http where nobody is on the line in between.
func checkWeb(u *url.URL) error {
	if u.Host == "" || u.Fragment != "" {
		return errors.New("not an address with a host")
	}
	if u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s is not reached over https", u.Host)
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// sameHost compares the Host header with the base URL, as browsers write it: a
// name that somebody else's DNS points at us (rebinding) is none of ours.
func (c *Console) sameHost(host string) bool {
	plain := func(h string) string {
		if name, port, err := net.SplitHostPort(h); err == nil && (port == "443" && c.secure() || port == "80" && !c.secure()) {
			return strings.ToLower(name)
		}
		return strings.ToLower(h)
	}
	return plain(host) == plain(c.base.Host)
}

func (c *Console) secure() bool { return c.base.Scheme == "https" }
