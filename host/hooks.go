package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/followups"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/notices"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

// openHooks puts the receiver of webhooks, the inbox behind it and the mirror of
// what connections see together. Each of them stands on the same database.
func (h *Host) openHooks(c Config) error {
	box, err := inbox.New(inbox.Config{DB: h.DB, Sealer: h.Keys, Reason: mirror.Reason})
	if err != nil {
		return err
	}
	h.Mirror, err = mirror.New(mirror.Config{DB: h.DB, Inbox: box, Sealer: h.Keys, Source: source{h}, Projection: tickets.Version, OnChange: h.changed, Log: h.log})
	if err != nil {
		return err
	}
	if h.notices, err = notices.New(notices.Config{DB: h.DB, Mirror: h.Mirror, PollEvery: c.WatchEvery}); err != nil {
		return err
	}
	h.followups, err = followups.New(followups.Config{DB: h.DB, Inbox: box, Providers: h.reading, FollowUps: c.FollowUps,
		Connection: h.Credentials.Live, Ended: h.Credentials.Ended})
	if err != nil {
		return err
	}
	from, proxies, err := senders(c.Instances)
	if err != nil {
		return err
	}
	decoders := map[string]webhooks.Decoder{}
	for _, i := range c.Instances {
		decoders[i.Name], h.schemes[i.Name] = decoder(drivers[i.Driver].driver), drivers[i.Driver].signs
		if w, ok := ways(drivers[i.Driver].driver); ok {
			h.ways[i.Name] = w
		}
	}
	h.Webhooks, err = webhooks.New(webhooks.Config{DB: h.DB, Keys: h.Keys, Inbox: box, Connection: h.Credentials.Live, Decoders: decoders,
		Apply: h.apply, Senders: from, Proxies: proxies, Log: h.log})
	if err != nil {
		return err
	}
	h.Subscriptions, err = subscriptions.New(subscriptions.Config{DB: h.DB, Keys: h.Keys, Webhooks: h.Webhooks, Providers: subscribers{h}, Log: h.log})
	return err
}

// changed is what a change leads to, in its transaction.
func (h *Host) changed(ctx context.Context, tx *store.Tx, c mirror.Change) error {
	if err := h.notices.Record(ctx, tx, c); err != nil {
		return err
	}
	return h.followups.Schedule(ctx, tx, c)
}

// apply looks at one lane, whoever made it.
func (h *Host) apply(ctx context.Context, l inbox.Lease) error {
	if followups.Takes(l.Lane) {
		return h.followups.Apply(ctx, l)
	}
	return h.Mirror.Apply(ctx, l)
}

// WebhookScheme is how a provider that is set up here signs its webhooks; empty for
// any other.
func (h *Host) WebhookScheme(provider string) string { return h.schemes[provider] }

// Follow has the mirror list everything that a connection sees, and keep it up to
// date from then on.
func (h *Host) Follow(ctx context.Context, c connector.Connection) error {
	return h.DB.UpdateFor(ctx, store.Tenant(string(c.Tenant)), func(tx *store.Tx) error {
		return h.Webhooks.Inbox().Mark(ctx, tx, []inbox.Mark{{Lane: mirror.ContainerLane(c, "")}})
	})
}

// decoder turns a driver's reading of an event into lanes. What is outside the
// connection's projects is refused, and counted by the inbox.
func decoder(d tickets.Driver) webhooks.Decoder {
	return func(c connector.Connection, got inbox.Delivery) ([]inbox.Mark, error) {
		changed, outside, err := tickets.Decode(d, c, got.EventType, got.Body)
		switch {
		case err != nil:
			return nil, &inbox.Quarantine{Reason: "undecodable"}
		case len(changed) == 0 && outside > 0:
			return nil, &inbox.Ignored{Reason: "out_of_scope"}
		case len(changed) == 0:
			return nil, &inbox.Ignored{Reason: "unknown_type"}
		}
		var marks []inbox.Mark
		for _, e := range changed {
			lane := mirror.ObjectLane(c, e.ID)
			if e.ID == "" {
				lane = mirror.ContainerLane(c, e.Project)
			}
			marks = append(marks, inbox.Mark{Lane: lane, Removes: e.Removes})
		}
		return marks, nil
	}
}

// source reads at the providers for the mirror: as the connection's own principal,
// through the same pipeline as any call.
type source struct{ h *Host }

func (s source) Connection(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	return s.h.Credentials.Live(ctx, tenant, id)
}

func (s source) Ended(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, bool, error) {
	return s.h.Credentials.Ended(ctx, tenant, id)
}

func (s source) Fetch(ctx context.Context, c connector.Connection, id string) (mirror.Object, mirror.State, error) {
	r, ok := s.h.runtimes[c.Provider]
	if !ok {
		return mirror.Object{}, 0, connector.Fail(connector.CodeConnectionRequired, "the provider is not set up here")
	}
	t, err := tickets.Fetch(ctx, r, owner(c), id)
	switch connector.CodeOf(err) {
	case 0:
	case connector.CodeNotFound:
		return mirror.Object{}, mirror.NoAccess, nil
	case connector.CodeGone:
		return mirror.Object{}, mirror.Gone, nil
	default:
		return mirror.Object{}, 0, err
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return mirror.Object{}, 0, err
	}
	order, coarse := t.Order()
	return mirror.Object{ID: t.ID, Container: t.Project, Version: t.Version, Order: order, Coarse: coarse, UpdatedAt: t.UpdatedAt, Data: raw}, mirror.OK, nil
}

func (s source) List(ctx context.Context, c connector.Connection, q mirror.Query) (mirror.Page, error) {
	r, ok := s.h.inventories[c.Provider]
	if !ok {
		return mirror.Page{}, errors.New("this provider's driver can't list what it has")
	}
	list, err := tickets.List(ctx, r, owner(c), q.Since, q.Cursor)
	if err != nil {
		return mirror.Page{}, err
	}
	page := mirror.Page{Next: list.Next, Clock: list.Clock}
	for _, e := range list.Entries {
		page.Entries = append(page.Entries, mirror.Entry{ID: e.ID, Version: e.Version})
	}
	return page, nil
}

func owner(c connector.Connection) connector.Caller {
	return connector.Caller{Tenant: c.Tenant, Principal: c.Principal, Connection: c.ID}
}
