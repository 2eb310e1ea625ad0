package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/manifest"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

// oidcFlags say how a team signs in to the pages. The client's secret is not a
// flag: those are shown to everybody who lists processes.
type oidcFlags struct{ issuer, client, tenant, tenantClaim string }

const oidcSecretVariable = "DRAWBRIDGE_OIDC_CLIENT_SECRET"

func (f *oidcFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.issuer, "oidc-issuer", "", "OpenID provider that people sign in with; empty: the one person of --as, by link")
	s.StringVar(&f.client, "oidc-client-id", "", "our client there; its secret, if it has one, is read from "+oidcSecretVariable)
	s.StringVar(&f.tenant, "oidc-tenant", "", "tenant of everybody who signs in there")
	s.StringVar(&f.tenantClaim, "oidc-tenant-claim", "", "claim of the ID token that names the tenant, instead of --oidc-tenant")
}

func (f *oidcFlags) provider() *console.OIDC {
	if f.issuer == "" {
		return nil
	}
	return &console.OIDC{Issuer: f.issuer, ClientID: f.client, ClientSecret: os.Getenv(oidcSecretVariable),
		Tenant: f.tenant, TenantClaim: f.tenantClaim}
}

// pages builds the console over a host.
func (a *app) pages(h *host.Host, caller connector.Caller, base string, f oidcFlags) (*console.Console, error) {
	instances, err := host.Instances(a.data)
	if err != nil {
		return nil, err
	}
	config := console.Config{
		DB: h.DB, Keys: h.Keys, Credentials: h.Credentials, Ledger: h.Ledger, BaseURL: base, OIDC: f.provider(), Logger: a.logger,
		Providers: func() []console.Provider { return connectable(instances, h.Manifests()) },
		Identify: func(provider string) credentials.Identify {
			r, ok := h.Runtime(provider)
			if !ok {
				return nil
			}
			return r.Identify
		},
		LookUp: h.Settle, Deliveries: deliveryPages{h},
	}
	if config.OIDC == nil {
		config.Local = caller
	}
	return console.New(config)
}

// connectable is what the connect page offers: each provider with the scopes of
// its tools, and which of them need it as the reason.
func connectable(instances []host.Instance, manifests []manifest.Manifest) []console.Provider {
	var all []console.Provider
	for _, i := range instances {
		at := slices.IndexFunc(manifests, func(m manifest.Manifest) bool { return m.EndpointProfile == i.Name })
		u, err := url.Parse(i.URL)
		if at < 0 || err != nil {
			continue
		}
		p := console.Provider{Name: i.Name, Title: i.Name, Host: u.Host, Callback: i.Callback(), Key: i.SignIn == host.SignInKey}
		m := manifests[at]
		asked := i.Scopes
		if len(asked) == 0 {
			asked = m.Auth.Scopes
		}
		for n, scope := range slices.Concat(asked, i.MoreScopes) {
			var tools []string
			for _, c := range m.Capabilities {
				if slices.Contains(c.Scopes, scope) {
					tools = append(tools, c.Name)
				}
			}
			reason := "to find out whose account it is"
			if len(tools) > 0 {
				reason = "for " + strings.Join(tools, ", ")
			}
			p.Scopes = append(p.Scopes, console.Scope{Name: scope, Reason: reason, Extra: n >= len(asked)})
		}
		all = append(all, p)
	}
	return all
}

// greet says where to go. The link signs in whoever opens it first.
func (a *app) greet(ctx context.Context, pages *console.Console, base string, f serveFlags) error {
	if f.oidc.issuer != "" {
		fmt.Fprintf(a.out, "serving at %s\nstop it with Ctrl-C\n", base)
		return nil
	}
	link, err := pages.LocalLink(ctx)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(map[string]string{"url": base, "sign_in": link})
		return nil
	}
	fmt.Fprintf(a.out, "serving at %s for %s\n\nopen this link to sign in; it works once, within ten minutes:\n\n  %s\n\nstop it with Ctrl-C\n", base, a.as, link)
	return nil
}
