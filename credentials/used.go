package credentials

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

// A use is written down once an hour: it answers whether a connection is still needed,
// and a write for each request would cost more than the request's own reads.
const (
	useEvery = time.Hour
	// maxUses bounds what is remembered, useBatch what one transaction writes.
	maxUses  = 1 << 16
	useBatch = 500
)

// use is when a connection was used, and whether that is still to be written.
type use struct {
	at      time.Time
	pending bool
}

func (u use) recent(now time.Time) bool {
	since := now.Sub(u.at)
	return since >= 0 && since < useEvery // a clock that was put back makes no use recent
}

// noteUse remembers that a connection was used. It writes nothing.
func (s *Service) noteUse(key recordKey, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.uses[key]; ok && (u.pending || u.recent(now)) || !ok && len(s.uses) >= maxUses {
		return
	}
	s.uses[key] = use{at: now, pending: true}
}

// NoteUses writes down which connections were used since the last call: at most one
// write for each in an hour, by any number of processes. Close does it, too. An error
// loses nothing; the next call tries again.
func (s *Service) NoteUses(ctx context.Context) error {
	now, err := s.clock.now(ctx)
	if err != nil {
		return storage(err)
	}
	for batch := range slices.Chunk(s.pendingUses(now), useBatch) {
		err := s.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
			for _, u := range batch {
				// A time to come is of a clock that has been put right since.
				if _, err := tx.Exec(ctx, `UPDATE cred_connections SET last_used_at = ?
					WHERE tenant_id = ? AND id = ? AND (last_used_at <= ? OR last_used_at > ?)`, millis(u.at),
					string(u.key.tenant), string(u.key.connection), millis(u.at.Add(-useEvery)), millis(now)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return storage(err)
		}
		s.mu.Lock()
		for _, u := range batch {
			s.uses[u.key] = use{at: u.at}
		}
		s.mu.Unlock()
	}
	return nil
}

type pendingUse struct {
	key recordKey
	at  time.Time
}

// pendingUses are in one order, so that two processes wait for each other's rows and
// never both.
func (s *Service) pendingUses(now time.Time) []pendingUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []pendingUse
	for key, u := range s.uses {
		switch {
		case u.pending:
			all = append(all, pendingUse{key, u.at})
		case !u.recent(now):
			delete(s.uses, key)
		}
	}
	slices.SortFunc(all, func(a, b pendingUse) int {
		return cmp.Or(cmp.Compare(a.key.tenant, b.key.tenant), cmp.Compare(a.key.connection, b.key.connection))
	})
	return all
}
