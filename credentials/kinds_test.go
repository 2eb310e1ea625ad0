package credentials

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// Guarantee: CRE9 (threat T12): a connection of any kind answers another tenant
// and another principal as one that never was, whatever is asked of it.
func TestTenantAndPrincipalMatrixOfEveryKind(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		key, err := NewClientKey(rsaKey(), "")
		if err != nil {
			t.Fatal(err)
		}
		r := b.replica(func(c *Config) {
			device, service := b.provider(), *c
			device.ID, device.DeviceURL = "device", b.org.URL()+"/oauth/device_authorization"
			b.serviceProvider(&service)
			service.Providers[0].ID = "service"
			c.Providers = append(c.Providers, device, service.Providers[0],
				Provider{ID: "static", Profile: "org", Kind: KindStatic, Issuer: "static"},
				Provider{ID: "app", Profile: "org", Kind: KindApp, Issuer: "app", ClientID: "app-1", ClientKey: key, InstallationURL: b.org.URL() + "/app/{installation}/tokens"})
		}, around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			if strings.Contains(x.URL, "/app/") {
				return connector.Response{Status: http.StatusCreated, Body: fmt.Appendf(nil, `{"token":"ghs_x","expires_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))}, nil
			}
			return send()
		}))
		who := func(context.Context, connector.Connection) (connector.Identity, error) {
			return connector.Identity{Account: connector.Account{Subject: "the one account"}}, nil
		}
		setup := func(q SetupRequest) func(connector.Caller, connector.ConnectionID) (connector.Connection, error) {
			return func(caller connector.Caller, id connector.ConnectionID) (connector.Connection, error) {
				q.Connection = id
				return r.Setup(t.Context(), caller, q, who)
			}
		}
		type question = func(caller connector.Caller, c connector.Connection) error
		both := func(a, b map[string]question) map[string]question {
			out := maps.Clone(a)
			maps.Copy(out, b)
			return out
		}
		owners := []connector.Caller{alice, bob, carol}
		for provider, connect := range map[string]func(caller connector.Caller, renew connector.ConnectionID) (connector.Connection, error){
			"static":  setup(SetupRequest{Provider: "static", Key: NewSecret("a-key")}),
			"service": setup(SetupRequest{Provider: "service"}),
			"app":     setup(SetupRequest{Provider: "app", Installation: "42"}),
			"device": func(caller connector.Caller, renew connector.ConnectionID) (connector.Connection, error) {
				begun, err := r.BeginDevice(t.Context(), caller, DeviceRequest{Provider: "device", Connection: renew})
				if err != nil {
					return connector.Connection{}, err
				}
				b.decide(begun, "alice", true)
				b.exec(`UPDATE cred_transactions SET poll_at = 0 WHERE id = ?`, begun.Transaction)
				got, err := r.PollDevice(t.Context(), caller, begun.Transaction, who)
				return got.Connection, err
			},
		} {
			var connections []connector.Connection
			for _, owner := range owners {
				c, err := connect(owner, "")
				if err != nil {
					t.Fatalf("%s of %v: %v", provider, owner, err)
				}
				connections = append(connections, c)
			}
			asks := map[string]question{
				"Resolve": func(caller connector.Caller, c connector.Connection) error {
					caller.Connection = c.ID
					_, err := r.Resolve(t.Context(), caller, provider, nil)
					return err
				},
				"Current": func(_ connector.Caller, c connector.Connection) error { return r.Current(t.Context(), c) },
				"Authorize": func(_ connector.Caller, c connector.Connection) error {
					_, err := r.Authorize(t.Context(), c, 0)
					return err
				},
				"Show": func(caller connector.Caller, c connector.Connection) error {
					_, err := r.Show(t.Context(), caller, c.ID)
					return err
				},
			}
			// Those that would change its owner's connection come after the others.
			changes := map[string]question{
				"renewing": func(caller connector.Caller, c connector.Connection) error {
					_, err := connect(caller, c.ID)
					return err
				},
				"Disconnect": func(caller connector.Caller, c connector.Connection) error {
					_, err := r.Disconnect(t.Context(), caller, c.ID, "")
					return err
				},
			}
			for i, caller := range owners {
				for name, ask := range asks {
					if err := ask(caller, connections[i]); err != nil {
						t.Errorf("%s: %s by its owner: %v", provider, name, err)
					}
				}
				for name, ask := range both(asks, changes) {
					as := func(c connector.Connection) connector.Connection {
						c.Tenant, c.Principal = caller.Tenant, caller.Principal
						return c
					}
					absent := as(connections[i])
					absent.ID = "never-existed"
					want := ask(caller, absent)
					wantCode(t, want, connector.CodeConnectionRequired)
					for j, c := range connections {
						if i == j {
							continue
						}
						if diff := cmp.Diff(connector.AsError(want), connector.AsError(ask(caller, as(c)))); diff != "" {
							t.Errorf("%s: %s by %v of another's connection (-absent +got):\n%s", provider, name, caller, diff)
						}
					}
				}
			}
			for i, caller := range owners {
				if err := changes["renewing"](caller, connections[i]); err != nil {
					t.Errorf("%s: renewed by its owner: %v", provider, err)
				}
				if err := changes["Disconnect"](caller, connections[i]); err != nil {
					t.Errorf("%s: ended by its owner: %v", provider, err)
				}
			}
		}
	})
}
