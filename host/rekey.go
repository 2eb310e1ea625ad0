package host

import (
	"context"
	"errors"
)

// SealedBy counts everything that is sealed in the database by the id of its
// key, over all services. Cursors are not counted: they are with their callers,
// and those of a destroyed key are dead.
func (h *Host) SealedBy(ctx context.Context) (map[uint32]int, error) {
	total := map[uint32]int{}
	for _, count := range []func(context.Context) (map[uint32]int, error){h.Credentials.SealedBy, h.Ledger.SealedBy} {
		part, err := count(ctx)
		if err != nil {
			return nil, err
		}
		for id, n := range part {
			total[id] += n
		}
	}
	return total, nil
}

// Rewrap puts everything under the primary key while calls go on, and returns
// how many records it changed.
func (h *Host) Rewrap(ctx context.Context) (int, error) {
	a, err1 := h.Credentials.Reseal(ctx)
	b, err2 := h.Ledger.Reseal(ctx)
	return a + b, errors.Join(err1, err2)
}

// DestroyKey destroys a disabled key that nothing is sealed with any more.
func (h *Host) DestroyKey(ctx context.Context, id uint32) error {
	return h.Keys.DestroyUnused(id, func(id uint32) (int, error) {
		used, err := h.SealedBy(ctx)
		return used[id], err
	})
}
