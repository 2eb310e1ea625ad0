package subscriptions

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// What can be wrong with an active subscription, each of which means that events
// may be lost.
const (
	Missing   = "subscription_missing"   // the provider's list does not have it
	Keyless   = "subscription_keyless"   // its signing key was in an answer that was lost
	Expiring  = "subscription_expiring"  // more than half of its life is over, and it is not renewed
	Expired   = "subscription_expired"   // its end is past
	Silent    = "subscription_silent"    // it used to receive events, and has not for Config.SilentAfter
	Unchecked = "subscription_unchecked" // it could not be compared with the provider's list for three times CheckEvery
)

func (s *Service) troubles(v row, now time.Time) (all []string) {
	if v.State != Active {
		return nil
	}
	at := now.UnixMilli()
	for _, t := range []struct {
		holds bool
		name  string
	}{
		{v.missing > 0, Missing},
		{v.keyless, Keyless},
		{renewalDue(v, at) && at < v.expires, Expiring},
		{v.expires > 0 && at >= v.expires, Expired},
		{v.received > 0 && at >= v.received+s.c.SilentAfter.Milliseconds(), Silent},
		{at >= max(v.checked, v.made)+3*s.c.CheckEvery.Milliseconds(), Unchecked},
	} {
		if t.holds {
			all = append(all, t.name)
		}
	}
	return all
}

// renewalDue says that half of the life is over.
func renewalDue(v row, now int64) bool { return v.expires > 0 && now >= v.expires-v.life/2 }

// troubled is a row with what is wrong with it.
func (s *Service) troubled(ctx context.Context, tenant connector.TenantID, endpoint string) (row, error) {
	v, err := s.one(ctx, tenant, endpoint)
	if err != nil {
		return v, err
	}
	now, err := s.c.DB.Now(ctx)
	v.Subscription.Troubles = s.troubles(v, now.Add(s.skew))
	return v, err
}

// List returns a tenant's subscriptions, the ended ones included; those of a
// connection alone if one is named.
func (s *Service) List(ctx context.Context, tenant connector.TenantID, connection connector.ConnectionID) ([]Subscription, error) {
	rows, err := s.query(ctx, of(tenant), `tenant = ?1 AND (?2 = '' OR connection = ?2) ORDER BY made_at, endpoint`, string(tenant), string(connection))
	if err != nil {
		return nil, failed(err)
	}
	now, err := s.c.DB.Now(ctx)
	all := []Subscription{}
	for _, v := range rows {
		v.Subscription.Troubles = s.troubles(v, now.Add(s.skew))
		all = append(all, v.Subscription)
	}
	return all, failed(err)
}

// Troubles are why events of a connection may be lost, sorted: reasons for its
// coverage. None also when it has no subscription.
func (s *Service) Troubles(ctx context.Context, c connector.Connection) ([]string, error) {
	list, err := s.List(ctx, c.Tenant, c.ID)
	var all []string
	for _, v := range list {
		all = append(all, v.Troubles...)
	}
	slices.Sort(all)
	return slices.Compact(all), err
}
