package subscriptions

import (
	"context"
	"encoding/json"
	"net/netip"
	"net/url"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks"
)

// Request is what somebody wants to be told of.
type Request struct {
	Connection connector.Connection // whose events; alive
	// Subscriber asks for them: the same connection, or one of the same principal to
	// another account of the same provider, such as an administrator's.
	Subscriber connector.Connection
	Project    string // where the provider has subscriptions per project
	// Origin is how the provider reaches this server: https, or http on this
	// machine; without a path.
	Origin string
	// Replaces is an endpoint of the same connection and project that ends as soon
	// as the new one is active; empty: there is none yet.
	Replaces string
}

// Subscribe makes an endpoint and proposes to the provider to post to it, or goes
// on with what an earlier call began: after an approval, or after an answer that
// was lost. The Result is that of the write, and zero when there was nothing left
// to do. Until the subscription is Active the same call is to be repeated.
func (s *Service) Subscribe(ctx context.Context, r Request) (Subscription, connector.Result, error) {
	r.Origin = strings.TrimSuffix(r.Origin, "/")
	ways, err := s.check(r)
	if err != nil {
		return Subscription{}, connector.Result{}, err
	}
	v, err := s.begun(ctx, r)
	if err != nil {
		return Subscription{}, connector.Result{}, failed(err)
	}
	if v.State == "" {
		if v, err = s.begin(ctx, r, ways); err != nil {
			return Subscription{}, connector.Result{}, failed(err)
		}
	}
	if v.State == Active {
		v, err = s.troubled(ctx, v.Tenant, v.Endpoint)
		return v.Subscription, connector.Result{}, failed(err)
	}
	text, err := s.c.Keys.Open(v.draft, draftContext(v.Endpoint))
	if err != nil {
		return v.Subscription, connector.Result{}, failed(err)
	}
	var d Draft
	if err := json.Unmarshal(text, &d); err != nil {
		return v.Subscription, connector.Result{}, failed(err)
	}
	hook, result := s.c.Providers.Make(ctx, r.Subscriber, "subscribe "+v.Endpoint, d)
	if result.Error != nil || result.Effect.Disposition != connector.DispositionApplied {
		return v.Subscription, result, nil
	}
	v, err = s.made(ctx, v, ways, hook)
	return v.Subscription, result, failed(err)
}

