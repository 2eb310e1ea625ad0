package subscriptions

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

const (
	// lease is how long a look may take. Then another process takes it up.
	lease = 2 * time.Minute

	// looks is how many one Tick does at most.
	looks = 1000

	// maxPages is how many pages of failed deliveries one look takes in.
	maxPages = 20
)

// Tick looks at the subscriptions that are due. Call it each minute or so, in as
// many processes as you like; the errors are joined, and one subscription's does
// not keep the others.
func (s *Service) Tick(ctx context.Context) error {
	var faults []error
	for range looks {
		v, found, err := s.claim(ctx)
		if err != nil || !found {
			return failed(errors.Join(append(faults, err)...))
		}
		look, cancel := context.WithTimeout(ctx, lease)
		err = s.look(look, v)
		cancel()
		if err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// claim takes the subscription that is due longest, for the time of a lease.
func (s *Service) claim(ctx context.Context) (v row, found bool, err error) {
	err = s.c.DB.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		v, err = scan(tx.QueryRow(ctx, `UPDATE webhook_subscription SET fence = fence + 1, due_at = ?1 WHERE endpoint = (
				SELECT endpoint FROM webhook_subscription WHERE state = 'active' AND due_at <= ?2 ORDER BY due_at, endpoint LIMIT 1)
			AND due_at <= ?2 RETURNING `+columns, now.Add(lease).UnixMilli(), now.UnixMilli()))
		v.at, found = now.UnixMilli(), err == nil
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	return v, found, err
}

// look asks the provider about one subscription and writes down what it said.
func (s *Service) look(ctx context.Context, v row) error {
	e, err := s.c.Webhooks.Show(ctx, v.Tenant, v.Endpoint)
	if err != nil {
		return err
	}
	if e.DisabledAt != nil { // by another way than End
		_, _, err := s.End(ctx, v.Tenant, v.Endpoint)
		return err
	}
	was := v
	err = s.ask(ctx, &v)
	v.Fault = ""
	if err != nil {
		v.Fault = connector.CodeOf(err).String()
	}
	// What came is known without the provider. Sooner than the last look by a
	// lease: what was being stored then is seen now.
	since := time.UnixMilli(max(was.checked, was.made) - lease.Milliseconds())
	newest, seen := s.c.Webhooks.Inbox().Newest(ctx, string(v.Tenant), v.Endpoint, since)
	if seen == nil {
		v.received = max(v.received, millis(newest))
	}
	if v.missing > 0 && was.missing == 0 {
		s.c.Log.WarnContext(ctx, "the provider does not have a webhook subscription any more", "endpoint", v.Endpoint, "provider", v.Provider)
	}
	saved := s.save(ctx, v)
	if code := connector.CodeOf(err); code == connector.CodeConnectionRequired || code == connector.CodeNotFound {
		err = nil // it is Unchecked from some time on
	}
	return failed(errors.Join(err, seen, saved))
}

// ask compares a subscription with the provider's list, and does what is due.
func (s *Service) ask(ctx context.Context, v *row) error {
	ways, ok := s.c.Providers.Ways(v.Provider)
	if !ok {
		return connector.Fail(connector.CodeConnectionRequired, "the provider is not set up here")
	}
	c, err := s.c.Providers.Connection(ctx, v.Tenant, v.Subscriber)
	if err != nil {
		return err
	}
	list, err := s.c.Providers.Hooks(ctx, c, v.Project)
	if err != nil {
		return err
	}
	v.checked = v.at
	var is *Hook
	for i, h := range list {
		// By the address: an id with another one posts to somebody else.
		if bytes.Equal(hashOf(h.Address), v.addressHash) {
			is = &list[i]
		}
	}
	if is == nil {
		if v.missing == 0 {
			v.missing = v.at
		}
		return nil
	}
	v.missing, v.Hook, v.expires = 0, is.ID, millis(is.ExpiresAt)
	v.life = max(v.life, life(*is, v.at))
	var faults []error
	if ways.Renews && renewalDue(*v, v.at) {
		faults = append(faults, s.renew(ctx, c, v, *is))
	} else {
		v.Renewal = ""
	}
	if ways.ListsFailures {
		faults = append(faults, s.pull(ctx, c, v))
	}
	return errors.Join(faults...)
}

// renew proposes a renewal, or sends the one that was approved. Each end has one of
// its own.
func (s *Service) renew(ctx context.Context, c connector.Connection, v *row, is Hook) error {
	h, result := s.c.Providers.Renew(ctx, c, "renew "+v.Endpoint+" until after "+is.ExpiresAt.UTC().Format(time.RFC3339Nano), v.Project, is)
	switch {
	case result.Pending != nil:
		v.Renewal = string(result.Pending.Approval)
		return nil
	case result.Error != nil:
		v.Renewal = result.Error.Code.String()
		return connector.Fail(result.Error.Code, "a webhook subscription was not renewed")
	case h.ID == is.ID && (h.ExpiresAt.IsZero() || h.ExpiresAt.After(is.ExpiresAt)):
		v.Renewal, v.expires, v.life = "", millis(h.ExpiresAt), life(h, v.at)
	}
	return nil // else the next look at the list tells
}

// pull takes what the provider gave up into the inbox. A delivery that came signed
// as well, before or after, has the same id and body, and is one.
func (s *Service) pull(ctx context.Context, c connector.Connection, v *row) error {
	for range maxPages {
		page, err := s.c.Providers.Failures(ctx, c, v.Project, v.Hook, v.pulled)
		if err != nil {
			return err
		}
		for _, d := range page.Deliveries {
			_, err := s.c.Webhooks.Inbox().Ingest(ctx, inbox.Delivery{Tenant: string(v.Tenant), Endpoint: v.Endpoint, ID: d.ID, Provider: v.Provider,
				Connection: string(v.Connection), EventType: d.EventType, Body: d.Payload, Pull: true})
			if err != nil {
				return err
			}
		}
		if len(page.After) > maxPosition {
			return connector.Fail(connector.CodeProviderContract, "the position in the list of failed deliveries is too long")
		}
		if page.After == v.pulled {
			return nil
		}
		v.pulled = page.After
		if !page.More {
			return nil
		}
	}
	return nil // the rest at the next look
}

// maxPosition is the longest position in a list that is kept, in bytes.
const maxPosition = 4096

// save writes a look down, unless it was overtaken.
func (s *Service) save(ctx context.Context, v row) error {
	return s.c.DB.UpdateFor(ctx, of(v.Tenant), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE webhook_subscription SET hook = ?, expires_at = ?, life = ?, renewal = ?, missing_at = ?, checked_at = ?, fault = ?,
			received_at = ?, pulled = ?, due_at = ? WHERE endpoint = ? AND fence = ? AND state = 'active'`,
			v.Hook, v.expires, v.life, v.Renewal, v.missing, v.checked, v.Fault, v.received, v.pulled, v.at+s.c.CheckEvery.Milliseconds(), v.Endpoint, v.fence)
		return err
	})
}
