package credentials

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"hash/fnv"
	"net/http"
	"strconv"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/keys"
)

const (
	// skew is how long before its end a token is no longer given out: the
	// request has to arrive, too.
	skew = 10 * time.Second
	// maxUnsealed bounds the tokens kept in memory.
	maxUnsealed = 1024
)

// recordKey names a token record.
type recordKey struct {
	tenant     connector.TenantID
	connection connector.ConnectionID
}

type unsealed struct {
	version int64
	access  Secret
}

type provisional struct {
	tenant    connector.TenantID
	principal connector.PrincipalID
	access    Secret
}

// record is what decides about a token, without the token.
type record struct {
	key        recordKey
	principal  connector.PrincipalID
	provider   string
	client     string
	issuer     string
	status     Status
	reason     Reason
	authz      int64
	version    int64
	hasRefresh bool
	forced     bool
	issuedAt   time.Time
	accessExp  time.Time // zero: unknown
	nextTry    time.Time
	lastCode   string
}

func (r *record) place() place { return place{r.key.tenant, r.key.connection, r.issuer, r.client} }

// expired with the skew, which is never more than half of the lifetime: a
// token that is good for seconds must not be renewed for ever. A token of
// unknown lifetime never expires.
func (r *record) expired(now time.Time) bool {
	early := min(skew, r.accessExp.Sub(r.issuedAt)/2)
	return !r.accessExp.IsZero() && !now.Add(early).Before(r.accessExp)
}

// dueEarly tells whether a token that still works should be renewed in the
// background. The margin is a tenth of the lifetime, between one and five
// minutes and never more than half of it, and varies by a tenth between
// processes so that they don't all start at once.
func (r *record) dueEarly(now time.Time, owner string) bool {
	if r.accessExp.IsZero() || !r.hasRefresh || now.Before(r.nextTry) {
		return false
	}
	lifetime := r.accessExp.Sub(r.issuedAt)
	margin := min(max(lifetime/10, time.Minute), 5*time.Minute, lifetime/2)
	h := fnv.New32a()
	h.Write([]byte(owner + string(r.key.connection) + strconv.FormatInt(r.version, 10)))
	margin -= margin / 10 * time.Duration(h.Sum32()%100) / 100
	return !now.Add(margin).Before(r.accessExp)
}

// credential is the only thing that carries a token out of this package, and
// the transport is the only one that gets it.
type credential struct {
	access         Secret
	version        int64
	header, prefix string // the provider's; empty: Authorization, Bearer
}

func (s *Service) credential(provider string, access Secret, version int64) *credential {
	c := &credential{access: access, version: version}
	if p := s.providers[provider]; p != nil {
		c.header, c.prefix = p.Header, p.Prefix
	}
	return c
}

// Apply sets the Authorization header, over whatever was there (RFC 6750
// section 2.1), or the provider's own one.
func (c *credential) Apply(r *http.Request) error {
	header, prefix := c.header, c.prefix
	if header == "" {
		header = "Authorization"
		if prefix == "" {
			prefix = "Bearer "
		}
	}
	r.Header.Del("Authorization")
	r.Header.Set(header, prefix+c.access.reveal())
	return nil
}

// Version is the version of the stored token.
func (c *credential) Version() int64 { return c.version }

// Authorize returns the credential for one request of a connection, and is to
// be asked anew for each one: status, account and version are read from the
// database every time. rejected is the version that the provider has just
// refused with 401, or zero.
//
// An expired or refused token is renewed first, once for all callers of all
// processes. A caller whose context ends stops waiting; the renewal goes on.
func (s *Service) Authorize(ctx context.Context, c connector.Connection, rejected int64) (transport.Credential, error) {
	if lent, ok := s.lent(c); ok {
		if rejected != 0 {
			return nil, connector.Fail(connector.CodeConnectionRequired, "the provider refuses the token it has just issued")
		}
		return s.credential(c.Provider, lent, 1), nil
	}
	for range 4 {
		r, err := s.read(ctx, recordKey{c.Tenant, c.ID}, c.Principal)
		if err != nil {
			return nil, err
		}
		if r.authz != c.AuthzVersion {
			return nil, changed()
		}
		now, err := s.clock.now(ctx)
		if err != nil {
			return nil, storage(err)
		}
		refused := rejected != 0 && rejected == r.version
		if refused || r.expired(now) {
			if err := s.renew(ctx, r, refused); err != nil {
				return nil, err
			}
			continue
		}
		access, err := s.unseal(ctx, r)
		if errors.Is(err, sql.ErrNoRows) {
			continue // the version moved on between two reads
		}
		if err != nil {
			return nil, err
		}
		if r.dueEarly(now, s.owner) {
			s.flight(ctx, r, false) // nobody waits for it
		}
		s.noteUse(r.key, now)
		return s.credential(r.provider, access, r.version), nil
	}
	return nil, unavailable(s.cfg.RetryBase, "the connection's token changes faster than it can be used")
}

