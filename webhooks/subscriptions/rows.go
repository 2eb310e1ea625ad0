package subscriptions

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// row is a subscription with what is of no concern to anybody else.
type row struct {
	Subscription
	addressHash                                              []byte
	draft                                                    []byte // sealed
	keyless                                                  bool
	made, expires, life, missing, checked, received, due, at int64
	pulled                                                   string
	fence                                                    int64
}

const columns = `endpoint, tenant, provider, connection, subscriber, project, origin, replaces, address_hash, draft, state, hook, keyless,
	made_at, expires_at, life, renewal, missing_at, checked_at, fault, received_at, pulled, fence, due_at`

func scan(r store.Scanner) (v row, err error) {
	var keyless int64
	err = r.Scan(&v.Endpoint, &v.Tenant, &v.Provider, &v.Connection, &v.Subscriber, &v.Project, &v.Origin, &v.Replaces, &v.addressHash, &v.draft,
		&v.State, &v.Hook, &keyless, &v.made, &v.expires, &v.life, &v.Renewal, &v.missing, &v.checked, &v.Fault, &v.received, &v.pulled, &v.fence, &v.due)
	v.keyless = keyless != 0
	v.MadeAt, v.ExpiresAt, v.CheckedAt, v.ReceivedAt = moment(v.made), moment(v.expires), moment(v.checked), moment(v.received)
	return v, err
}

// query returns the rows that a condition holds for.
func (s *Service) query(ctx context.Context, whose store.Scope, condition string, args ...any) (all []row, err error) {
	err = s.c.DB.EachFor(ctx, whose, func(r store.Scanner) error {
		v, err := scan(r)
		all = append(all, v)
		return err
	}, `SELECT `+columns+` FROM webhook_subscription WHERE `+condition, args...)
	return all, err
}

// one is the row of an endpoint, or NOT_FOUND, also when it is another tenant's.
func (s *Service) one(ctx context.Context, tenant connector.TenantID, endpoint string) (row, error) {
	v, err := scan(s.c.DB.QueryRowFor(ctx, of(tenant), `SELECT `+columns+` FROM webhook_subscription WHERE tenant = ? AND endpoint = ?`, string(tenant), endpoint))
	if errors.Is(err, sql.ErrNoRows) {
		return v, connector.Fail(connector.CodeNotFound, "no subscription belongs to this webhook endpoint")
	}
	return v, err
}

func of(t connector.TenantID) store.Scope { return store.Tenant(string(t)) }

func (s *Service) now(ctx context.Context, tx *store.Tx) (time.Time, error) {
	now, err := tx.Now(ctx)
	return now.Add(s.skew), err
}

func hashOf(address string) []byte {
	sum := sha256.Sum256([]byte(address))
	return sum[:]
}

func draftContext(endpoint string) []byte { return keys.Context("webhook subscription", endpoint) }

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// SealedBy counts the drafts by the id of the key that they are sealed with, as
// webhooks.Service.SealedBy does its secrets.
func (s *Service) SealedBy(ctx context.Context) (map[uint32]int, error) {
	all, err := s.query(ctx, store.AllTenants(), `draft IS NOT NULL`)
	used := map[uint32]int{}
	for _, v := range all {
		id, _ := keys.KeyID(v.draft)
		used[id]++
	}
	return used, failed(err)
}

// Reseal puts the drafts under the ring's primary key, and returns how many it
// changed.
func (s *Service) Reseal(ctx context.Context) (changed int, err error) {
	all, err := s.query(ctx, store.AllTenants(), `draft IS NOT NULL ORDER BY endpoint`)
	if err != nil {
		return 0, failed(err)
	}
	for _, v := range all {
		if id, ok := keys.KeyID(v.draft); ok && id == s.c.Keys.Primary() {
			continue
		}
		text, err := s.c.Keys.Open(v.draft, draftContext(v.Endpoint))
		if err != nil {
			return changed, failed(err)
		}
		fresh, err := s.c.Keys.Seal(text, draftContext(v.Endpoint))
		if err != nil {
			return changed, failed(err)
		}
		err = s.c.DB.UpdateFor(ctx, of(v.Tenant), func(tx *store.Tx) error {
			// A draft that was made in the meantime is not to come back.
			_, err := tx.Exec(ctx, `UPDATE webhook_subscription SET draft = ? WHERE endpoint = ? AND draft IS NOT NULL`, fresh, v.Endpoint)
			return err
		})
		if err != nil {
			return changed, failed(err)
		}
		changed++
	}
	return changed, nil
}
