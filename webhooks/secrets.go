package webhooks

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// A Secret is when a signing secret is accepted. What it is can't be read back.
type Secret struct {
	ID        string     `json:"id"`
	NotBefore time.Time  `json:"not_before"`
	NotAfter  *time.Time `json:"not_after,omitempty"` // nil: until it is rotated
}

// Rotated is shown once.
type Rotated struct {
	Endpoint Endpoint `json:"endpoint"`
	Secret   string   `json:"secret,omitempty"` // only when it was made here
}

const (
	// DefaultOverlap is how long the secret before is accepted after a rotation.
	DefaultOverlap = 24 * time.Hour

	maxOverlap = 30 * 24 * time.Hour
	maxSecrets = 3 // accepted at one time
)

// Rotate adds a secret, accepted at once, and ends the others after overlap:
// zero means DefaultOverlap, negative means at once, for a secret that leaked.
// An empty secret makes one. It fails with CONFLICT when three secrets are
// accepted already.
func (s *Service) Rotate(ctx context.Context, tenant connector.TenantID, id, secret string, overlap time.Duration) (Rotated, error) {
	switch {
	case overlap == 0:
		overlap = DefaultOverlap
	case overlap < 0:
		overlap = 0
	case overlap > maxOverlap:
		return Rotated{}, connector.Fail(connector.CodeInvalidInput, "the overlap is longer than 30 days")
	}
	before, err := s.Show(ctx, tenant, id)
	if err != nil {
		return Rotated{}, err
	}
	text, made, err := usableSecret(before.Scheme, secret)
	if err != nil {
		return Rotated{}, err
	}
	err = s.db.UpdateFor(ctx, store.Tenant(string(tenant)), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		// The endpoint's row is the lock of its secrets.
		n, err := tx.Exec(ctx, `UPDATE webhook_endpoint SET scheme = scheme WHERE tenant = ? AND id = ? AND disabled_at = 0`, string(tenant), id)
		if err != nil {
			return err
		}
		if n == 0 {
			return notFound()
		}
		until := now.Add(overlap).UnixMilli()
		if _, err := tx.Exec(ctx, `DELETE FROM webhook_secret WHERE endpoint = ? AND not_after > 0 AND not_after <= ?`, id, now.UnixMilli()); err != nil {
			return err
		}
		if overlap == 0 {
			_, err = tx.Exec(ctx, `DELETE FROM webhook_secret WHERE endpoint = ?`, id)
		} else {
			_, err = tx.Exec(ctx, `UPDATE webhook_secret SET not_after = ?1 WHERE endpoint = ?2 AND (not_after = 0 OR not_after > ?1)`, until, id)
		}
		if err != nil {
			return err
		}
		var accepted int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM webhook_secret WHERE endpoint = ?`, id).Scan(&accepted); err != nil {
			return err
		}
		if accepted >= maxSecrets {
			return connector.Fail(connector.CodeConflict, "three secrets are accepted already; rotate without overlap, or later")
		}
		_, err = s.addSecret(ctx, tx, id, text, now)
		return err
	})
	s.receiver.known.forget()
	if err != nil {
		return Rotated{}, failed(err)
	}
	after, err := s.Show(ctx, tenant, id)
	if err != nil {
		return Rotated{}, err
	}
	r := Rotated{Endpoint: after}
	if made {
		r.Secret = text
	}
	return r, nil
}

func (s *Service) addSecret(ctx context.Context, tx *store.Tx, endpoint, secret string, now time.Time) (Secret, error) {
	v := Secret{ID: newID("whs_"), NotBefore: now}
	sealed, err := s.keys.Seal([]byte(secret), secretContext(endpoint, v.ID))
	if err != nil {
		return v, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO webhook_secret (endpoint, id, secret, not_before, not_after) VALUES (?, ?, ?, ?, 0)`,
		endpoint, v.ID, sealed, now.UnixMilli())
	return v, err
}

// usableSecret checks a secret against its scheme, or makes one.
func usableSecret(scheme, text string) (secret string, made bool, err error) {
	s, ok := signature.Lookup(scheme)
	if !ok {
		return "", false, connector.Fail(connector.CodeInvalidInput, "unknown signature scheme; there are %s", strings.Join(signature.Names(), ", "))
	}
	if text != "" {
		if err := s.CheckSecret(text); err != nil {
			return "", false, connector.Fail(connector.CodeInvalidInput, "this secret can not be used: %v", err)
		}
		return text, false, nil
	}
	var key [32]byte
	rand.Read(key[:])
	text = base64.RawURLEncoding.EncodeToString(key[:])
	if s.CheckSecret(text) != nil {
		text = "whsec_" + base64.StdEncoding.EncodeToString(key[:])
	}
	return text, true, s.CheckSecret(text)
}

func secretsOf(ctx context.Context, tx *store.Tx, endpoint string) ([]Secret, error) {
	rows, err := tx.Query(ctx, `SELECT id, secret, not_before, not_after FROM webhook_secret WHERE endpoint = ? ORDER BY not_before, id`, endpoint)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	secrets := []Secret{}
	for rows.Next() {
		v, _, err := scanSecret(rows)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, v)
	}
	return secrets, rows.Err()
}

func scanSecret(r *sql.Rows) (v Secret, sealed []byte, err error) {
	var from, until int64
	err = r.Scan(&v.ID, &sealed, &from, &until)
	v.NotBefore, v.NotAfter = time.UnixMilli(from).UTC(), moment(until)
	return v, sealed, err
}

func secretContext(endpoint, id string) []byte { return keys.Context("webhook secret", endpoint, id) }