func (s *Service) check(r Request) (Ways, error) {
	ways, ok := s.c.Providers.Ways(r.Connection.Provider)
	u, err := url.Parse(r.Origin)
	switch {
	case !ok:
		return ways, connector.Fail(connector.CodeInvalidInput, "this provider's driver can't subscribe; make the address with endpoints add and the webhook by hand")
	case r.Subscriber.Tenant != r.Connection.Tenant, r.Subscriber.Principal != r.Connection.Principal, r.Subscriber.Provider != r.Connection.Provider:
		return ways, connector.Fail(connector.CodeInvalidInput, "the connection that subscribes is not of the same person at the same provider")
	case ways.PerProject && r.Project == "":
		return ways, connector.Fail(connector.CodeInvalidInput, "this provider has subscriptions per project; which project?")
	case !ways.PerProject && r.Project != "":
		return ways, connector.Fail(connector.CodeInvalidInput, "this provider's subscriptions are for all projects of the account")
	case err != nil, u.Host == "", u.User != nil, u.Path != "", u.RawQuery != "", u.Fragment != "":
		return ways, connector.Fail(connector.CodeInvalidInput, "the origin is a scheme and a host, such as https://bridge.example.org")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return ways, connector.Fail(connector.CodeInvalidInput, "events are posted to https, except on this machine")
	}
	return ways, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// begun finds what an earlier call left; a row without a state: nothing.
func (s *Service) begun(ctx context.Context, r Request) (row, error) {
	all, err := s.query(ctx, of(r.Connection.Tenant), `tenant = ? AND connection = ? AND project = ? AND state <> 'ended' ORDER BY state, endpoint`,
		string(r.Connection.Tenant), string(r.Connection.ID), r.Project)
	if err != nil {
		return row{}, err
	}
	replaced := false
	for _, v := range all {
		same := v.Origin == r.Origin && v.Subscriber == r.Subscriber.ID && v.Replaces == r.Replaces
		switch {
		case same && (v.State == Asked || r.Replaces != "" || !v.keyless):
			return v, nil
		case v.State == Asked:
			return row{}, connector.Fail(connector.CodeConflict, "%s is being asked for already, otherwise than this; go on with that, or disable it", v.Endpoint)
		case v.Endpoint == r.Replaces:
			replaced = true
		case r.Replaces == "" && v.keyless:
			return row{}, connector.Fail(connector.CodeConflict, "%s is subscribed without its signing key; replace it", v.Endpoint)
		case r.Replaces == "":
			return row{}, connector.Fail(connector.CodeConflict, "%s receives these events already, at another address or by another connection; replace or disable it", v.Endpoint)
		}
	}
	if r.Replaces != "" && !replaced {
		return row{}, connector.Fail(connector.CodeNotFound, "the endpoint to be replaced is not one of this connection and project that is subscribed")
	}
	return row{}, nil
}

// begin makes the endpoint and writes down what is going to be asked, before
// anything is: an address at the provider that we do not know of can't be.
func (s *Service) begin(ctx context.Context, r Request, ways Ways) (row, error) {
	c := r.Connection
	// Who may not read the list may not subscribe either, and leaves nothing.
	if _, err := s.c.Providers.Hooks(ctx, r.Subscriber, r.Project); err != nil {
		return row{}, err
	}
	added, err := s.c.Webhooks.Add(ctx, webhooks.AddRequest{Tenant: c.Tenant, Provider: c.Provider, Connection: c.ID, Scheme: ways.Scheme, TheirSecret: ways.MakesKey})
	if err != nil {
		return row{}, err
	}
	d := Draft{Project: r.Project, Address: r.Origin + added.Path, SigningKey: added.Secret}
	text, err := json.Marshal(d)
	if err != nil {
		return row{}, err
	}
	sealed, err := s.c.Keys.Seal(text, draftContext(added.Endpoint.ID))
	if err != nil {
		return row{}, err
	}
	var ours int64
	err = s.c.DB.UpdateFor(ctx, of(c.Tenant), func(tx *store.Tx) (err error) {
		ours, err = tx.Exec(ctx, `INSERT INTO webhook_subscription (`+columns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'asked', '', 0, 0, 0, 0, '', 0, 0, '', 0, '', 0, 0) ON CONFLICT DO NOTHING`,
			added.Endpoint.ID, string(c.Tenant), c.Provider, string(c.ID), string(r.Subscriber.ID), r.Project, r.Origin, r.Replaces, hashOf(d.Address), sealed)
		return err
	})
	if err != nil {
		return row{}, err
	}
	if ours == 0 {
		// Somebody was quicker, and the address that nobody knows is of no use.
		if err := s.c.Webhooks.Disable(ctx, c.Tenant, added.Endpoint.ID); err != nil {
			return row{}, err
		}
		return s.begun(ctx, r)
	}
	return s.one(ctx, c.Tenant, added.Endpoint.ID)
}

// made ends the asking: the key comes into the endpoint before anything says that
// it is there, so that whoever is cut off in between does all of it again.
func (s *Service) made(ctx context.Context, v row, ways Ways, h Hook) (row, error) {
	keyless := ways.MakesKey && h.SigningKey == ""
	if ways.MakesKey && !keyless {
		if _, err := s.c.Webhooks.Rotate(ctx, v.Tenant, v.Endpoint, h.SigningKey, -1); err != nil {
			return v, err
		}
	}
	if v.Replaces != "" && !keyless {
		if _, _, err := s.End(ctx, v.Tenant, v.Replaces); err != nil {
			return v, err
		}
	}
	err := s.c.DB.UpdateFor(ctx, of(v.Tenant), func(tx *store.Tx) error {
		now, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE webhook_subscription SET state = 'active', draft = NULL, hook = ?, keyless = ?, made_at = ?, expires_at = ?, life = ?, due_at = ?
			WHERE endpoint = ? AND state = 'asked'`, h.ID, bit(keyless), now.UnixMilli(), millis(h.ExpiresAt), life(h, now.UnixMilli()),
			now.Add(s.c.CheckEvery).UnixMilli(), v.Endpoint)
		return err
	})
	if err != nil {
		return v, err
	}
	return s.troubled(ctx, v.Tenant, v.Endpoint)
}

// life is how long a subscription lives that has just begun to.
func life(h Hook, now int64) int64 { return max(millis(h.ExpiresAt)-now, 0) }

// End disables an endpoint, and has the keeper forget its subscription, which ours
// says whether there is. What the provider has stays there.
func (s *Service) End(ctx context.Context, tenant connector.TenantID, endpoint string) (v Subscription, ours bool, err error) {
	if err := s.c.Webhooks.Disable(ctx, tenant, endpoint); err != nil {
		return Subscription{}, false, err
	}
	err = s.c.DB.UpdateFor(ctx, of(tenant), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE webhook_subscription SET state = 'ended', draft = NULL WHERE tenant = ? AND endpoint = ?`, string(tenant), endpoint)
		return err
	})
	if err != nil {
		return Subscription{}, false, failed(err)
	}
	was, err := s.one(ctx, tenant, endpoint)
	if connector.CodeOf(err) == connector.CodeNotFound {
		return Subscription{}, false, nil
	}
	return was.Subscription, err == nil, failed(err)
}