// read fails unless the connection is the principal's and usable.
func (s *Service) read(ctx context.Context, key recordKey, principal connector.PrincipalID) (*record, error) {
	r := &record{key: key, principal: principal}
	var hasRefresh, forced, issued, expires, next int64
	err := s.db.QueryRowFor(ctx, scope(key.tenant), `SELECT c.provider_id, c.client_id, c.issuer, c.status, c.reason, c.authz_version,
		t.version, t.has_refresh, t.forced, t.issued_at, t.access_exp, t.next_attempt_at, t.last_code
		FROM cred_connections c JOIN cred_tokens t ON t.tenant_id = c.tenant_id AND t.connection_id = c.id
		WHERE c.tenant_id = ? AND c.id = ? AND c.principal_id = ?`,
		string(key.tenant), string(key.connection), string(principal)).Scan(&r.provider, &r.client, &r.issuer, &r.status, &r.reason, &r.authz,
		&r.version, &hasRefresh, &forced, &issued, &expires, &next, &r.lastCode)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, notConnected()
	case err != nil:
		return nil, storage(err)
	}
	r.hasRefresh, r.forced = hasRefresh != 0, forced != 0
	r.issuedAt, r.accessExp, r.nextTry = fromMillis(issued), fromMillis(expires), fromMillis(next)
	switch {
	case r.status.Usable():
		return r, nil
	case r.status == StatusReconnectRequired:
		s.forget(key)
		return nil, reconnect(r.reason)
	}
	s.forget(key)
	return nil, notConnected()
}

// unseal returns the access token of exactly the version that was read.
func (s *Service) unseal(ctx context.Context, r *record) (Secret, error) {
	s.mu.Lock()
	kept, ok := s.unsealed[r.key]
	s.mu.Unlock()
	if ok && kept.version == r.version {
		return kept.access, nil
	}
	var sealed []byte
	err := s.db.QueryRowFor(ctx, scope(r.key.tenant), `SELECT sealed FROM cred_tokens WHERE tenant_id = ? AND connection_id = ? AND version = ?`,
		string(r.key.tenant), string(r.key.connection), r.version).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return Secret{}, err
	}
	if err != nil {
		return Secret{}, storage(err)
	}
	p, err := s.openRecord(ctx, r, sealed)
	if errors.Is(err, keys.ErrIntegrity) {
		return Secret{}, s.quarantine(ctx, r)
	}
	if err != nil {
		return Secret{}, storage(err)
	}
	s.keep(r.key, unsealed{r.version, p.access})
	return p.access, nil
}

// openRecord opens what was read of a record. Between the two the record may
// have been resealed and its old key taken away; then what lies there now opens.
func (s *Service) openRecord(ctx context.Context, r *record, sealed []byte) (pair, error) {
	p, err := s.openPair(sealed, r.place().tokens(r.version))
	if !errors.Is(err, keys.ErrKeyUnavailable) {
		return p, err
	}
	var again []byte
	if readErr := s.db.QueryRowFor(ctx, scope(r.key.tenant), `SELECT sealed FROM cred_tokens WHERE tenant_id = ? AND connection_id = ? AND version = ?`,
		string(r.key.tenant), string(r.key.connection), r.version).Scan(&again); readErr != nil || bytes.Equal(again, sealed) {
		return pair{}, err
	}
	return s.openPair(again, r.place().tokens(r.version))
}

func (s *Service) keep(key recordKey, u unsealed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if len(s.unsealed) >= maxUnsealed {
		for k := range s.unsealed { // any one: it is only a cache
			delete(s.unsealed, k)
			break
		}
	}
	s.unsealed[key] = u
}

func (s *Service) forget(key recordKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unsealed, key)
}

// lend serves a token that is not stored yet under an id that nobody can guess.
func (s *Service) lend(c connector.Connection, access Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provisional[c.ID] = provisional{c.Tenant, c.Principal, access}
}

func (s *Service) takeBack(id connector.ConnectionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.provisional, id)
}

func (s *Service) lent(c connector.Connection) (Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.provisional[c.ID]
	return p.access, ok && p.tenant == c.Tenant && p.principal == c.Principal
}
