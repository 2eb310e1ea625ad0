package credentials

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

const (
	pruneBatch  = 500 // rows of one transaction: others want to write too
	pruneRounds = 20  // of one statement in one call
)

// Prune lets go of what nobody needs any more, and returns how many rows it
// changed. Call it now and then; any number of processes may.
//
// A sign-in that has expired loses its secret at once. What has been over for
// Config.Keep is deleted: sign-ins, records of renewals, settled revocations,
// disconnected connections. A connection that should have been made again for
// as long gives its tokens to the outbox of revocations, because some of them
// may live on at the provider, and stays as it is otherwise. The audit rows are
// not touched: how long they are kept is not this package's to say.
//
// A call does at most some ten thousand rows; the rest is for the next one.
func (s *Service) Prune(ctx context.Context) (int, error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return 0, storage(err)
	}
	old := millis(now.Add(-s.cfg.Keep))
	total := 0
	for _, p := range []struct {
		text string
		at   int64
	}{
		{`UPDATE cred_transactions SET status = 'expired', verifier = NULL WHERE (tenant_id, id) IN
			(SELECT tenant_id, id FROM cred_transactions WHERE status = 'open' AND expires_at <= ? LIMIT ?)`, millis(now)},
		{`DELETE FROM cred_transactions WHERE (tenant_id, id) IN
			(SELECT tenant_id, id FROM cred_transactions WHERE status <> 'open' AND created_at <= ? LIMIT ?)`, old},
		{`DELETE FROM cred_attempts WHERE (tenant_id, connection_id, lease_tok) IN
			(SELECT tenant_id, connection_id, lease_tok FROM cred_attempts WHERE started_at <= ? LIMIT ?)`, old},
		// What became of a connection's tokens is shown for as long as it is.
		{`DELETE FROM cred_revocations WHERE (tenant_id, id) IN
			(SELECT r.tenant_id, r.id FROM cred_revocations r WHERE r.state <> 'pending' AND r.updated_at <= ? AND NOT EXISTS
			(SELECT 1 FROM cred_connections c WHERE c.tenant_id = r.tenant_id AND c.id = r.connection_id) LIMIT ?)`, old},
	} {
		n, err := s.pruneRows(ctx, p.text, p.at)
		total += n
		if err != nil {
			return total, storage(err)
		}
	}
	n, err := s.pruneDead(ctx, now, old)
	return total + n, storage(err)
}

func (s *Service) pruneRows(ctx context.Context, text string, at int64) (int, error) {
	total := 0
	for range pruneRounds {
		var n int64
		err := s.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
			var err error
			n, err = tx.Exec(ctx, text, at, pruneBatch)
			return err
		})
		total += int(n)
		if err != nil || n < pruneBatch {
			return total, err
		}
	}
	return total, nil
}

// pruneDead ends what is left of connections that nobody has used for Keep.
func (s *Service) pruneDead(ctx context.Context, now time.Time, old int64) (int, error) {
	var dead []recordKey
	err := s.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var k recordKey
		err := row.Scan(&k.tenant, &k.connection)
		dead = append(dead, k)
		return err
	}, `SELECT c.tenant_id, c.id FROM cred_connections c JOIN cred_tokens t ON t.tenant_id = c.tenant_id AND t.connection_id = c.id
		WHERE c.updated_at <= ? AND c.status IN ('reconnect_required', 'disconnected') AND (c.status = 'disconnected' OR t.sealed IS NOT NULL)
		ORDER BY c.updated_at LIMIT ?`, old, pruneBatch)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, k := range dead {
		err := s.db.UpdateFor(ctx, scope(k.tenant), func(tx *store.Tx) error { return s.pruneOne(ctx, tx, k, now, old) })
		switch {
		case err == nil:
			total++
		case !errors.Is(err, errMoved) && !errors.Is(err, sql.ErrNoRows): // somebody was first
			return total, err
		}
	}
	return total, nil
}

func (s *Service) pruneOne(ctx context.Context, tx *store.Tx, k recordKey, now time.Time, old int64) error {
	tenant, id := string(k.tenant), string(k.connection)
	var status Status
	var provider, client, issuer string
	var version, lease int64
	var sealed []byte
	err := tx.QueryRow(ctx, `SELECT c.status, c.provider_id, c.client_id, c.issuer, t.version, t.lease_tok, t.sealed
		FROM cred_connections c JOIN cred_tokens t ON t.tenant_id = c.tenant_id AND t.connection_id = c.id
		WHERE c.tenant_id = ? AND c.id = ? AND c.updated_at <= ?`, tenant, id, old).Scan(&status, &provider, &client, &issuer, &version, &lease, &sealed)
	if err != nil {
		return err
	}
	switch status {
	case StatusDisconnected:
		for _, text := range []string{
			`DELETE FROM cred_tokens WHERE tenant_id = ? AND connection_id = ?`,
			`DELETE FROM cred_attempts WHERE tenant_id = ? AND connection_id = ?`,
			`DELETE FROM cred_revocations WHERE tenant_id = ? AND connection_id = ? AND state <> 'pending'`,
			`DELETE FROM cred_connections WHERE tenant_id = ? AND id = ? AND status = 'disconnected'`,
		} {
			if _, err := tx.Exec(ctx, text, tenant, id); err != nil {
				return err
			}
		}
	case StatusReconnectRequired:
		n, err := tx.Exec(ctx, `UPDATE cred_tokens SET version = version + 1, lease_tok = lease_tok + 1, sealed = NULL, has_refresh = 0
			WHERE tenant_id = ? AND connection_id = ? AND version = ? AND lease_tok = ?`, tenant, id, version, lease)
		if err != nil {
			return err
		}
		if n == 0 {
			return errMoved
		}
		at := place{k.tenant, k.connection, issuer, client}
		// What does not open is of no use to anybody.
		if tokens, err := s.openPair(sealed, at.tokens(version)); err == nil {
			if _, err := s.queueRevocation(ctx, tx, s.providers[provider], k.tenant, k.connection, tokens, now, now); err != nil {
				return err
			}
		}
	default:
		return errMoved
	}
	return audit(ctx, tx, now, k.tenant, event{actor: system, action: "prune", connection: k.connection, result: string(status), from: version})
}
