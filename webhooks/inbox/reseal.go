package inbox

import (
	"context"
	"errors"

	"github.com/drawbridge-dev/drawbridge/store"
)

// sealedHead is as much of a sealed body as it takes to see which key it is
// sealed with.
type sealedHead struct {
	row, tenant string
	head        []byte
}

const resealPage = 200

func (b *Inbox) sealedPage(ctx context.Context, after string) ([]sealedHead, error) {
	var page []sealedHead
	err := b.db.EachFor(ctx, store.AllTenants(), func(row store.Scanner) error {
		var h sealedHead
		err := row.Scan(&h.row, &h.tenant, &h.head)
		page = append(page, h)
		return err
	}, `SELECT id, tenant, substr(body, 1, 64) FROM webhook_delivery
		WHERE kept = 1 AND id > ? ORDER BY id LIMIT ?`, after, resealPage)
	return page, err
}

// EachSealed shows the first 64 bytes of every sealed body, for those who count
// what a key is still needed for.
func (b *Inbox) EachSealed(ctx context.Context, see func(head []byte)) error {
	for after := ""; ; {
		page, err := b.sealedPage(ctx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, h := range page {
			see(h.head)
		}
		after = page[len(page)-1].row
	}
}

// Reseal seals the bodies anew of which stale says, by their first 64 bytes,
// that they are sealed with another key than now, and returns how many. It can
// run beside everything else and be repeated.
func (b *Inbox) Reseal(ctx context.Context, stale func(head []byte) bool) (int, error) {
	changed := 0
	for after := ""; ; {
		page, err := b.sealedPage(ctx, after)
		if err != nil || len(page) == 0 {
			return changed, err
		}
		for _, h := range page {
			if !stale(h.head) {
				continue
			}
			header, body, err := b.Body(ctx, h.tenant, h.row)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNoBody) {
				continue // retention was faster
			}
			if err != nil {
				return changed, err
			}
			sealed, err := b.seal(Delivery{Tenant: h.tenant, Header: header, Body: body}, h.row)
			if err != nil {
				return changed, err
			}
			err = b.db.UpdateFor(ctx, store.Tenant(h.tenant), func(tx *store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE webhook_delivery SET body = ? WHERE id = ? AND kept = 1`, sealed, h.row)
				return err
			})
			if err != nil {
				return changed, err
			}
			changed++
		}
		after = page[len(page)-1].row
	}
}
