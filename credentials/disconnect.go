package credentials

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// StepState is how far one step of a disconnect has come.
type StepState string

const (
	StepNone    StepState = "none" // there was nothing to do
	StepPending StepState = "pending"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed" // given up; Code says why
)

// A Step of a disconnect.
type Step struct {
	State StepState
	Code  string // closed
	Tries int
	At    time.Time // of the last change
}

// Steps are the parts of a disconnect, which succeed and fail by themselves.
type Steps struct {
	// Stopped is done as soon as Disconnect returns without an error: no call
	// gets a credential any more.
	Stopped      Step
	RefreshToken Step
	AccessToken  Step
	// RevokedAtProvider is "yes" only when the provider confirmed every token,
	// "no" when one can't be revoked there, "unknown" until it is settled.
	RevokedAtProvider string
}

// The codes of a settled revocation.
const (
	codeRevoked     = "revoked"
	codeUnsupported = "unsupported_token_type" // RFC 7009 section 2.2.1
	codeNoEndpoint  = "no_revocation_endpoint"
	codeUnreadable  = "token_unreadable"
	codeGaveUp      = "gave_up"
)

// Disconnect ends a connection. Its first transaction stops all use in every
// process, moves the tokens to a sealed outbox and bumps the authorization
// version; then it tries to revoke them once. What the provider did not take
// is tried again by PumpRevocations, for a week.
//
// Disconnecting a connection twice is not an error; the second call reports
// and moves on the steps of the first. The reason is for the audit record.
func (s *Service) Disconnect(ctx context.Context, caller connector.Caller, id connector.ConnectionID, reason string) (Steps, error) {
	if !storable(string(id)) {
		return Steps{}, notConnected()
	}
	key := recordKey{caller.Tenant, id}
	reason = clean(reason)
	if runes := []rune(reason); len(runes) > 200 {
		reason = string(runes[:200])
	}
	err := errMoved
	for try := 0; try < 5 && errors.Is(err, errMoved); try++ {
		err = s.stopConnection(ctx, caller, id, reason)
	}
	if err != nil {
		return Steps{}, storage(err)
	}
	s.forget(key)
	if err := s.pump(ctx, key); err != nil {
		s.log.WarnContext(ctx, "revocation is left to the outbox", "connection", id, "error", err)
	}
	v, err := s.Show(ctx, caller, id)
	if err != nil {
		return Steps{}, err
	}
	return v.Revocation, nil
}

