package host

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

// subscribing puts the subscriptions of this instance's provider behind a connector
// that no caller sees; false when the driver has none.
func (i Instance) subscribing() (connector.Connector, bool) {
	c, ok := tickets.NewHooks(drivers[i.Driver].driver)
	c.Provider = i.Name
	return c, ok
}

// senders are the addresses that the instances' providers post from, and the proxies
// that stand before us.
func senders(all []Instance) (from map[string][]netip.Prefix, proxies []netip.Prefix, err error) {
	from = map[string][]netip.Prefix{}
	for _, i := range all {
		for _, list := range []struct {
			texts []string
			add   func(netip.Prefix)
		}{
			{i.EventsFrom, func(p netip.Prefix) { from[i.Name] = append(from[i.Name], p) }},
			{i.EventsVia, func(p netip.Prefix) { proxies = append(proxies, p) }},
		} {
			for _, text := range list.texts {
				p, err := netip.ParsePrefix(text)
				if err != nil || p != p.Masked() || p.Addr().Is4In6() {
					return nil, nil, fmt.Errorf("provider %s: %q is no range of addresses such as 192.0.2.0/24", i.Name, text)
				}
				list.add(p)
			}
		}
	}
	return from, proxies, nil
}

// ways are what a driver's subscriptions are like; false: it has none.
func ways(d tickets.Driver) (subscriptions.Ways, bool) {
	s, ok := d.(tickets.Subscriber)
	if !ok {
		return subscriptions.Ways{}, false
	}
	_, renews := d.(tickets.Renewer)
	_, lists := d.(tickets.FailureLister)
	how := s.Subscribing()
	return subscriptions.Ways{Scheme: how.Scheme, MakesKey: how.MakesKey, PerProject: how.PerProject, Renews: renews, ListsFailures: lists}, true
}

// subscribers asks providers for subscriptions: as the connection's own principal,
// through the same pipeline as any call.
type subscribers struct{ h *Host }

func (s subscribers) Ways(provider string) (subscriptions.Ways, bool) {
	w, ok := s.h.ways[provider]
	return w, ok
}

func (s subscribers) Connection(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	return s.h.Credentials.Live(ctx, tenant, id)
}

func (s subscribers) Hooks(ctx context.Context, c connector.Connection, project string) ([]subscriptions.Hook, error) {
	list, err := tickets.ListHooks(ctx, s.h.subscribing[c.Provider], owner(c), project)
	var all []subscriptions.Hook
	for _, w := range list {
		all = append(all, hookOf(w))
	}
	return all, err
}

func (s subscribers) Make(ctx context.Context, c connector.Connection, intent string, d subscriptions.Draft) (subscriptions.Hook, connector.Result) {
	w, r := tickets.MakeHook(ctx, s.h.subscribing[c.Provider], owner(c), intent, tickets.HookDraft{Project: d.Project, Address: d.Address, SigningKey: d.SigningKey})
	return hookOf(w), r
}

func (s subscribers) Renew(ctx context.Context, c connector.Connection, intent, project string, h subscriptions.Hook) (subscriptions.Hook, connector.Result) {
	w, r := tickets.RenewHook(ctx, s.h.subscribing[c.Provider], owner(c), intent, tickets.Renewal{Project: project, ID: h.ID, ExpiresAt: h.ExpiresAt})
	return hookOf(w), r
}

func (s subscribers) Failures(ctx context.Context, c connector.Connection, project, hook, after string) (subscriptions.Failures, error) {
	page, err := tickets.ListFailures(ctx, s.h.subscribing[c.Provider], owner(c), project, hook, after)
	out := subscriptions.Failures{After: page.After, More: page.More}
	for _, d := range page.Deliveries {
		out.Deliveries = append(out.Deliveries, subscriptions.Failed{ID: d.ID, EventType: d.EventType, Payload: []byte(d.Payload)})
	}
	return out, err
}

func hookOf(w tickets.Hook) subscriptions.Hook {
	h := subscriptions.Hook{ID: w.ID, Address: w.Address, SigningKey: w.SigningKey}
	if w.ExpiresAt != nil {
		h.ExpiresAt = *w.ExpiresAt
	}
	return h
}

// Coverage says how far the mirror of a connection can be relied on: what the mirror
// knows of itself, and what is wrong with the subscriptions that feed it.
func (h *Host) Coverage(ctx context.Context, c connector.Connection) (mirror.Coverage, error) {
	v, err := h.Mirror.Coverage(ctx, c)
	if err != nil {
		return v, err
	}
	return h.fed(ctx, c, v)
}

// fed adds the second to the first.
func (h *Host) fed(ctx context.Context, c connector.Connection, v mirror.Coverage) (mirror.Coverage, error) {
	troubles, err := h.Subscriptions.Troubles(ctx, c)
	if err != nil {
		return v, err
	}
	if len(troubles) > 0 && v.State == mirror.Complete {
		v.State = mirror.Partial
	}
	v.Reasons = slices.Concat(v.Reasons, troubles)
	return v, nil
}
