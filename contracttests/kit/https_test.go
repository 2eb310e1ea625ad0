package kit_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// A provider with TLS, an authority of its own, a path before its API and a
// token endpoint is held against the same checks, faults on the wire included.
// Guarantee: TST1
func TestHTTPSProvider(t *testing.T) {
	t.Parallel()
	c := notes()
	c.Auth.Kind = connector.AuthOAuth2Code
	c.Identify = func(ctx context.Context, a *connector.Access) (connector.Identity, error) {
		me, _, err := connector.Get[struct {
			ID string `json:"id"`
		}](ctx, a, connector.Request{Path: "/me"})
		return connector.Identity{Account: connector.Account{Subject: me.ID, Login: me.ID}}, err
	}
	r := kit.Run(t, kit.Subject{
		Connector: c, Harness: secureHarness{},
		Read:  kit.Use{Tool: "notes.get", Arguments: func(id, _ string) any { return map[string]string{"id": id} }},
		Write: kit.Use{Tool: "notes.create", Arguments: func(text, _ string) any { return map[string]string{"text": text} }},
	})
	for _, o := range r.Checks {
		switch o.ID {
		case "R0", "W0", "C2", "C7", "C8", "E4", "E5", "E6", "E7", "E14", "B7", "B6":
			if o.Result != kit.Passed {
				t.Errorf("%s is %s (%s), want passed", o.ID, o.Result, o.Why)
			}
		}
	}
}

type secureHarness struct{}

func (secureHarness) Start(context.Context, string, int64) (kit.Provider, error) {
	p := &secureProvider{notesProvider: &notesProvider{notes: map[string]note{}, owners: map[string]string{}, made: map[string]string{}},
		accounts: kit.NewAccounts(credentials.KindAuthorizationCode)}
	mux := http.NewServeMux()
	mux.Handle("POST /token", p.accounts)
	mux.HandleFunc("/api/v3/", func(w http.ResponseWriter, r *http.Request) {
		who, refused := p.accounts.Who(r, "")
		if refused != 0 {
			w.WriteHeader(refused)
			return
		}
		r.Header.Set("Authorization", "Bearer "+notesKeys[who])
		http.StripPrefix("/api/v3", p.notesProvider).ServeHTTP(w, r)
	})
	p.Server = httptest.NewTLSServer(mux)
	return p, nil
}

type secureProvider struct {
	*notesProvider
	accounts *kit.Accounts
}

func (p *secureProvider) Facts() kit.Facts {
	return kit.Facts{Name: "notes over TLS", Version: "v1", Evidence: kit.Sandbox, URL: p.URL + "/api/v3", SignIn: p.accounts.SignIn(p.URL),
		Roots: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})}
}

func (p *secureProvider) Connect(ctx context.Context, s *credentials.Service, c connector.Caller, who kit.Person, w kit.Wish) (connector.Connection, error) {
	return p.accounts.Connect(ctx, s, c, who, w)
}
