package webhooks

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// An Endpoint is an address that one provider posts to for one connection. The
// address, and nothing in a payload, decides whose event it is.
type Endpoint struct {
	ID         string                 `json:"id"`
	Tenant     connector.TenantID     `json:"tenant"`
	Provider   string                 `json:"provider"`
	Connection connector.ConnectionID `json:"connection"`
	Scheme     string                 `json:"scheme"`
	Handshake  string                 `json:"handshake,omitempty"`
	CreatedAt  time.Time              `json:"created_at"`
	DisabledAt *time.Time             `json:"disabled_at,omitempty"`
	Secrets    []Secret               `json:"secrets"` // oldest first; none: it waits for that of its provider
}

// AddRequest is what an endpoint is made of. Tenant, Provider, Connection and
// Scheme are required.
type AddRequest struct {
	Tenant     connector.TenantID
	Provider   string
	Connection connector.ConnectionID
	Scheme     string // a name of package signature

	// Secret is what the provider signs with, in the scheme's own form. Empty
	// makes one, for providers that take one from us.
	Secret string

	// TheirSecret is for a provider that makes the secret itself and tells it when
	// it knows the address: there is none until Rotate brings it, and until then
	// deliveries are answered 503. Secret has to be empty.
	TheirSecret bool

	// Handshake names the query parameter whose value the provider wants to have
	// given back before it subscribes; empty: it does not ask. It is answered
	// while there is no secret.
	Handshake string
}

// Added is shown once: neither the path nor the secret can be had again.
type Added struct {
	Endpoint Endpoint `json:"endpoint"`
	Path     string   `json:"path"`             // to be appended to this server's public origin
	Secret   string   `json:"secret,omitempty"` // only when it was made here
}

// PathPrefix is where the handler expects its requests.
const PathPrefix = "/webhooks/"

// Add makes an endpoint. It fails with INVALID_INPUT for an unknown scheme and
// for a secret that anyone could guess or that the provider can't have meant.
func (s *Service) Add(ctx context.Context, r AddRequest) (Added, error) {
	if r.Tenant == "" || r.Provider == "" || r.Connection == "" {
		return Added{}, connector.Fail(connector.CodeInvalidInput, "tenant, provider and connection are required")
	}
	if r.TheirSecret && r.Secret != "" {
		return Added{}, connector.Fail(connector.CodeInvalidInput, "a secret is given, and the provider makes one")
	}
	secret, made, err := usableSecret(r.Scheme, r.Secret)
	if err != nil {
		return Added{}, err
	}
	var token [32]byte
	rand.Read(token[:])
	text := base64.RawURLEncoding.EncodeToString(token[:])
	hash := tokenHash(text)
	e := Endpoint{ID: newID("whe_"), Tenant: r.Tenant, Provider: r.Provider, Connection: r.Connection, Scheme: r.Scheme, Handshake: r.Handshake,
		Secrets: []Secret{}}
	err = s.db.UpdateFor(ctx, store.Tenant(string(r.Tenant)), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		e.CreatedAt = now
		if _, err := tx.Exec(ctx, `INSERT INTO webhook_endpoint (id, tenant, provider, connection, scheme, handshake, token_hash, created_at, disabled_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`, e.ID, string(e.Tenant), e.Provider, string(e.Connection), e.Scheme, e.Handshake, hash, now.UnixMilli()); err != nil || r.TheirSecret {
			return err
		}
		added, err := s.addSecret(ctx, tx, e.ID, secret, now)
		e.Secrets = []Secret{added}
		return err
	})
	if err != nil {
		return Added{}, failed(err)
	}
	a := Added{Endpoint: e, Path: PathPrefix + text}
	if made && !r.TheirSecret {
		a.Secret = secret
	}
	return a, nil
}

// Disable ends an endpoint for good: its address answers like one that never
// was. What it received stays. Disabling twice changes nothing.
func (s *Service) Disable(ctx context.Context, tenant connector.TenantID, id string) error {
	err := s.db.UpdateFor(ctx, store.Tenant(string(tenant)), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `UPDATE webhook_endpoint SET disabled_at = CASE WHEN disabled_at = 0 THEN ? ELSE disabled_at END
			WHERE tenant = ? AND id = ?`, now.UnixMilli(), string(tenant), id)
		if err != nil {
			return err
		}
		if n == 0 {
			return notFound()
		}
		// Nothing is verified with them any more.
		_, err = tx.Exec(ctx, `DELETE FROM webhook_secret WHERE endpoint = ?`, id)
		return err
	})
	s.receiver.known.forget()
	return failed(err)
}

const endpointColumns = `id, tenant, provider, connection, scheme, handshake, created_at, disabled_at`

func scanEndpoint(r store.Scanner) (Endpoint, error) {
	var e Endpoint
	var created, disabled int64
	err := r.Scan(&e.ID, &e.Tenant, &e.Provider, &e.Connection, &e.Scheme, &e.Handshake, &created, &disabled)
	e.CreatedAt, e.DisabledAt = time.UnixMilli(created).UTC(), moment(disabled)
	return e, err
}

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// Endpoints lists a tenant's endpoints, the disabled ones included.
func (s *Service) Endpoints(ctx context.Context, tenant connector.TenantID) ([]Endpoint, error) {
	all := []Endpoint{}
	err := s.db.ViewFor(ctx, store.Tenant(string(tenant)), func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoint WHERE tenant = ? ORDER BY created_at, id`, string(tenant))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e, err := scanEndpoint(rows)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for i := range all {
			if all[i].Secrets, err = secretsOf(ctx, tx, all[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	return all, failed(err)
}

// Show returns one endpoint, or NOT_FOUND, also when it is another tenant's.
func (s *Service) Show(ctx context.Context, tenant connector.TenantID, id string) (Endpoint, error) {
	var e Endpoint
	err := s.db.ViewFor(ctx, store.Tenant(string(tenant)), func(tx *store.Tx) (err error) {
		e, err = scanEndpoint(tx.QueryRow(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoint WHERE tenant = ? AND id = ?`, string(tenant), id))
		if errors.Is(err, sql.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return err
		}
		e.Secrets, err = secretsOf(ctx, tx, id)
		return err
	})
	return e, failed(err)
}

func tokenHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func newID(prefix string) string {
	var random [12]byte
	rand.Read(random[:])
	return prefix + hex.EncodeToString(random[:])
}

func notFound() error {
	return connector.Fail(connector.CodeNotFound, "no such webhook endpoint")
}

// failed gives an error of the store its code; one of ours has it.
func failed(err error) error {
	var coded *connector.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &connector.Error{Code: connector.CodeUnavailable, Message: "webhooks are not available right now", Err: err}
}
