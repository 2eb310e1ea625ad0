package credentials

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// claimTransaction finds the sign-in that a callback belongs to and takes it,
// once. The order matters: who is asking, then which server answered, then the
// compare-and-swap; nothing of the answer is used before all three hold.
func (s *Service) claimTransaction(ctx context.Context, caller connector.Caller, browserKey string, q url.Values) (*transaction, error) {
	if err := validReturn(q); err != nil {
		return nil, err
	}
	stateHash := hash(q.Get("state"))
	t, err := s.readTransaction(ctx, caller.Tenant, stateHash)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.foreign(ctx, caller, stateHash)
	}
	if err != nil {
		return nil, storage(err)
	}
	if t.principal != caller.Principal || subtle.ConstantTimeCompare(t.browserHash, hash(browserKey)) != 1 {
		return nil, s.foreign(ctx, caller, stateHash)
	}
	now, err := s.clock.now(ctx)
	if err != nil {
		return nil, storage(err)
	}
	if t.status != "open" {
		return t, s.alreadyUsed(t)
	}
	if !now.Before(t.expiresAt) {
		return nil, connector.Fail(connector.CodeGone, "this sign-in has expired; start again")
	}
	if !issuerFits(t, q) {
		// Not even the error of an answer that another server may have made is
		// looked at (RFC 9207 section 2.4).
		if err := s.closeTransaction(ctx, t, "open", "failed", "issuer_mismatch"); err != nil {
			return nil, storage(err)
		}
		return nil, connector.Fail(connector.CodePermissionDenied, "the answer came from another authorization server; nothing was connected")
	}
	if err := s.closeTransaction(ctx, t, "open", "consumed", ""); err != nil {
		if errors.Is(err, errNotOpen) {
			if again, err := s.readTransaction(ctx, caller.Tenant, stateHash); err == nil {
				t = again
			}
			return t, s.alreadyUsed(t)
		}
		return nil, storage(err)
	}
	return t, nil
}

// issuerFits is the table of RFC 9207: a value that is present always counts,
// whether it was advertised or not, and nothing is normalised.
func issuerFits(t *transaction, q url.Values) bool {
	if _, present := q["iss"]; present {
		return q.Get("iss") == t.issuer
	}
	return !t.issAdvertised
}

// foreign answers a state that this browser and principal did not start, and
// burns it if it exists: a state in the wrong hands has leaked, or somebody was
// sent a link to bind their account to a stranger's sign-in.
func (s *Service) foreign(ctx context.Context, caller connector.Caller, stateHash []byte) error {
	err := s.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE cred_transactions SET status = 'failed', result = 'foreign_callback', verifier = NULL
			WHERE state_hash = ? AND status = 'open'`, stateHash)
		return err
	})
	if err != nil {
		return storage(err)
	}
	return connector.Fail(connector.CodeNotFound, "this sign-in was not started here; start again")
}

func (s *Service) alreadyUsed(t *transaction) error {
	switch t.status {
	case "completed":
		return connector.Fail(connector.CodeConflict, "this sign-in was already used; its connection is there")
	case "expired":
		return connector.Fail(connector.CodeGone, "this sign-in has expired; start again")
	case "failed":
		return connector.Fail(connector.CodeConflict, "this sign-in was already used and failed (%s); start again", t.result)
	}
	return connector.Fail(connector.CodeConflict, "this sign-in was already used; its result is not known yet")
}

// readTransaction is by hash: the comparison of the state itself is that of two
// SHA-256 values in an index, which tells a guesser nothing.
func (s *Service) readTransaction(ctx context.Context, tenant connector.TenantID, stateHash []byte) (*transaction, error) {
	t := &transaction{tenant: tenant}
	return t, scanTransaction(s.db.QueryRowFor(ctx, scope(tenant), transactionQuery+` AND state_hash = ?`, string(tenant), stateHash), t)
}

const transactionQuery = `SELECT id, mode, principal_id, browser_hash, provider_id, client_id, issuer, iss_advertised, token_url,
	redirect_uri, resource, scopes, wanted, reconnect, verifier, status, result, connection_id, expires_at, poll_at, poll_interval
	FROM cred_transactions WHERE tenant_id = ?`

func scanTransaction(row store.Scanner, t *transaction) error {
	var advertised, expires, poll, interval int64
	var scopes, wanted string
	err := row.Scan(&t.id, &t.mode, &t.principal, &t.browserHash, &t.provider, &t.client, &t.issuer, &advertised, &t.tokenURL,
		&t.redirectURI, &t.resource, &scopes, &wanted, &t.reconnect, &t.verifier, &t.status, &t.result, &t.connection, &expires, &poll, &interval)
	t.issAdvertised, t.scopes, t.wanted, t.expiresAt = advertised != 0, unlist(scopes), unlist(wanted), fromMillis(expires)
	t.pollAt, t.pollInterval = fromMillis(poll), time.Duration(interval)*time.Millisecond
	return err
}

var errNotOpen = errors.New("transaction is not in the expected state")

// closeTransaction moves a sign-in on by compare-and-swap.
func (s *Service) closeTransaction(ctx context.Context, t *transaction, from, to, result string) error {
	return s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE cred_transactions SET status = ?, result = ?, verifier = NULL
			WHERE tenant_id = ? AND id = ? AND status = ? AND (status <> 'open' OR expires_at > ?)`,
			to, result, string(t.tenant), t.id, from, millis(now))
		if err != nil {
			return err
		}
		if n == 0 {
			return errNotOpen
		}
		return audit(ctx, tx, now, t.tenant, event{actor: string(t.principal), action: "connect." + to, connection: t.reconnect, result: result})
	})
}

// validReturn is what a provider may send back as a code or a state.
func validReturn(q url.Values) error {
	for _, name := range []string{"code", "state", "iss", "error"} {
		switch v := q[name]; {
		case len(v) > 1:
			// RFC 6749 section 3.1. Two readers that choose differently are
			// how one value gets checked and another one used.
			return connector.Fail(connector.CodeInvalidInput, "the provider's answer names %s twice", name)
		case len(v) == 1 && len(v[0]) > 4096:
			return connector.Fail(connector.CodeInvalidInput, "the provider's answer is too long")
		}
	}
	if q.Get("state") == "" {
		return connector.Fail(connector.CodeInvalidInput, "the provider's answer names no sign-in")
	}
	return nil
}
