package main

import (
	"context"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

// deliveryPages shows the deliveries of a person's own connections.
type deliveryPages struct{ h *host.Host }

func (p deliveryPages) Deliveries(ctx context.Context, c connector.Caller) ([]console.Delivery, error) {
	views, err := p.h.Credentials.List(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []console.Delivery
	for _, v := range views {
		records, err := p.h.Webhooks.Inbox().List(ctx, inbox.Filter{Tenant: string(c.Tenant), Connection: string(v.Connection.ID)})
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			all = append(all, shownDelivery(r))
		}
		lanes, err := p.h.Webhooks.Inbox().Lanes(ctx, inbox.LaneFilter{Tenant: string(c.Tenant), Connection: string(v.Connection.ID), Parked: true})
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			all = append(all, parkedLane(l))
		}
	}
	return all, nil
}

func (p deliveryPages) Delivery(ctx context.Context, c connector.Caller, id string) (console.Delivery, error) {
	r, err := p.h.Webhooks.Inbox().Show(ctx, string(c.Tenant), id)
	if err == nil {
		return shownDelivery(r), p.own(ctx, c, r.Connection)
	}
	if !errors.Is(err, inbox.ErrNotFound) {
		return console.Delivery{}, err
	}
	l, err := p.h.Webhooks.Inbox().ShowLane(ctx, string(c.Tenant), id)
	if err != nil {
		return console.Delivery{}, absentDelivery(err)
	}
	return parkedLane(l), p.own(ctx, c, l.Connection)
}

func (p deliveryPages) Replay(ctx context.Context, c connector.Caller, id string) error {
	if _, err := p.Delivery(ctx, c, id); err != nil {
		return err
	}
	return absentDelivery(p.h.Webhooks.Inbox().Replay(ctx, string(c.Tenant), id))
}

func (p deliveryPages) Unpark(ctx context.Context, c connector.Caller, id string) error {
	if _, err := p.Delivery(ctx, c, id); err != nil {
		return err
	}
	return absentDelivery(p.h.Webhooks.Inbox().Unpark(ctx, string(c.Tenant), id))
}

func (p deliveryPages) Coverage(ctx context.Context, c connector.Caller) ([]console.Coverage, error) {
	all, err := followedBy(ctx, p.h, c)
	if err != nil {
		return nil, err
	}
	shown := make([]console.Coverage, len(all))
	for i, f := range all {
		shown[i] = console.Coverage{Connection: f.Connection.ID, Provider: f.Connection.Provider, Account: f.Connection.Account,
			State: f.State, Reasons: f.Reasons, Drift: f.Drift, Vanished: f.vanished()}
		if f.SweptAt != nil {
			shown[i].SweptAt = *f.SweptAt
		}
	}
	return shown, nil
}

func (p deliveryPages) Accept(ctx context.Context, c connector.Caller, id connector.ConnectionID) error {
	return acceptVanished(ctx, p.h, c, id)
}

// own keeps a delivery to whom its connection belongs.
func (p deliveryPages) own(ctx context.Context, c connector.Caller, connection string) error {
	if _, err := p.h.Credentials.Show(ctx, c, connector.ConnectionID(connection)); err != nil {
		return connector.Fail(connector.CodeNotFound, "no such delivery")
	}
	return nil
}

func absentDelivery(err error) error {
	switch {
	case errors.Is(err, inbox.ErrNotFound):
		return connector.Fail(connector.CodeNotFound, "no such delivery")
	case errors.Is(err, inbox.ErrNoBody):
		return connector.Fail(connector.CodeGone, "its body is not kept any more")
	}
	return err
}

func shownDelivery(r inbox.Record) console.Delivery {
	d := console.Delivery{ID: r.ID, Provider: r.Provider, Kind: r.EventType, Resource: r.DeliveryID, State: r.State, Problem: r.Reason, ReceivedAt: r.ReceivedAt, Fetched: r.Pull}
	if r.ConflictOf != "" {
		d.Problem = "its id came before with another body"
	}
	return d
}

func parkedLane(l inbox.LaneState) console.Delivery {
	d := console.Delivery{ID: l.ID, Provider: l.Provider, Kind: l.Kind, Resource: l.Object, State: "parked", Problem: l.Reason, Attempts: l.Attempts,
		NextAt: l.DueAt, Parked: l.ParkedAt != nil}
	if l.ParkedAt != nil {
		d.ReceivedAt = *l.ParkedAt
	} else {
		d.State = "waits"
	}
	return d
}
