package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

const (
	pumpBatch     = 50
	revocationCap = time.Hour // between two tries
)

// PumpRevocations sends what is due in the outbox of revocations and returns
// how many it tried. Call it now and then; any number of processes may.
func (s *Service) PumpRevocations(ctx context.Context) (int, error) {
	return s.pumpDue(ctx, store.AllTenants(), `SELECT tenant_id, id, connection_id, provider_id, kind, tries, next_at, give_up_at FROM cred_revocations
		WHERE state = 'pending' AND next_at <= ? ORDER BY next_at, kind DESC LIMIT ?`, pumpBatch)
}

// pump sends what is due for one connection.
func (s *Service) pump(ctx context.Context, key recordKey) error {
	_, err := s.pumpDue(ctx, scope(key.tenant), `SELECT tenant_id, id, connection_id, provider_id, kind, tries, next_at, give_up_at FROM cred_revocations
		WHERE state = 'pending' AND next_at <= ? AND tenant_id = ? AND connection_id = ? ORDER BY kind DESC`, string(key.tenant), string(key.connection))
	return err
}

func (s *Service) pumpDue(ctx context.Context, whose store.Scope, query string, args ...any) (int, error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return 0, storage(err)
	}
	var due []revocation
	err = s.db.EachFor(ctx, whose, func(row store.Scanner) error {
		var r revocation
		var giveUp int64
		err := row.Scan(&r.tenant, &r.id, &r.connection, &r.provider, &r.kind, &r.tries, &r.nextAt, &giveUp)
		r.giveUpAt = fromMillis(giveUp)
		due = append(due, r)
		return err
	}, query, append([]any{millis(now)}, args...)...)
	if err != nil {
		return 0, storage(err)
	}
	tried := 0
	var failed error
	for _, r := range due {
		// Each token goes by itself: the failure of one must not keep the
		// other one alive.
		mine, err := s.revokeOne(ctx, r)
		if mine {
			tried++
		}
		if err != nil {
			failed = errors.Join(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return tried, storage(failed)
}

// revokeOne claims a row by moving its due time, sends it once, records what
// came of it. A process that dies in between leaves a row that is due again.
func (s *Service) revokeOne(ctx context.Context, r revocation) (mine bool, err error) {
	var now time.Time
	err = s.db.UpdateFor(ctx, scope(r.tenant), func(tx *store.Tx) error {
		mine = false
		var err error
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		until := now.Add(s.cfg.Lease)
		n, err := tx.Exec(ctx, `UPDATE cred_revocations SET next_at = ?, tries = tries + 1, updated_at = ?
			WHERE tenant_id = ? AND id = ? AND state = 'pending' AND next_at = ? AND tries = ?`,
			millis(until), millis(now), string(r.tenant), r.id, r.nextAt, r.tries)
		if err != nil || n == 0 {
			return err
		}
		mine = true
		if err := tx.QueryRow(ctx, `SELECT sealed FROM cred_revocations WHERE tenant_id = ? AND id = ?`, string(r.tenant), r.id).Scan(&r.sealed); err != nil {
			return err
		}
		return nil
	})
	if err != nil || !mine {
		return false, err
	}
	r.tries++
	state, code, wait := s.sendRevocation(ctx, r)
	if state == StepPending && now.Add(wait).After(r.giveUpAt) {
		state, code = StepFailed, codeGaveUp
	}
	return true, s.settleRevocation(context.WithoutCancel(ctx), r, state, code, wait)
}

func (s *Service) sendRevocation(ctx context.Context, r revocation) (StepState, string, time.Duration) {
	wait := min(s.cfg.RetryBase<<min(r.tries, 20), revocationCap)
	if s.providers[r.provider] == nil {
		return StepPending, "provider_not_configured", revocationCap
	}
	p, err := s.provider(ctx, r.provider)
	switch {
	case err != nil:
		return StepPending, "metadata_unavailable", wait
	case p.RevocationURL == "" && s.providers[r.provider].Discover:
		return StepFailed, codeNoEndpoint, 0
	case p.RevocationURL == "":
		return StepPending, "provider_not_configured", revocationCap
	}
	token, err := s.cfg.Keys.Open(r.sealed, revocationPlace(r.tenant, r.id, r.kind))
	if errors.Is(err, keys.ErrIntegrity) {
		return StepFailed, codeUnreadable, 0
	}
	if err != nil {
		return StepPending, "key_unavailable", wait
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
	defer cancel()
	reply := s.post(ctx, p, p.RevocationURL, url.Values{"token": {string(token)}, "token_type_hint": {r.kind}})
	wait = max(wait, min(reply.retryAfter, retryAfterCap))
	if reply.status == http.StatusOK {
		return StepDone, codeRevoked, 0 // RFC 7009 section 2.2: also for a token that was dead already
	}
	switch a := classify(p, reply); {
	case a.code == codeUnsupported:
		return StepDone, codeUnsupported, 0
	case a.code != "":
		return StepPending, a.code, wait
	case reply.status != 0:
		return StepPending, fmt.Sprintf("status_%d", reply.status), wait
	default:
		return StepPending, string(a.class), wait
	}
}

// settleRevocation records a try, and that the connection is disconnected when
// nothing of it is pending any more.
func (s *Service) settleRevocation(ctx context.Context, r revocation, state StepState, code string, wait time.Duration) error {
	return s.db.UpdateFor(ctx, scope(r.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE cred_revocations SET state = ?, code = ?, next_at = ?, updated_at = ?,
			sealed = CASE WHEN ? = 'pending' THEN sealed ELSE NULL END
			WHERE tenant_id = ? AND id = ? AND state = 'pending' AND tries = ?`,
			string(state), code, millis(now.Add(wait)), millis(now), string(state), string(r.tenant), r.id, r.tries); err != nil {
			return err
		}
		if state == StepPending {
			return nil
		}
		if _, err := tx.Exec(ctx, `UPDATE cred_connections SET status = 'disconnected', updated_at = ?
			WHERE tenant_id = ? AND id = ? AND status = 'disconnecting' AND NOT EXISTS (SELECT 1 FROM cred_revocations
			WHERE tenant_id = ?2 AND connection_id = ?3 AND state = 'pending')`,
			millis(now), string(r.tenant), string(r.connection)); err != nil {
			return err
		}
		return audit(ctx, tx, now, r.tenant, event{actor: system, action: "revoke." + r.kind, connection: r.connection, result: code})
	})
}

// keepForCleanup puts a grant that is not stored yet into the outbox, due later,
// so that a crash before it is stored does not leave it alive at the provider.
func (s *Service) keepForCleanup(ctx context.Context, t *transaction, p *Provider, tokens pair) ([]string, error) {
	if p.RevocationURL == "" {
		return nil, nil
	}
	var ids []string
	err := s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		ids = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := s.sealRevocations(p, t.tenant, connector.ConnectionID(t.id), tokens, now, now.Add(s.cfg.CleanupDelay))
		if err != nil {
			return err
		}
		for _, r := range rows {
			ids = append(ids, r.id)
			if err := s.insertRevocation(ctx, tx, r, now); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}

// giveBack makes a kept grant due at once and tries to revoke it.
func (s *Service) giveBack(ctx context.Context, tenant connector.TenantID, ids []string) {
	var owner connector.ConnectionID
	err := s.db.UpdateFor(ctx, scope(tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			err := tx.QueryRow(ctx, `UPDATE cred_revocations SET next_at = ? WHERE tenant_id = ? AND id = ? RETURNING connection_id`,
				millis(now), string(tenant), id).Scan(&owner)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(ids) > 0 {
		err = s.pump(ctx, recordKey{tenant, owner})
	}
	if err != nil {
		s.log.WarnContext(ctx, "a refused grant is left to the outbox", "error", err)
	}
}

// revokeUnstored gives a grant back that not even the outbox could take. There
// is one try; nothing would remember a second.
func (s *Service) revokeUnstored(ctx context.Context, p *Provider, tokens pair) {
	if p.RevocationURL == "" {
		return
	}
	for kind, token := range map[string]Secret{kindRefresh: tokens.refresh, kindAccess: tokens.access} {
		if token.IsZero() {
			continue
		}
		sendCtx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
		r := s.post(sendCtx, p, p.RevocationURL, url.Values{"token": {token.reveal()}, "token_type_hint": {kind}})
		cancel()
		if r.status != http.StatusOK {
			s.log.ErrorContext(ctx, "a grant that could not be stored may live on at the provider", "provider", p.ID, "kind", kind, "status", r.status)
		}
	}
}
