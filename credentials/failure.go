package credentials

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

const (
	misconfiguredWait = 30 * time.Minute // until our registration is tried again
	retryAfterCap     = time.Hour
	maxInvalid        = 3 // invalid_request means "retry" at some servers
	maxRefused        = 5
)

// verdict is what a failed exchange does to a connection.
type verdict struct {
	wait    time.Duration
	status  Status // empty: unchanged
	reason  Reason
	unknown bool // the refresh token may be spent
}

func (s *Service) judge(c *claim, a answer, expired bool) verdict {
	v := verdict{wait: s.backoff(c.fails)}
	switch a.class {
	case classNotSent:
	case classUnknown:
		v.unknown = true
	case classThrottled:
		v.wait = max(min(a.retryAfter, retryAfterCap), v.wait)
	case classRejected:
		if c.kind == KindClientCredentials {
			// There is no grant that could be dead.
			v.status, v.reason, v.wait = StatusDegraded, Reason(a.code), misconfiguredWait
			break
		}
		v.status, v.reason = StatusReconnectRequired, ReasonInvalidGrant
		if c.unknowns > 0 {
			v.reason = ReasonLostRotation
		}
	case classMisconfigured:
		v.status, v.reason, v.wait = StatusDegraded, Reason(a.code), misconfiguredWait
	case classInvalid:
		if c.fails >= maxInvalid {
			v.status, v.reason, v.wait = StatusDegraded, Reason(a.code), misconfiguredWait
		}
	default:
		if c.fails >= maxRefused && expired {
			v.status, v.reason = StatusReconnectRequired, ReasonUnclassified
		}
	}
	return v
}

// backoff doubles from RetryBase to RetryCap and picks from the upper half, so
// that many connections do not come back together.
func (s *Service) backoff(fails int64) time.Duration {
	d := s.cfg.RetryBase
	for range min(fails, 30) {
		if d >= s.cfg.RetryCap {
			break
		}
		d *= 2
	}
	d = min(d, s.cfg.RetryCap)
	return d/2 + rand.N(d/2+1)
}

// fail records a failed exchange under the claim's fence. Only the holder of
// the newest claim, at the version it sent, may say that a grant is dead; the
// loser of a race looks again instead.
func (s *Service) fail(ctx context.Context, c *claim, a answer) (done bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease)
	defer cancel()
	var v verdict
	fenced := false
	err = s.db.UpdateFor(ctx, scope(c.key.tenant), func(tx *store.Tx) error {
		fenced = false
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		v = s.judge(c, a, c.expired(now))
		code := a.code
		if code == "" {
			code = string(a.class)
		}
		args := append([]any{flag(v.unknown), millis(now.Add(v.wait)), code}, c.fence()...)
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET phase = 'idle', lease_exp = 0, fail_count = fail_count + 1,
			unknown_count = unknown_count + ?, next_attempt_at = ?, last_code = ?
			WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`, args...)
		if err != nil {
			return err
		}
		outcome := string(a.class)
		if n == 0 {
			fenced, outcome = true, "fenced"
		} else if v.status != "" {
			if err := s.setStatus(ctx, tx, now, c.record, v.status, v.reason); err != nil {
				return err
			}
		}
		return c.finished(ctx, tx, now, outcome, a.code, a.status)
	})
	switch {
	case err != nil:
		return true, storage(err)
	case fenced:
		return false, nil
	case v.status == StatusReconnectRequired:
		s.forget(c.key)
		return true, reconnect(v.reason)
	}
	return true, unavailable(v.wait, "the provider did not renew the token ("+string(a.class)+")")
}

// lose ends a connection that can't be renewed, unless it has moved on.
func (s *Service) lose(ctx context.Context, r *record, reason Reason) error {
	moved := false
	err := s.db.UpdateFor(ctx, scope(r.key.tenant), func(tx *store.Tx) error {
		moved = false
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET last_code = ? WHERE tenant_id = ? AND connection_id = ? AND version = ? AND phase = 'idle'`,
			string(reason), string(r.key.tenant), string(r.key.connection), r.version)
		if err != nil {
			return err
		}
		if n == 0 {
			moved = true
			return nil
		}
		return s.setStatus(ctx, tx, now, r, StatusReconnectRequired, reason)
	})
	switch {
	case err != nil:
		return storage(err)
	case moved:
		return nil // the caller reads again
	}
	s.forget(r.key)
	return reconnect(reason)
}

// quarantine ends a connection whose record does not open where it lies.
func (s *Service) quarantine(ctx context.Context, r *record) error {
	err := s.db.UpdateFor(ctx, scope(r.key.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET phase = 'idle', lease_exp = 0, lease_tok = lease_tok + 1, last_code = 'integrity'
			WHERE tenant_id = ? AND connection_id = ? AND version = ?`, string(r.key.tenant), string(r.key.connection), r.version)
		if err != nil || n == 0 {
			return err
		}
		return s.setStatus(ctx, tx, now, r, StatusReconnectRequired, ReasonIntegrity)
	})
	if err != nil {
		return storage(err)
	}
	s.forget(r.key)
	s.log.ErrorContext(ctx, "stored tokens do not belong where they lie", "tenant", r.key.tenant, "connection", r.key.connection)
	return reconnect(ReasonIntegrity)
}

// setStatus changes a usable connection's status. Degraded does not bump the
// authorization version: what the connection may do is the same.
func (s *Service) setStatus(ctx context.Context, tx *store.Tx, now time.Time, r *record, to Status, reason Reason) error {
	bump := flag(to != StatusDegraded)
	n, err := tx.Exec(ctx, `UPDATE cred_connections SET status = ?, reason = ?, authz_version = authz_version + ?, updated_at = ?
		WHERE tenant_id = ? AND id = ? AND status IN ('active', 'degraded')`,
		string(to), string(reason), bump, millis(now), string(r.key.tenant), string(r.key.connection))
	if err != nil || n == 0 {
		return err
	}
	if bump != 0 {
		if err := s.onChange(ctx, tx, r.key.tenant, r.key.connection); err != nil {
			return err
		}
	}
	return audit(ctx, tx, now, r.key.tenant, event{actor: system, action: "status." + string(to), connection: r.key.connection,
		result: string(reason), from: r.version})
}

var _ connector.Connections = (*Service)(nil)
