package credentials

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// rejectionWindow: a token that was made because the one before was refused,
// and is refused itself this soon, will not be made good by a third.
const rejectionWindow = 2 * time.Minute

// renew waits for the connection to move past the record's version.
func (s *Service) renew(ctx context.Context, r *record, refused bool) error {
	select {
	case result := <-s.flight(ctx, r, refused):
		return result.Err
	case <-ctx.Done():
		return connector.AsError(ctx.Err())
	}
}

// flight starts or joins this process's one attempt to move a connection past
// a version. Its context is nobody's: the first caller may leave while others
// wait. It ends by itself, so a stuck one can't block the connection for good.
func (s *Service) flight(ctx context.Context, r *record, refused bool) <-chan singleflight.Result {
	name := fmt.Sprintf("%q %q %d", r.key.tenant, r.key.connection, r.version)
	return s.flights.DoChan(name, func() (any, error) {
		if !s.enter() {
			return nil, unavailable(0, "the service is stopping")
		}
		defer s.running.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease*3/2)
		defer cancel()
		defer context.AfterFunc(s.base, cancel)()
		err := s.refresh(ctx, r, refused)
		if err != nil && ctx.Err() != nil && connector.CodeOf(err) == connector.CodeDeadline {
			// The flight's time, not that of any of those who wait.
			err = unavailable(s.cfg.RetryBase, "the token could not be renewed in time")
		}
		return nil, err
	})
}

// claim is the right to spend one refresh token once.
type claim struct {
	*record
	lease    int64
	unknowns int64 // exchanges of this refresh token whose outcome is not known
	fails    int64
	started  time.Time // before the claim was made, with its monotonic part
	tokens   pair
	granted  []string
	answered []string
	asked    []string
	kind     Kind
}

