package credentials

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

var (
	errOtherAccount = errors.New("another account")
	errMoved        = errors.New("row was changed meanwhile")
)

// storeConnection writes everything that a completed sign-in changes in one
// transaction. The lease number grows with the version, which fences off a
// refresh that is still running with the old grant.
func (s *Service) storeConnection(ctx context.Context, t *transaction, p *Provider, c connector.Connection, a answer, pending []string) (id connector.ConnectionID, authz int64, err error) {
	wanted, err := json.Marshal(t.wanted)
	if err != nil {
		return "", 0, err
	}
	err = s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		old, err := findTarget(ctx, tx, t, p, c.Account)
		if err != nil {
			return err
		}
		id, authz = old.id, old.authz+1
		if old.id == "" {
			id = connector.ConnectionID("con_" + strings.ToLower(rand.Text()[:16])) // 80 random bits, to be pasted
		}
		// The token row first, as everywhere: two orders would be a deadlock.
		version, err := s.storeTokens(ctx, tx, t, p, id, a, now)
		if err != nil {
			return err
		}
		if old.id == "" {
			_, err = tx.Exec(ctx, `INSERT INTO cred_connections (tenant_id, id, principal_id, provider_id, profile, client_id, issuer,
				ext_issuer, ext_subject, ext_login, ext_organisation, status, reason, authz_version, requested_scopes, granted_scopes,
				wanted, resources, notes, created_at, updated_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'active', '', ?, ?, ?, ?, ?, ?, ?, ?)`,
				string(t.tenant), string(id), string(t.principal), p.ID, p.Profile, p.ClientID, p.Issuer,
				c.Account.Issuer, c.Account.Subject, c.Account.Login, c.Account.Organisation, authz, list(t.scopes), list(c.Scopes),
				string(wanted), list(c.Resources), list(c.Notes), millis(now), millis(now))
		} else {
			var n int64
			n, err = tx.Exec(ctx, `UPDATE cred_connections SET profile = ?, client_id = ?, issuer = ?, ext_login = ?, status = 'active', reason = '',
				authz_version = authz_version + 1, requested_scopes = ?, granted_scopes = ?, wanted = ?, resources = ?, notes = ?, updated_at = ?
				WHERE tenant_id = ? AND id = ? AND authz_version = ? AND status NOT IN ('disconnecting', 'disconnected')`,
				p.Profile, p.ClientID, p.Issuer, c.Account.Login, list(t.scopes), list(c.Scopes), string(wanted), list(c.Resources),
				list(c.Notes), millis(now), string(t.tenant), string(id), old.authz)
			if err == nil && n == 0 {
				return errMoved
			}
		}
		if err != nil {
			return err
		}
		for _, row := range pending {
			if _, err := tx.Exec(ctx, `DELETE FROM cred_revocations WHERE tenant_id = ? AND id = ?`, string(t.tenant), row); err != nil {
				return err
			}
		}
		n, err := tx.Exec(ctx, `UPDATE cred_transactions SET status = 'completed', connection_id = ?
			WHERE tenant_id = ? AND id = ? AND status = 'consumed'`, string(id), string(t.tenant), t.id)
		if err != nil {
			return err
		}
		if n == 0 {
			return errNotOpen
		}
		if err := s.onChange(ctx, tx, t.tenant, id); err != nil {
			return err
		}
		return audit(ctx, tx, now, t.tenant, event{actor: string(t.principal), action: "connect.completed", connection: id, to: version})
	})
	return id, authz, err
}

type target struct {
	id    connector.ConnectionID
	authz int64
}

