package mirror

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// Reconcile does what is due for a connection now: a sweep that was interrupted,
// a full one, a poll, or nothing. Call it often, such as each minute; it may run
// in several processes at once.
func (m *Mirror) Reconcile(ctx context.Context, c connector.Connection) error {
	s, err := m.stream(ctx, c)
	if err != nil {
		return err
	}
	now, err := m.c.DB.Now(ctx)
	if err != nil {
		return err
	}
	after := func(last int64, every time.Duration) bool { return now.UnixMilli() >= last+every.Milliseconds() }
	switch {
	case s.phase != idle, s.sweepDue, s.sweptAt == 0 && !s.alarm, after(max(s.sweptAt, s.sweepBegan), m.c.SweepEvery):
		return m.Sweep(ctx, c)
	case s.checkpoint > 0 && after(s.polledAt, m.c.PollEvery):
		return m.Poll(ctx, c)
	}
	return nil
}

// Poll has fetched what changed at the provider since the checkpoint. Without a
// checkpoint, which only a full sweep makes, it does nothing. A poll that is
// interrupted begins at the same checkpoint again.
func (m *Mirror) Poll(ctx context.Context, c connector.Connection) error {
	s, err := m.stream(ctx, c)
	if err != nil || s.checkpoint == 0 {
		return err
	}
	now, err := m.c.DB.Now(ctx)
	if err != nil {
		return err
	}
	clock := int64(0)
	q := Query{Since: time.UnixMilli(s.checkpoint).UTC()}
	var been walk
	for first := true; ; first = false {
		if been.before(q.Cursor) {
			return errCircle
		}
		page, err := m.list(ctx, c, q)
		if err != nil {
			return err
		}
		if first {
			clock = millis(page.Clock)
		}
		marks, drift, err := m.differing(ctx, c, page.Entries)
		if err != nil {
			return err
		}
		err = m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
			n, err := tx.Exec(ctx, `UPDATE mirror_stream SET drift = drift + ? WHERE tenant = ? AND connection = ? AND authz = ?`,
				drift, string(c.Tenant), string(c.ID), c.AuthzVersion)
			if err == nil && n == 0 {
				err = ErrAuthorization
			}
			if err != nil {
				return err
			}
			return m.c.Inbox.Mark(ctx, tx, marks)
		})
		if err != nil {
			return err
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	return m.c.DB.UpdateFor(ctx, scope(c), func(tx *store.Tx) error {
		checkpoint := m.behind(clock)
		_, err := tx.Exec(ctx, `UPDATE mirror_stream SET polled_at = ?1, checkpoint = CASE WHEN checkpoint < ?2 THEN ?2 ELSE checkpoint END
			WHERE tenant = ?3 AND connection = ?4 AND authz = ?5`, now.UnixMilli(), checkpoint, string(c.Tenant), string(c.ID), c.AuthzVersion)
		return err
	})
}

// behind is the checkpoint that a list allows which began at a time of the
// provider's clock: what changed just before may not have been visible in it.
// Whole seconds, rounded down, because some providers compare no finer.
func (m *Mirror) behind(clock int64) int64 {
	if clock == 0 {
		return 0
	}
	return time.UnixMilli(clock).Add(-m.c.Overlap).Truncate(time.Second).UnixMilli()
}

// list asks for one page and checks that it can be used.
func (m *Mirror) list(ctx context.Context, c connector.Connection, q Query) (Page, error) {
	page, err := m.c.Source.List(ctx, c, q)
	if err != nil {
		return Page{}, err
	}
	now, err := m.c.Source.Connection(ctx, c.Tenant, c.ID)
	switch {
	case err != nil:
		return Page{}, err
	case now.AuthzVersion != c.AuthzVersion:
		return Page{}, ErrAuthorization // the list may be of either
	case len(page.Next) > 4096, page.Next != "" && !utf8.ValidString(page.Next), strings.IndexByte(page.Next, 0) >= 0:
		return Page{}, connector.Fail(connector.CodeProviderContract, "the list's cursor can't be kept")
	}
	page.Entries = slices.DeleteFunc(page.Entries, func(e Entry) bool { return !plain(e.ID) })
	slices.SortFunc(page.Entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	page.Entries = slices.CompactFunc(page.Entries, func(a, b Entry) bool { return a.ID == b.ID })
	return page, nil
}

// errCircle means that a list comes back to where it was, and would be read for
// ever.
var errCircle = connector.Fail(connector.CodeProviderContract, "the list goes round in a circle")

// walk knows the cursors that a list has come by.
type walk map[[sha256.Size]byte]bool

// before says whether a cursor was there before, and remembers it.
func (w *walk) before(cursor string) bool {
	if *w == nil {
		*w = walk{}
	}
	at := sha256.Sum256([]byte(cursor))
	was := (*w)[at]
	(*w)[at] = true
	return was
}

// unsettled is how soon after a change a fetch can have missed another one that
// has the same version.
const unsettled = time.Minute

// differing finds the entries whose object is not what is known, and counts
// those of them that nothing else has announced: the measure of lost webhooks.
func (m *Mirror) differing(ctx context.Context, c connector.Connection, entries []Entry) (all []inbox.Mark, drift int64, err error) {
	for _, e := range entries {
		var r row
		var denied, coarse, updated, fetched int64
		var projection string
		err := m.c.DB.QueryRowFor(ctx, scope(c), `SELECT state, denied, version, authz, projection, coarse, updated_at, fetched_at FROM mirror_object
			WHERE tenant = ? AND connection = ? AND id = ?`, string(c.Tenant), string(c.ID), e.ID).
			Scan(&r.state, &denied, &r.version, &r.authz, &projection, &coarse, &updated, &fetched)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, 0, err
		}
		lane := ObjectLane(c, e.ID)
		switch known := err == nil; {
		case known && r.state == Gone && r.version == e.Version:
			continue // a list that lags behind the deletion
		case known && r.state == OK && r.version == e.Version:
			if denied == 0 && r.authz == c.AuthzVersion && projection == m.c.Projection && (coarse == 0 || fetched-updated >= unsettled.Milliseconds()) {
				continue
			}
		default:
			l, err := m.c.Inbox.ShowLane(ctx, lane.Tenant, lane.ID())
			if err != nil && !errors.Is(err, inbox.ErrNotFound) {
				return nil, 0, err
			}
			if l.Dirty == l.Applied {
				drift++
			}
		}
		all = append(all, inbox.Mark{Lane: lane})
	}
	return all, drift, nil
}
