package credentials

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

var errFenced = errors.New("a later claim, sign-in or disconnect was first")

// commit stores the new pair before anyone uses it. While the database can't be
// reached the pair is kept in memory and tried again: the old refresh token is
// spent, and must not be sent by this process whatever happens. The time of the
// lease is not checked, only its number: a late commit that nobody has
// overtaken is right.
func (s *Service) commit(ctx context.Context, p *Provider, c *claim, a answer, refused bool) (bool, error) {
	next := pair{a.grant.access, a.grant.refresh}
	if next.refresh.IsZero() {
		next.refresh = c.tokens.refresh // RFC 6749 section 6: left out means unchanged
	}
	for try := 0; ; try++ {
		// Sealed anew for each try: the key may have been turned over since.
		sealed, err := s.sealPair(next, c.place().tokens(c.version+1))
		if err == nil {
			err = s.storeRenewed(ctx, p, c, a, sealed, refused)
		}
		switch {
		case err == nil:
			s.keep(c.key, unsealed{c.version + 1, next.access})
			return true, nil
		case errors.Is(err, errFenced):
			return false, s.fenced(ctx, p, c, next)
		}
		s.log.ErrorContext(ctx, "renewed token is not stored yet", "connection", c.key.connection, "try", try, "error", err)
		// Often enough that several tries fit into the time that heirs wait.
		wait := min(50*time.Millisecond<<min(try, 6), s.cfg.Guard/4)
		select {
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		case <-s.base.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Guard)
			defer cancel()
			if sealed != nil && s.storeRenewed(last, p, c, a, sealed, refused) == nil {
				return true, nil
			}
			return true, unavailable(0, "the service stopped before the renewed token was stored")
		}
	}
}

func (s *Service) storeRenewed(ctx context.Context, p *Provider, c *claim, a answer, sealed []byte, refused bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	err := s.db.UpdateFor(ctx, scope(c.key.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		// An empty scope here is what servers without scopes write, not a
		// withdrawal of all of them.
		answered, lost := c.answered, []string(nil)
		if a.grant.hasScopes && len(a.grant.scopes) > 0 {
			answered = a.grant.scopes
			lost = without(c.answered, answered)
		}
		args := append([]any{sealed, list(answered), millis(now), accessExpiry(p, a), flag(refused)}, c.fence()...)
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET version = version + 1, sealed = ?, has_refresh = 1, answered_scopes = ?, issued_at = ?,
			access_exp = ?, forced = ?, phase = 'idle', lease_exp = 0, next_attempt_at = 0, fail_count = 0, unknown_count = 0, last_code = ''
			WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return errFenced
		}
		if err := s.scopesAfterRefresh(ctx, tx, now, c, lost); err != nil {
			return err
		}
		if err := c.finished(ctx, tx, now, string(classGranted), "", a.status); err != nil {
			return err
		}
		return audit(ctx, tx, now, c.key.tenant, event{actor: system, action: "refresh", connection: c.key.connection, result: string(classGranted), from: c.version, to: c.version + 1})
	})
	if !errors.Is(err, errFenced) {
		return err
	}
	// Or an earlier try of ours did commit and its answer was lost.
	var version, lease int64
	if err := s.db.QueryRowFor(ctx, scope(c.key.tenant), `SELECT version, lease_tok FROM cred_tokens WHERE tenant_id = ? AND connection_id = ?`,
		string(c.key.tenant), string(c.key.connection)).Scan(&version, &lease); err != nil {
		return err
	}
	if version == c.version+1 && lease == c.lease {
		return nil
	}
	return errFenced
}

// scopesAfterRefresh takes away what the provider took away. A refresh can't
// widen a grant, so nothing is ever added here.
func (s *Service) scopesAfterRefresh(ctx context.Context, tx *store.Tx, now time.Time, c *claim, lost []string) error {
	left := without(c.granted, lost)
	if len(left) == len(c.granted) {
		_, err := tx.Exec(ctx, `UPDATE cred_connections SET status = 'active', reason = '', updated_at = ?
			WHERE tenant_id = ? AND id = ? AND status = 'degraded'`, millis(now), string(c.key.tenant), string(c.key.connection))
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE cred_connections SET granted_scopes = ?, authz_version = authz_version + 1, updated_at = ?,
		status = CASE WHEN status = 'degraded' THEN 'active' ELSE status END WHERE tenant_id = ? AND id = ?`,
		list(left), millis(now), string(c.key.tenant), string(c.key.connection)); err != nil {
		return err
	}
	return s.onChange(ctx, tx, c.key.tenant, c.key.connection)
}

// fenced drops a pair that came too late. It is given back only when the
// connection is gone: as long as it lives, a server may take the revocation of
// one token as that of the whole grant (RFC 7009 section 2.1), and kill the
// pair that won.
func (s *Service) fenced(ctx context.Context, p *Provider, c *claim, late pair) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	return storage(s.db.UpdateFor(ctx, scope(c.key.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var status Status
		if err := tx.QueryRow(ctx, `SELECT status FROM cred_connections WHERE tenant_id = ? AND id = ?`,
			string(c.key.tenant), string(c.key.connection)).Scan(&status); err != nil {
			return err
		}
		if status == StatusDisconnecting || status == StatusDisconnected {
			if _, err := s.queueRevocation(ctx, tx, p, c.key.tenant, c.key.connection, late, now, now); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE cred_connections SET status = 'disconnecting' WHERE tenant_id = ? AND id = ?`,
				string(c.key.tenant), string(c.key.connection)); err != nil {
				return err
			}
		}
		if err := c.finished(ctx, tx, now, "fenced", "", 0); err != nil {
			return err
		}
		return audit(ctx, tx, now, c.key.tenant, event{actor: system, action: "refresh", connection: c.key.connection, result: "fenced", from: c.version})
	}))
}
