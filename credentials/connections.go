package credentials

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// Status is where a connection is in its life.
type Status string

const (
	StatusActive Status = "active"
	// StatusDegraded: our client registration is at fault. The access token is
	// used while it lives; nobody is asked to connect again.
	StatusDegraded          Status = "degraded"
	StatusReconnectRequired Status = "reconnect_required"
	StatusDisconnecting     Status = "disconnecting" // stopped; revocation is pending
	StatusDisconnected      Status = "disconnected"
)

// Usable reports whether calls get a credential in this status.
func (s Status) Usable() bool { return s == StatusActive || s == StatusDegraded }

// Reason says why a connection must be made again.
type Reason string

const (
	ReasonInvalidGrant   Reason = "invalid_grant"    // the provider ended it
	ReasonLostRotation   Reason = "lost_rotation"    // a new token was lost between the provider's answer and our disk
	ReasonRevoked        Reason = "revoked_401"      // a fresh token was refused
	ReasonIntegrity      Reason = "integrity"        // the stored record was altered or moved
	ReasonNoRefreshToken Reason = "no_refresh_token" // expired, and there is nothing to renew it with
	ReasonKeyRefused     Reason = "key_refused"      // the provider does not accept the static key
	ReasonUnclassified   Reason = "unclassified"     // refused again and again in words we do not know
)

// A View is what a person may see of a connection. It holds no secret.
type View struct {
	Connection      connector.Connection
	Status          Status
	Reason          Reason
	RequestedScopes []string
	CreatedAt       time.Time
	UpdatedAt       time.Time
	LastUsedAt      time.Time // to within an hour; zero: never
	AccessExpiresAt time.Time // zero: unknown
	Renewable       bool      // a new token can be had without a person
	Revocation      Steps     // of a disconnected one
}

const connectionColumns = `id, principal_id, provider_id, profile, ext_issuer, ext_subject, ext_login, ext_organisation,
	status, reason, authz_version, requested_scopes, granted_scopes, resources, notes, created_at, updated_at`

// scanConnection reads connectionColumns, then more.
func scanConnection(row store.Scanner, tenant connector.TenantID, v *View, more ...any) error {
	var requested, granted, resources, notes string
	var created, updated int64
	c := &v.Connection
	c.Tenant = tenant
	dest := []any{&c.ID, &c.Principal, &c.Provider, &c.Profile, &c.Account.Issuer, &c.Account.Subject, &c.Account.Login,
		&c.Account.Organisation, &v.Status, &v.Reason, &c.AuthzVersion, &requested, &granted, &resources, &notes, &created, &updated}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return err
	}
	v.RequestedScopes, c.Scopes, c.Resources, c.Notes = unlist(requested), unlist(granted), unlist(resources), unlist(notes)
	if len(c.Notes) == 0 {
		c.Notes = nil
	}
	v.CreatedAt, v.UpdatedAt = fromMillis(created), fromMillis(updated)
	return nil
}

// Resolve is the connection that a caller's calls to a provider run under. See
// connector.Connections. A degraded connection resolves: its token still works.
func (s *Service) Resolve(ctx context.Context, caller connector.Caller, provider string, scopes []string) (connector.Connection, error) {
	if !storable(string(caller.Connection)) || !storable(provider) {
		return connector.Connection{}, notConnected()
	}
	var found []View
	err := s.db.EachFor(ctx, scope(caller.Tenant), func(row store.Scanner) error {
		var v View
		err := scanConnection(row, caller.Tenant, &v)
		found = append(found, v)
		return err
	}, `SELECT `+connectionColumns+` FROM cred_connections
		WHERE tenant_id = ? AND principal_id = ? AND provider_id = ? AND (? = '' OR id = ?4)
		AND status NOT IN ('disconnecting', 'disconnected') LIMIT 2`,
		string(caller.Tenant), string(caller.Principal), provider, string(caller.Connection))
	if err != nil {
		return connector.Connection{}, storage(err)
	}
	switch {
	case len(found) == 0:
		return connector.Connection{}, notConnected()
	case len(found) > 1:
		return connector.Connection{}, connector.Fail(connector.CodeInvalidInput, "several connections to this provider; the host must choose one")
	case !found[0].Status.Usable():
		return connector.Connection{}, reconnect(found[0].Reason)
	}
	c := found[0].Connection
	if missing := without(scopes, c.Scopes); len(missing) > 0 {
		e := connector.Fail(connector.CodeScopeRequired, "the connection was not granted what this needs")
		e.Scopes = missing
		return connector.Connection{}, e
	}
	return c, nil
}

