package host

import (
	"context"
	"errors"

	"github.com/drawbridge-dev/drawbridge/keys"
)

// SealedBy counts everything that is sealed in the database by the id of its
// key, over all services. Cursors are not counted: they are with their callers,
// and those of a destroyed key are dead.
func (h *Host) SealedBy(ctx context.Context) (map[uint32]int, error) {
	total := map[uint32]int{}
	for _, count := range []func(context.Context) (map[uint32]int, error){h.Credentials.SealedBy, h.Ledger.SealedBy, h.Webhooks.SealedBy, h.Subscriptions.SealedBy, h.mirrorSealedBy} {
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
	c, err3 := h.Webhooks.Reseal(ctx)
	d, err4 := h.Mirror.Reseal(ctx, func(head []byte) bool {
		id, _ := keys.KeyID(head)
		return id != h.Keys.Primary()
	})
	e, err5 := h.Subscriptions.Reseal(ctx)
	return a + b + c + d + e, errors.Join(err1, err2, err3, err4, err5)
}

func (h *Host) mirrorSealedBy(ctx context.Context) (map[uint32]int, error) {
	used := map[uint32]int{}
	err := h.Mirror.EachSealed(ctx, func(head []byte) {
		id, _ := keys.KeyID(head)
		used[id]++
	})
	return used, err
}

// DestroyKey destroys a disabled key that nothing is sealed with any more.
func (h *Host) DestroyKey(ctx context.Context, id uint32) error {
	return h.Keys.DestroyUnused(id, func(id uint32) (int, error) {
		used, err := h.SealedBy(ctx)
		return used[id], err
	})
}