func (s *Service) stopConnection(ctx context.Context, caller connector.Caller, id connector.ConnectionID, reason string) error {
	return s.db.UpdateFor(ctx, scope(caller.Tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var status Status
		var provider, client, issuer string
		var version, lease int64
		var sealed []byte
		err = tx.QueryRow(ctx, `SELECT c.status, c.provider_id, c.client_id, c.issuer, t.version, t.lease_tok, t.sealed
			FROM cred_connections c JOIN cred_tokens t ON t.tenant_id = c.tenant_id AND t.connection_id = c.id
			WHERE c.tenant_id = ? AND c.id = ? AND c.principal_id = ?`,
			string(caller.Tenant), string(id), string(caller.Principal)).Scan(&status, &provider, &client, &issuer, &version, &lease, &sealed)
		if errors.Is(err, sql.ErrNoRows) {
			return notConnected()
		}
		if err != nil || status == StatusDisconnecting || status == StatusDisconnected {
			return err
		}
		// Both numbers move: a claim, a commit and a sign-in that started
		// before this see that they were overtaken.
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET version = version + 1, lease_tok = lease_tok + 1, sealed = NULL, phase = 'idle',
			lease_exp = 0, lease_owner = '' WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`,
			string(caller.Tenant), string(id), version, lease)
		if err != nil {
			return err
		}
		if n == 0 {
			return errMoved
		}
		p := s.providers[provider]
		at := place{caller.Tenant, id, issuer, client}
		left := 0
		var tokens pair
		if sealed != nil { // nil: Prune was first
			tokens, err = s.openPair(sealed, at.tokens(version))
		}
		if err != nil {
			// Stopping must not depend on keys or on an intact row.
			err = s.insertRevocation(ctx, tx, revocation{tenant: caller.Tenant, connection: id, provider: provider, kind: kindAccess,
				state: StepFailed, code: codeUnreadable, nextAt: millis(now), giveUpAt: now}, now)
		} else {
			left, err = s.queueRevocation(ctx, tx, p, caller.Tenant, id, tokens, now, now)
		}
		if err != nil {
			return err
		}
		next := StatusDisconnecting
		if left == 0 {
			next = StatusDisconnected
		}
		n, err = tx.Exec(ctx, `UPDATE cred_connections SET status = ?, reason = '', authz_version = authz_version + 1, updated_at = ?
			WHERE tenant_id = ? AND id = ? AND principal_id = ? AND status NOT IN ('disconnecting', 'disconnected')`,
			string(next), millis(now), string(caller.Tenant), string(id), string(caller.Principal))
		if err != nil {
			return err
		}
		if n == 0 {
			return errMoved
		}
		if err := s.onChange(ctx, tx, caller.Tenant, id); err != nil {
			return err
		}
		return audit(ctx, tx, now, caller.Tenant, event{actor: string(caller.Principal), action: "disconnect", connection: id, result: reason, from: version})
	})
}

const (
	kindRefresh = "refresh_token"
	kindAccess  = "access_token"

	revocationPatience = 7 * 24 * time.Hour
)

type revocation struct {
	tenant     connector.TenantID
	id         string
	connection connector.ConnectionID
	provider   string
	kind       string
	sealed     []byte
	state      StepState
	code       string
	tries      int64
	nextAt     int64 // as stored
	giveUpAt   time.Time
}

func (s *Service) insertRevocation(ctx context.Context, tx *store.Tx, r revocation, now time.Time) error {
	if r.id == "" {
		r.id = rand.Text()
	}
	_, err := tx.Exec(ctx, `INSERT INTO cred_revocations (tenant_id, id, connection_id, provider_id, kind, sealed, state, code, tries,
		next_at, give_up_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?)`,
		string(r.tenant), r.id, string(r.connection), r.provider, r.kind, r.sealed, string(r.state), r.code,
		r.nextAt, millis(r.giveUpAt), millis(now), millis(now))
	return err
}

// queueRevocation puts a pair into the outbox, the refresh token to go first,
// and returns how many rows are pending.
func (s *Service) queueRevocation(ctx context.Context, tx *store.Tx, p *Provider, tenant connector.TenantID, id connector.ConnectionID, tokens pair, now, due time.Time) (int, error) {
	rows, err := s.sealRevocations(p, tenant, id, tokens, now, due)
	if err != nil {
		return 0, err
	}
	left := 0
	for _, r := range rows {
		if r.state == StepPending {
			left++
		}
		if err := s.insertRevocation(ctx, tx, r, now); err != nil {
			return 0, err
		}
	}
	return left, nil
}

func (s *Service) sealRevocations(p *Provider, tenant connector.TenantID, id connector.ConnectionID, tokens pair, now, due time.Time) ([]revocation, error) {
	var rows []revocation
	for _, part := range []struct {
		kind  string
		token Secret
	}{{kindRefresh, tokens.refresh}, {kindAccess, tokens.access}} {
		if part.token.IsZero() || part.kind == kindRefresh && p != nil && p.Kind == KindApp { // an id, no token
			continue
		}
		r := revocation{tenant: tenant, id: rand.Text(), connection: id, kind: part.kind, state: StepPending,
			nextAt: millis(due), giveUpAt: now.Add(revocationPatience)}
		if p != nil {
			r.provider = p.ID
		}
		if p == nil || p.RevocationURL == "" && !p.Discover {
			r.state, r.code = StepFailed, codeNoEndpoint
		} else {
			var err error
			if r.sealed, err = s.cfg.Keys.Seal([]byte(part.token.reveal()), revocationPlace(tenant, r.id, part.kind)); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// readSteps sums up the outbox rows of a connection.
func readSteps(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID, stopped time.Time) (Steps, error) {
	out := Steps{
		Stopped:           Step{State: StepDone, At: stopped},
		RefreshToken:      Step{State: StepNone},
		AccessToken:       Step{State: StepNone},
		RevokedAtProvider: "yes",
	}
	rows, err := tx.Query(ctx, `SELECT kind, state, code, tries, updated_at FROM cred_revocations
		WHERE tenant_id = ? AND connection_id = ? ORDER BY created_at, id`, string(tenant), string(id))
	if err != nil {
		return out, err
	}
	defer rows.Close()
	unsettled, refused, any := false, false, false
	for rows.Next() {
		var kind string
		var at int64
		var row Step
		if err := rows.Scan(&kind, &row.State, &row.Code, &row.Tries, &at); err != nil {
			return out, err
		}
		row.At = fromMillis(at)
		step := &out.RefreshToken
		if kind == kindAccess {
			step = &out.AccessToken
		}
		// Several rows of a kind come of a renewal that ran during the
		// disconnect. The worst one speaks.
		if rank(row.State) >= rank(step.State) {
			*step = row
		}
		any = true
		unsettled = unsettled || row.State == StepPending
		refused = refused || row.State != StepPending && row.Code != codeRevoked
	}
	switch {
	case refused:
		out.RevokedAtProvider = "no"
	case unsettled || !any:
		out.RevokedAtProvider = "unknown"
	}
	return out, rows.Err()
}

func rank(s StepState) int {
	switch s {
	case StepDone:
		return 1
	case StepPending:
		return 2
	case StepFailed:
		return 3
	}
	return 0
}