// refresh moves the connection past a version: by adopting what another
// process did, or by claiming, sending and committing.
func (s *Service) refresh(ctx context.Context, from *record, refused bool) error {
	var w watch
	for {
		r, err := s.read(ctx, from.key, from.principal)
		if err != nil {
			return err
		}
		if r.version != from.version {
			return nil // adopted
		}
		now, err := s.clock.now(ctx)
		if err != nil {
			return storage(err)
		}
		p := s.providers[r.provider]
		switch {
		case !r.hasRefresh && refused && p != nil && p.Kind == KindStatic:
			return s.lose(ctx, r, ReasonKeyRefused)
		case !r.hasRefresh && (refused || r.expired(now)):
			return s.lose(ctx, r, ReasonNoRefreshToken)
		case refused && r.forced && now.Sub(r.issuedAt) < rejectionWindow:
			return s.lose(ctx, r, ReasonRevoked)
		case now.Before(r.nextTry):
			return unavailable(r.nextTry.Sub(now), "the token can not be renewed at the moment")
		case p == nil || p.ClientID != r.client || p.Issuer != r.issuer:
			return connector.Fail(connector.CodeUnavailable, "the provider of this connection is not configured")
		}
		if p, err = s.provider(ctx, p.ID); err != nil {
			return err
		}
		wait, probe := s.circuits.enter(p.key())
		if wait > 0 {
			return unavailable(wait, "the provider's token endpoint fails for everybody and is not asked at the moment")
		}
		c, err := s.claim(ctx, r, &w)
		if err != nil || c == nil {
			s.circuits.leave(p.key(), probe)
		}
		if err != nil {
			return err
		}
		if c == nil {
			if err := pause(ctx, 20*time.Millisecond+rand.N(180*time.Millisecond)); err != nil {
				return unavailable(s.cfg.RetryBase, "the token is being renewed elsewhere")
			}
			continue
		}
		done, err := s.spend(ctx, p, c, refused)
		s.circuits.leave(p.key(), probe)
		if done || err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch is how long the database has answered a flight without a gap. An outage
// outlives leases, and when it is over a holder that kept its pair in memory is
// alive beside those who take it for dead. It must come first: its pair is the
// only good one.
type watch struct{ since, last time.Time }

func (w *watch) answered(gap time.Duration) (steady time.Duration) {
	now := time.Now()
	if w.since.IsZero() || now.Sub(w.last) > gap {
		w.since = now
	}
	w.last = now
	return now.Sub(w.since)
}

// claim takes the lease, durably, before anything is sent. Nil without an
// error: somebody else holds it. A lease that ran out is left alone for as long
// again, in which its holder may still commit, and until the database has been
// there for the guard time, in which a holder tries several times; after that
// its refresh token counts as possibly spent.
func (s *Service) claim(ctx context.Context, r *record, w *watch) (*claim, error) {
	c := &claim{record: r, started: time.Now()}
	var sealed []byte
	var answered, granted, asked string
	err := s.db.UpdateFor(ctx, scope(r.key.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		heir := w.answered(s.cfg.Guard/2) >= s.cfg.Guard
		err = tx.QueryRow(ctx, `UPDATE cred_tokens SET lease_tok = lease_tok + 1, lease_owner = ?, lease_exp = ?, phase = 'claimed',
			unknown_count = unknown_count + CASE WHEN phase = 'claimed' THEN 1 ELSE 0 END
			WHERE tenant_id = ? AND connection_id = ? AND version = ? AND sealed IS NOT NULL AND next_attempt_at <= ?
			AND (phase = 'idle' OR (lease_exp < ? AND ? <> 0))
			RETURNING lease_tok, sealed, unknown_count, fail_count, answered_scopes`,
			s.owner, millis(now.Add(s.cfg.Lease)), string(r.key.tenant), string(r.key.connection), r.version, millis(now),
			millis(now.Add(-s.cfg.Lease)), flag(heir)).Scan(&c.lease, &sealed, &c.unknowns, &c.fails, &answered)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT granted_scopes, requested_scopes FROM cred_connections WHERE tenant_id = ? AND id = ?`,
			string(r.key.tenant), string(r.key.connection)).Scan(&granted, &asked); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO cred_attempts (tenant_id, connection_id, lease_tok, from_version, owner, started_at, finished_at,
			outcome, code, http_status) VALUES (?, ?, ?, ?, ?, ?, 0, 'claimed', '', 0)`,
			string(r.key.tenant), string(r.key.connection), c.lease, r.version, s.owner, millis(now))
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, store.ErrBusy):
		return nil, nil
	case err != nil:
		return nil, storage(err)
	}
	c.answered, c.granted, c.asked = unlist(answered), unlist(granted), unlist(asked)
	if c.tokens, err = s.openRecord(ctx, r, sealed); err != nil {
		if errors.Is(err, keys.ErrIntegrity) {
			return nil, s.quarantine(ctx, r)
		}
		s.release(ctx, c, "key_unavailable")
		return nil, storage(err)
	}
	return c, nil
}

// late tells that the lease may end while the provider is still answering. The
// wall clock counts too: the monotonic one can stand still while a machine sleeps.
func (s *Service) late(c *claim) bool {
	limit := s.cfg.Lease - s.cfg.HTTPTimeout - s.cfg.Guard
	now := time.Now()
	return now.Sub(c.started) > limit || now.Round(0).Sub(c.started.Round(0)) > limit
}

// spend sends the refresh token and records what came of it. Not done without
// an error: look again.
func (s *Service) spend(ctx context.Context, p *Provider, c *claim, refused bool) (done bool, err error) {
	c.kind = p.Kind
	if s.claimed != nil {
		s.claimed()
	}
	if s.late(c) || ctx.Err() != nil {
		s.release(ctx, c, "abandoned")
		return false, ctx.Err()
	}
	// Once sent it is waited for, also by a Service that is being closed: an
	// answer that nobody takes costs the grant.
	sendCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.HTTPTimeout)
	defer cancel()
	var a answer
	if p.Kind.mints() {
		a, err = s.mint(sendCtx, p, c.tokens.refresh, c.asked)
	} else {
		a, err = s.token(sendCtx, p, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.tokens.refresh.reveal()}})
	}
	if err != nil {
		s.release(ctx, c, "abandoned")
		return false, err
	}
	s.reportRenewal(ctx, p, c, a)
	if a.class == classGranted {
		return s.commit(ctx, p, c, a, refused)
	}
	return s.fail(ctx, c, a)
}

// release gives an unused claim back. If that fails the lease runs out.
func (s *Service) release(ctx context.Context, c *claim, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Guard)
	defer cancel()
	err := s.db.UpdateFor(ctx, scope(c.key.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE cred_tokens SET phase = 'idle', lease_exp = 0
			WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`, c.fence()...); err != nil {
			return err
		}
		return c.finished(ctx, tx, now, why, "", 0)
	})
	if err != nil {
		s.log.WarnContext(ctx, "claim was not given back; it runs out by itself", "connection", c.key.connection, "error", err)
	}
}

// fence are the arguments of the WHERE that every write of a claim has.
func (c *claim) fence() []any {
	return []any{string(c.key.tenant), string(c.key.connection), c.version, c.lease}
}

func (c *claim) finished(ctx context.Context, tx *store.Tx, now time.Time, outcome, code string, status int) error {
	_, err := tx.Exec(ctx, `UPDATE cred_attempts SET finished_at = ?, outcome = ?, code = ?, http_status = ?
		WHERE tenant_id = ? AND connection_id = ? AND lease_tok = ?`,
		millis(now), outcome, code, status, string(c.key.tenant), string(c.key.connection), c.lease)
	return err
}
