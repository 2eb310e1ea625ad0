package webhooks

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

type sealedSecret struct {
	endpoint, id string
	sealed       []byte
}

func (s *Service) sealedSecrets(ctx context.Context) ([]sealedSecret, error) {
	var all []sealedSecret
	err := s.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var v sealedSecret
		err := row.Scan(&v.endpoint, &v.id, &v.sealed)
		all = append(all, v)
		return err
	}, `SELECT endpoint, id, secret FROM webhook_secret ORDER BY endpoint, id`)
	return all, err
}

// SealedBy counts the secrets of endpoints and the bodies of deliveries by the
// id of the key that they are sealed with. A key that is not in it can go, as
// far as this package is concerned. Values that are not sealed at all are
// counted under 0.
func (s *Service) SealedBy(ctx context.Context) (map[uint32]int, error) {
	used := map[uint32]int{}
	count := func(sealed []byte) {
		id, _ := keys.KeyID(sealed)
		used[id]++
	}
	secrets, err := s.sealedSecrets(ctx)
	if err != nil {
		return nil, failed(err)
	}
	for _, v := range secrets {
		count(v.sealed)
	}
	if err := s.inbox.EachSealed(ctx, count); err != nil {
		return nil, failed(err)
	}
	return used, nil
}

// Reseal puts everything that is sealed under another key than the ring's
// primary under the primary, and returns how many values it changed. It can run
// beside everything else and be repeated.
func (s *Service) Reseal(ctx context.Context) (int, error) {
	primary := s.keys.Primary()
	stale := func(sealed []byte) bool {
		id, ok := keys.KeyID(sealed)
		return !ok || id != primary
	}
	secrets, err := s.sealedSecrets(ctx)
	if err != nil {
		return 0, failed(err)
	}
	changed := 0
	for _, v := range secrets {
		if !stale(v.sealed) {
			continue
		}
		where := secretContext(v.endpoint, v.id)
		text, err := s.keys.Open(v.sealed, where)
		if err != nil {
			return changed, failed(err)
		}
		fresh, err := s.keys.Seal(text, where)
		if err != nil {
			return changed, failed(err)
		}
		err = s.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE webhook_secret SET secret = ? WHERE endpoint = ? AND id = ?`, fresh, v.endpoint, v.id)
			return err
		})
		if err != nil {
			return changed, failed(err)
		}
		changed++
	}
	n, err := s.inbox.Reseal(ctx, stale)
	return changed + n, failed(err)
}