// findTarget is the connection to renew: the one asked for, if the account is
// the same, or the principal's connection of the same account. None: a new one.
func findTarget(ctx context.Context, tx *store.Tx, t *transaction, p *Provider, who connector.Account) (target, error) {
	var old target
	var issuer, subject, organisation string
	if t.reconnect != "" {
		err := tx.QueryRow(ctx, `SELECT id, authz_version, ext_issuer, ext_subject, ext_organisation FROM cred_connections
			WHERE tenant_id = ? AND id = ? AND principal_id = ? AND status NOT IN ('disconnecting', 'disconnected')`,
			string(t.tenant), string(t.reconnect), string(t.principal)).Scan(&old.id, &old.authz, &issuer, &subject, &organisation)
		if errors.Is(err, sql.ErrNoRows) {
			return target{}, notConnected()
		}
		if err != nil {
			return target{}, err
		}
		if issuer != who.Issuer || subject != who.Subject || organisation != who.Organisation {
			return target{}, errOtherAccount
		}
		return old, nil
	}
	err := tx.QueryRow(ctx, `SELECT id, authz_version FROM cred_connections
		WHERE tenant_id = ? AND principal_id = ? AND provider_id = ? AND ext_issuer = ? AND ext_subject = ? AND ext_organisation = ?
		AND status NOT IN ('disconnecting', 'disconnected')`,
		string(t.tenant), string(t.principal), p.ID, who.Issuer, who.Subject, who.Organisation).Scan(&old.id, &old.authz)
	if errors.Is(err, sql.ErrNoRows) {
		return target{}, nil
	}
	return old, err
}

func (s *Service) storeTokens(ctx context.Context, tx *store.Tx, t *transaction, p *Provider, id connector.ConnectionID, a answer, now time.Time) (int64, error) {
	var version, leaseTok int64
	err := tx.QueryRow(ctx, `SELECT version, lease_tok FROM cred_tokens WHERE tenant_id = ? AND connection_id = ?`,
		string(t.tenant), string(id)).Scan(&version, &leaseTok)
	isNew := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isNew {
		return 0, err
	}
	next := version + 1
	at := place{t.tenant, id, p.Issuer, p.ClientID}
	sealed, err := s.sealPair(pair{a.grant.access, a.grant.refresh}, at.tokens(next))
	if err != nil {
		return 0, err
	}
	answered := t.scopes
	if a.grant.hasScopes {
		answered = a.grant.scopes
	}
	expires := accessExpiry(p, a)
	if isNew {
		_, err := tx.Exec(ctx, `INSERT INTO cred_tokens (tenant_id, connection_id, version, sealed, has_refresh, answered_scopes, issued_at,
			access_exp, forced, lease_tok, lease_owner, lease_exp, phase, next_attempt_at, fail_count, unknown_count, last_code)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 1, '', 0, 'idle', 0, 0, 0, '')`,
			string(t.tenant), string(id), next, sealed, flag(p.Kind.mints() || !a.grant.refresh.IsZero()), list(answered), millis(now), expires)
		return next, err
	}
	n, err := tx.Exec(ctx, `UPDATE cred_tokens SET version = ?, sealed = ?, has_refresh = ?, answered_scopes = ?, issued_at = ?, access_exp = ?,
		forced = 0, lease_tok = lease_tok + 1, lease_owner = '', lease_exp = 0, phase = 'idle', next_attempt_at = 0,
		fail_count = 0, unknown_count = 0, last_code = ''
		WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`,
		next, sealed, flag(p.Kind.mints() || !a.grant.refresh.IsZero()), list(answered), millis(now), expires,
		string(t.tenant), string(id), version, leaseTok)
	if err == nil && n == 0 {
		err = errMoved
	}
	return next, err
}

// accessExpiry counts from before the request was sent, on the database's
// clock: whatever the provider's clock says, the token lives no longer.
func accessExpiry(p *Provider, a answer) int64 {
	life := a.grant.lifetime
	if life == 0 {
		life = p.DefaultLifetime
	}
	if life == 0 {
		return 0
	}
	return millis(a.sentAt.Add(life))
}

func (s *Service) onChange(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
	if s.cfg.OnChange == nil {
		return nil
	}
	return s.cfg.OnChange(ctx, tx, tenant, id)
}
