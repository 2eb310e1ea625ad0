package host_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

const ownKey = "the-key-of-the-mounted-provider"

type person struct {
	Login string `json:"login"`
}

// people is somebody's own connector: it reads who a key belongs to.
func people() connector.Connector {
	me := func(ctx context.Context, a *connector.Access) (person, error) {
		p, _, err := connector.Get[person](ctx, a, connector.Request{Path: "/api/v1/me"})
		return p, err
	}
	return connector.Connector{
		ID: "people", Version: "1.0.0", Owner: "tests", Provider: "own", ProviderVersion: "v1", Auth: connector.Auth{Kind: connector.AuthStatic, Scopes: []string{"me"}},
		Identify: func(ctx context.Context, a *connector.Access) (connector.Identity, error) {
			p, err := me(ctx, a)
			return connector.Identity{Account: connector.Account{Subject: p.Login, Login: p.Login}, Resources: []connector.Resource{{ID: "all"}}}, err
		},
		Operations: []connector.Operation{connector.Read(connector.Spec{Name: "people.me", Title: "Me", Doc: "Reads who the connection belongs to.",
			Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal, Scopes: []string{"me"}},
			func(ctx context.Context, a *connector.Access, _ struct{}) (person, error) { return me(ctx, a) })},
	}
}

// own is a provider that knows one key, and the connector to it.
func own(t *testing.T) host.Mount {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+ownKey {
			http.Error(w, `{"error":"unauthorized"}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"login":"alice"}`))
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return host.Mount{Connector: people(), SignIn: credentials.Provider{Kind: credentials.KindStatic, Issuer: server.URL},
		Profile: transport.Profile{BaseURL: server.URL, Private: []transport.PrivateException{
			{Host: u.Hostname(), Prefix: netip.MustParsePrefix("127.0.0.1/32"), Port: uint16(port)}}}}
}

func TestMountedBesideAnInstance(t *testing.T) {
	org := startOrg(t)
	c := host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{}, Mounts: []host.Mount{own(t)},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL())}}}
	h, err := host.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	if diff := cmp.Diff([]string{"own", "sandbox"}, h.Providers()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	r, _ := h.Runtime("own")
	conn, err := h.Credentials.Setup(t.Context(), alice, credentials.SetupRequest{Provider: "own", Key: credentials.NewSecret(ownKey)}, r.Identify)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Execute(t.Context(), connector.Caller{Tenant: alice.Tenant, Principal: alice.Principal, Connection: conn.ID},
		connector.Call{ID: "1", Tool: "people.me", Arguments: []byte(`{}`)})
	if string(got.Data) != `{"login":"alice"}` {
		t.Errorf("%+v", got)
	}
}

func TestMountsAreRefused(t *testing.T) {
	nameless := own(t)
	nameless.Connector.Provider = ""
	faulty := own(t)
	faulty.Connector.Identify = nil
	for name, mounts := range map[string][]host.Mount{"one that Lint refuses": {faulty}, "without a provider": {nameless}, "two of one name": {own(t), own(t)}} {
		h, err := host.Open(t.Context(), host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{}, Mounts: mounts})
		if err == nil {
			h.Close()
			t.Errorf("%s: opened", name)
		}
	}
}
