package credentials

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Guarantee: CRE5 (threat T12): another's connection and an absent one answer alike.
func TestTenantAndPrincipalMatrix(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		owners := []connector.Caller{alice, bob, carol, {Tenant: "globex", Principal: "bob"}}
		logins := []string{"alice", "bob", "carol", "guest"}
		var connections []connector.Connection
		for i, owner := range owners {
			connections = append(connections, r.connect(owner, logins[i]))
		}
		// Everything that takes a connection, and how it answers.
		asks := map[string]func(caller connector.Caller, c connector.Connection) error{
			"Resolve": func(caller connector.Caller, c connector.Connection) error {
				caller.Connection = c.ID
				_, err := r.Resolve(t.Context(), caller, "tickets", nil)
				return err
			},
			"Current": func(caller connector.Caller, c connector.Connection) error {
				c.Tenant, c.Principal = caller.Tenant, caller.Principal
				return r.Current(t.Context(), c)
			},
			"Authorize": func(caller connector.Caller, c connector.Connection) error {
				c.Tenant, c.Principal = caller.Tenant, caller.Principal
				_, err := r.Authorize(t.Context(), c, 0)
				return err
			},
			"Show": func(caller connector.Caller, c connector.Connection) error {
				_, err := r.Show(t.Context(), caller, c.ID)
				return err
			},
			"Begin": func(caller connector.Caller, c connector.Connection) error {
				_, err := r.Begin(t.Context(), caller, BeginRequest{Provider: "tickets", RedirectURI: redirectURI, BrowserKey: browserKey, Connection: c.ID})
				return err
			},
			"Disconnect": func(caller connector.Caller, c connector.Connection) error {
				if caller.Tenant == c.Tenant && caller.Principal == c.Principal {
					return nil // its own is for the end
				}
				_, err := r.Disconnect(t.Context(), caller, c.ID, "")
				return err
			},
		}
		absent := connections[0]
		absent.ID = "never-existed"
		for name, ask := range asks {
			for i, caller := range owners {
				want := ask(caller, absent)
				if name == "Disconnect" {
					_, want = r.Disconnect(t.Context(), caller, absent.ID, "")
				}
				wantCode(t, want, connector.CodeConnectionRequired)
				for j, c := range connections {
					got := ask(caller, c)
					if i == j {
						if got != nil {
							t.Errorf("%s by its owner %v: %v", name, caller, got)
						}
						continue
					}
					if diff := cmp.Diff(connector.AsError(want), connector.AsError(got)); diff != "" {
						t.Errorf("%s by %v of another's connection (-absent +got):\n%s", name, caller, diff)
					}
				}
			}
		}
		for i, caller := range owners {
			views, err := r.List(t.Context(), caller)
			if err != nil || len(views) != 1 || views[0].Connection.ID != connections[i].ID {
				t.Errorf("list of %v = %+v, %v; want its own one", caller, views, err)
			}
		}
		for i, caller := range owners {
			if _, err := r.Disconnect(t.Context(), caller, connections[i].ID, ""); err != nil {
				t.Errorf("disconnect by the owner %v: %v", caller, err)
			}
		}
	})
}

// Guarantee: CRE4 (C35, threat T10): a row copied elsewhere does not open.
func TestMovedCiphertextIsQuarantined(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica()
		mine, theirs := r.connect(alice, "alice"), r.connect(carol, "carol")
		copyTo := func(to, from connector.Connection) {
			b.exec(`UPDATE cred_tokens SET sealed = (SELECT f.sealed FROM cred_tokens f WHERE f.tenant_id = ? AND f.connection_id = ?)
				WHERE tenant_id = ? AND connection_id = ?`, string(from.Tenant), string(from.ID), string(to.Tenant), string(to.ID))
		}
		copyTo(theirs, mine)
		fresh := b.replica() // without the token in memory
		_, err := fresh.Authorize(t.Context(), theirs, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(theirs, StatusReconnectRequired, ReasonIntegrity)
		b.wantStatus(mine, StatusActive, "")

		// The same row at another version does not open either, also when it is
		// the refresh that reads it.
		b.exec(`UPDATE cred_tokens SET version = version + 1, access_exp = 1000 WHERE tenant_id = ? AND connection_id = ?`, string(mine.Tenant), string(mine.ID))
		_, err = fresh.Authorize(t.Context(), mine, 0)
		wantCode(t, err, connector.CodeConnectionRequired)
		b.wantStatus(mine, StatusReconnectRequired, ReasonIntegrity)
		if n := b.refreshes(); n != 0 {
			t.Errorf("%d refreshes with a record that does not open", n)
		}
		// And it can still be cut.
		steps, err := fresh.Disconnect(t.Context(), carol, theirs.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if steps.Stopped.State != StepDone || steps.RevokedAtProvider != "no" {
			t.Errorf("steps = %+v, want stopped, and no claim about the provider", steps)
		}
	})
}

// Threat T18: a missing key is not damage.
func TestMissingKeyKeepsTheConnection(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		c := b.replica().connect(alice, "alice")
		right := b.ring
		b.ring = newRing(t)
		blind := b.replica()
		_, err := blind.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeUnavailable)
		b.expire(c)
		_, err = blind.Authorize(t.Context(), c, 0)
		wantCode(t, err, connector.CodeUnavailable)
		b.wantStatus(c, StatusActive, "")
		b.ring = right
		if got, err := b.replica().Authorize(t.Context(), c, 0); err != nil || got.Version() != 2 {
			t.Errorf("with the key again: %v, %v", got, err)
		}
		if n := b.refreshes(); n != 1 {
			t.Errorf("%d refreshes, want 1", n)
		}
	})
}