// Current tells whether a connection still is what it was when resolved.
func (s *Service) Current(ctx context.Context, c connector.Connection) error {
	var status Status
	var reason Reason
	var authz int64
	err := s.db.QueryRowFor(ctx, scope(c.Tenant), `SELECT status, reason, authz_version FROM cred_connections
		WHERE tenant_id = ? AND id = ? AND principal_id = ?`, string(c.Tenant), string(c.ID), string(c.Principal)).Scan(&status, &reason, &authz)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return notConnected()
	case err != nil:
		return storage(err)
	case status == StatusDisconnecting || status == StatusDisconnected:
		return notConnected()
	case !status.Usable():
		return reconnect(reason)
	case authz != c.AuthzVersion:
		return changed()
	}
	return nil
}

const viewQuery = `SELECT c.id, c.principal_id, c.provider_id, c.profile, c.ext_issuer, c.ext_subject, c.ext_login, c.ext_organisation,
	c.status, c.reason, c.authz_version, c.requested_scopes, c.granted_scopes, c.resources, c.notes, c.created_at, c.updated_at,
	c.last_used_at, t.access_exp, t.has_refresh
	FROM cred_connections c JOIN cred_tokens t ON t.tenant_id = c.tenant_id AND t.connection_id = c.id
	WHERE c.tenant_id = ? AND c.principal_id = ?`

// List returns a principal's connections, oldest first, disconnected ones
// included: what is still to be revoked is theirs to see.
func (s *Service) List(ctx context.Context, caller connector.Caller) ([]View, error) {
	return s.views(ctx, caller, viewQuery+` ORDER BY c.created_at, c.id`)
}

// Show returns one of a principal's connections.
func (s *Service) Show(ctx context.Context, caller connector.Caller, id connector.ConnectionID) (View, error) {
	if !storable(string(id)) {
		return View{}, notConnected()
	}
	found, err := s.views(ctx, caller, viewQuery+` AND c.id = ?`, string(id))
	if err != nil {
		return View{}, err
	}
	if len(found) == 0 {
		return View{}, notConnected()
	}
	return found[0], nil
}

func (s *Service) views(ctx context.Context, caller connector.Caller, query string, more ...any) ([]View, error) {
	var out []View
	err := s.db.ViewFor(ctx, scope(caller.Tenant), func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, query, append([]any{string(caller.Tenant), string(caller.Principal)}, more...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v View
			var used, expires, renewable int64
			if err := scanConnection(rows, caller.Tenant, &v, &used, &expires, &renewable); err != nil {
				return err
			}
			v.LastUsedAt, v.AccessExpiresAt, v.Renewable = fromMillis(used), fromMillis(expires), renewable != 0
			out = append(out, v)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		for i := range out {
			if st := out[i].Status; st != StatusDisconnecting && st != StatusDisconnected {
				continue
			}
			if out[i].Revocation, err = readSteps(ctx, tx, caller.Tenant, out[i].Connection.ID, out[i].UpdatedAt); err != nil {
				return err
			}
		}
		return nil
	})
	return out, storage(err)
}

// storable tells whether a text can be stored on every engine. An id that is
// not storable names nothing.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// clean makes a text for people storable.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// list and unlist keep a set of names in one column.
func list(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	b, err := json.Marshal(names)
	if err != nil {
		return "[]" // text always encodes
	}
	return string(b)
}

func unlist(text string) []string {
	var names []string
	if json.Unmarshal([]byte(text), &names) != nil {
		return nil
	}
	return names
}

// without returns the names of a that are not in b.
func without(a, b []string) []string {
	var out []string
	for _, name := range a {
		if !slices.Contains(b, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func union(a, b []string) []string {
	return append(slices.Clone(a), without(b, a)...)
}
