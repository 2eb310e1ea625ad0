package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

func (a *app) endpointsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "endpoints", Short: "Make the addresses that providers post their events to", Args: exactly(),
		Example: "  drawbridge endpoints\n  drawbridge endpoints subscribe con_5t7w --origin https://bridge.example.org\n  drawbridge endpoints add --provider gitea --url https://bridge.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				all, err := h.Webhooks.Endpoints(cmd.Context(), caller.Tenant)
				if err != nil {
					return err
				}
				return a.listEndpoints(cmd.Context(), h, caller, all)
			})
		},
	}
	var provider, connection, scheme, secret, base string
	add := &cobra.Command{
		Use: "add", Short: "Make an address for one connection; it and its secret are shown once", Args: exactly(),
		Example: "  drawbridge endpoints add --provider gitea --url https://bridge.example.org",
		Long: `Makes an address that a provider posts to, for one connection. Put the address and the
secret into the provider's webhook settings. Neither can be read again.

Events are hints: what they name is fetched with the connection's own rights, and what
no event announces is found by a sweep once a day.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				caller.Connection = connector.ConnectionID(connection)
				c, err := h.Credentials.Resolve(cmd.Context(), caller, provider, nil)
				if err != nil {
					return err
				}
				if scheme == "" {
					scheme = h.WebhookScheme(provider)
				}
				added, err := h.Webhooks.Add(cmd.Context(), webhooks.AddRequest{Tenant: c.Tenant, Provider: c.Provider, Connection: c.ID, Scheme: scheme, Secret: secret})
				if err != nil {
					return err
				}
				if err := h.Follow(cmd.Context(), c); err != nil {
					return err
				}
				address := strings.TrimSuffix(base, "/") + added.Path
				if a.json {
					a.printJSON(map[string]any{"endpoint": added.Endpoint, "url": address, "secret": added.Secret})
					return nil
				}
				fmt.Fprintf(a.out, "%s, for %s as %s, signed like %s\n\n  address: %s\n", added.Endpoint.ID, c.Provider, quoted(c.Account.Login, 60), scheme, address)
				if added.Secret != "" {
					fmt.Fprintf(a.out, "  secret:  %s\n", added.Secret)
				}
				fmt.Fprintf(a.out, "\nneither is shown again; put both into the provider's webhook settings, as JSON\nthe events are received while drawbridge serve runs\n")
				return nil
			})
		},
	}
	s := add.Flags()
	s.StringVar(&provider, "provider", "", "whose events; a name of providers.json")
	s.StringVar(&connection, "connection", "", "which connection, when there are several")
	s.StringVar(&scheme, "scheme", "", "how the sender signs: "+strings.Join(signature.Names(), ", ")+"; the provider's own when left out")
	s.StringVar(&secret, "secret", "", "the provider's signing secret, when it makes one itself; ours when left out")
	s.StringVar(&base, "url", "http://127.0.0.1:7433", "how the provider reaches the server")

	var now bool
	rotate := &cobra.Command{
		Use: "rotate ID", Short: "Add a new secret; the old one is accepted for another day", Args: exactly("ID"),
		Example: "  drawbridge endpoints rotate whe_3v9d\n  drawbridge endpoints rotate whe_3v9d --now",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				overlap := time.Duration(0)
				if now {
					overlap = -1
				}
				rotated, err := h.Webhooks.Rotate(cmd.Context(), caller.Tenant, args[0], secret, overlap)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(rotated)
					return nil
				}
				if rotated.Secret != "" {
					fmt.Fprintf(a.out, "new secret, shown once: %s\n", rotated.Secret)
				}
				return a.listEndpoints(cmd.Context(), h, caller, []webhooks.Endpoint{rotated.Endpoint})
			})
		},
	}
	rotate.Flags().StringVar(&secret, "secret", "", "the provider's new secret, when it makes one itself")
	rotate.Flags().BoolVar(&now, "now", false, "end the old secrets at once: one has leaked")
	disable := &cobra.Command{
		Use: "disable ID", Short: "End an address for good", Args: exactly("ID"), Example: "  drawbridge endpoints disable whe_3v9d",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				ended, subscribed, err := h.Subscriptions.End(cmd.Context(), caller.Tenant, args[0])
				if err != nil {
					return err
				}
				e, err := h.Webhooks.Show(cmd.Context(), caller.Tenant, args[0])
				if err != nil {
					return err
				}
				if subscribed && !a.json {
					a.remains(ended)
				}
				return a.listEndpoints(cmd.Context(), h, caller, []webhooks.Endpoint{e})
			})
		},
	}
	cmd.AddCommand(a.subscribeCommand(), add, rotate, disable)
	return cmd
}

func (a *app) listEndpoints(ctx context.Context, h *host.Host, caller connector.Caller, all []webhooks.Endpoint) error {
	list, err := h.Subscriptions.List(ctx, caller.Tenant, "")
	if err != nil {
		return err
	}
	subscribed := map[string]*subscriptions.Subscription{}
	for i, v := range list {
		subscribed[v.Endpoint] = &list[i]
	}
	if a.json {
		for _, e := range all {
			a.printJSON(struct {
				webhooks.Endpoint
				Subscription *subscriptions.Subscription `json:"subscription,omitempty"`
			}{e, subscribed[e.ID]})
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no address for events yet\nnext: drawbridge endpoints subscribe --help")
		return nil
	}
	rows := [][]string{{"ID", "PROVIDER", "CONNECTION", "SIGNED LIKE", "SECRETS", "MADE", "STATE"}}
	for _, e := range all {
		state := "open"
		switch v := subscribed[e.ID]; {
		case e.DisabledAt != nil:
			state = "disabled"
		case v != nil && v.State == subscriptions.Asked:
			state = "asked for; run the same subscribe again"
		case v != nil:
			state = "subscribed as " + quoted(v.Hook, 40)
		}
		rows = append(rows, []string{e.ID, quoted(e.Provider, 20), string(e.Connection), e.Scheme, fmt.Sprint(len(e.Secrets)), ago(e.CreatedAt), state})
	}
	table(a.out, rows)
	for _, e := range all {
		if v := subscribed[e.ID]; v != nil {
			a.showTroubles([]subscriptions.Subscription{*v})
		}
	}
	return nil
}

func (a *app) deliveriesCommand() *cobra.Command {
	f := inbox.Filter{}
	var parked bool
	list := func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
			f.Tenant = string(caller.Tenant)
			if parked {
				lanes, err := h.Webhooks.Inbox().Lanes(cmd.Context(), inbox.LaneFilter{Tenant: f.Tenant, Parked: true, Connection: f.Connection, Limit: f.Limit})
				if err != nil {
					return err
				}
				return a.listLanes(lanes)
			}
			all, err := h.Webhooks.Inbox().List(cmd.Context(), f)
			if err != nil {
				return err
			}
			a.listDeliveries(all)
			return a.tellTroubles(cmd.Context(), h, caller)
		})
	}
	cmd := &cobra.Command{
		Use: "deliveries", Short: "See the events that providers sent, and what became of them", Args: exactly(),
		Example: "  drawbridge deliveries\n  drawbridge deliveries --parked\n  drawbridge deliveries replay whd_3v9d", RunE: list,
	}
	s := cmd.Flags()
	s.StringVar(&f.State, "state", "", "received, decoded, ignored or quarantined")
	s.StringVar(&f.Connection, "connection", "", "of this connection alone")
	s.BoolVar(&f.Conflicts, "conflicts", false, "only ids that came again with another body")
	s.BoolVar(&parked, "parked", false, "resources whose fetching was given up, instead of deliveries")
	s.IntVar(&f.Limit, "limit", 50, "how many at most")
	one := func(use, short string, do func(*cobra.Command, *host.Host, string, string) error) *cobra.Command {
		return &cobra.Command{Use: use + " ID", Short: short, Args: exactly("ID"), Example: "  drawbridge deliveries " + use + " ID",
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
					err := do(cmd, h, string(caller.Tenant), args[0])
					switch {
					case errors.Is(err, inbox.ErrNotFound):
						return connector.Fail(connector.CodeNotFound, "no such delivery or lane here")
					case errors.Is(err, inbox.ErrNoBody):
						return connector.Fail(connector.CodeGone, "its body is not kept any more")
					}
					return err
				})
			}}
	}
	show := one("show", "Show one delivery, without its body", func(cmd *cobra.Command, h *host.Host, tenant, id string) error {
		r, err := h.Webhooks.Inbox().Show(cmd.Context(), tenant, id)
		if err != nil {
			return err
		}
		a.printJSON(r)
		return nil
	})
	replay := one("replay", "Have a delivery decoded and what it names fetched once more", func(cmd *cobra.Command, h *host.Host, tenant, id string) error {
		if err := h.Webhooks.Inbox().Replay(cmd.Context(), tenant, id); err != nil {
			return err
		}
		return a.done(map[string]any{"delivery": id, "replayed": true}, id+" is decoded once more by the server that runs")
	})
	unpark := one("unpark", "Give a parked resource its attempts back; ids are in deliveries --parked", func(cmd *cobra.Command, h *host.Host, tenant, id string) error {
		if err := h.Webhooks.Inbox().Unpark(cmd.Context(), tenant, id); err != nil {
			return err
		}
		return a.done(map[string]any{"lane": id, "unparked": true}, id+" is fetched again by the server that runs")
	})
	cmd.AddCommand(show, replay, unpark, a.coverageCommand(), a.acceptCommand())
	return cmd
}

// done says that something was done, to people or to programs.
func (a *app) done(object any, text string) error {
	if a.json {
		a.printJSON(object)
		return nil
	}
	fmt.Fprintln(a.out, text)
	return nil
}

func (a *app) listDeliveries(all []inbox.Record) {
	if a.json {
		for _, r := range all {
			a.printJSON(r)
		}
		return
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no event yet\nnext: drawbridge endpoints subscribe --help")
		return
	}
	rows := [][]string{{"ID", "RECEIVED", "PROVIDER", "EVENT", "SIGNED", "STATE", "REASON", "RESOURCES"}}
	for _, r := range all {
		reason := r.Reason
		if r.ConflictOf != "" {
			reason = "another body than " + r.ConflictOf
		}
		signed := "yes"
		if r.Pull {
			signed = "no, read from the provider"
		}
		rows = append(rows, []string{r.ID, ago(r.ReceivedAt), quoted(r.Provider, 20), quoted(r.EventType, 30), signed, r.State, quoted(reason, 50), fmt.Sprint(r.Marks)})
	}
	table(a.out, rows)
}

func (a *app) listLanes(all []inbox.LaneState) error {
	if a.json {
		for _, l := range all {
			a.printJSON(l)
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "nothing is parked")
		return nil
	}
	rows := [][]string{{"ID", "KIND", "RESOURCE", "PROVIDER", "ATTEMPTS", "REASON"}}
	for _, l := range all {
		rows = append(rows, []string{l.ID, quoted(l.Kind, 20), quoted(l.Object, 40), quoted(l.Provider, 20), fmt.Sprint(l.Attempts), quoted(l.Reason, 50)})
	}
	table(a.out, rows)
	return nil
}
