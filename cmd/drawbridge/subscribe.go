package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks/subscriptions"
)

type subscribeFlags struct {
	project, origin, with, replace string
	yes                            bool
}

func (a *app) subscribeCommand() *cobra.Command {
	var f subscribeFlags
	cmd := &cobra.Command{
		Use: "subscribe CONNECTION", Short: "Have a provider post the events of a connection here", Args: exactly("CONNECTION"),
		Example: `  drawbridge endpoints subscribe con_5t7w --origin https://bridge.example.org
  drawbridge endpoints subscribe con_5t7w --project team/app --with con_8k2p --origin https://bridge.example.org`,
		Long: `Makes an address, and proposes to the provider to post the connection's events to it. A
person approves that as any other write; then run the same command again. The address and
its signing key go to the provider and are never printed here.

The scopes that this takes often allow much more than reading tickets. A connection of
another account that has them, such as the project's administrator, can be named by --with.
It is also the one by which serve looks every quarter of an hour whether the subscription
is still there.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				return a.subscribe(cmd.Context(), h, caller, args[0], f)
			})
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.origin, "origin", "", "how the provider reaches the server, such as https://bridge.example.org")
	s.StringVar(&f.project, "project", "", "of which project, where the provider has subscriptions per project")
	s.StringVar(&f.with, "with", "", "the connection that asks for it, when it is another one")
	s.StringVar(&f.replace, "replace", "", "the address that the new one takes the place of")
	s.BoolVar(&f.yes, "yes", false, "approve it right away, as the person of --as")
	return cmd
}

func (a *app) subscribe(ctx context.Context, h *host.Host, caller connector.Caller, connection string, f subscribeFlags) error {
	of := func(id string) (connector.Connection, error) {
		view, err := h.Credentials.Show(ctx, caller, connector.ConnectionID(id))
		if err != nil {
			return connector.Connection{}, err
		}
		caller := caller
		caller.Connection = connector.ConnectionID(id)
		return h.Credentials.Resolve(ctx, caller, view.Connection.Provider, nil)
	}
	c, err := of(connection)
	if err != nil {
		return err
	}
	by := c
	if f.with != "" {
		if by, err = of(f.with); err != nil {
			return err
		}
	}
	r := subscriptions.Request{Connection: c, Subscriber: by, Project: f.project, Origin: f.origin, Replaces: f.replace}
	v, result, err := h.Subscriptions.Subscribe(ctx, r)
	if err == nil && f.yes && result.Pending != nil {
		if _, err = h.Ledger.Approve(ctx, caller.Tenant, string(result.Pending.Approval), string(caller.Principal)); err == nil {
			v, result, err = h.Subscriptions.Subscribe(ctx, r)
		}
	}
	if err != nil {
		return err
	}
	if v.State == subscriptions.Active {
		if err := h.Follow(ctx, c); err != nil {
			return err
		}
	}
	if result.Error != nil {
		a.code = result.ExitCode()
	}
	if a.json {
		// Of the result only this: what is to be sent and what came back have keys.
		a.printJSON(map[string]any{"subscription": v, "error": result.Error, "effect": result.Effect})
		return nil
	}
	if result.Error != nil {
		a.showResult(result)
		return nil
	}
	fmt.Fprintf(a.out, "%s receives the events of %s as %s; the provider calls it %s\n", v.Endpoint, c.Provider, quoted(c.Account.Login, 60), quoted(v.Hook, 60))
	a.showTroubles([]subscriptions.Subscription{v})
	fmt.Fprintf(a.out, "the events are received, and the subscription is looked after, while drawbridge serve runs\n")
	return nil
}

// troubles say what is wrong with a subscription, and what a person can do.
var troubles = map[string]string{
	subscriptions.Missing:   "the provider does not have it any more; to make it anew:",
	subscriptions.Keyless:   "its signing key was in an answer that was lost, so nothing of it can be verified; to make it anew:",
	subscriptions.Expired:   "its time at the provider is over; to make it anew:",
	subscriptions.Expiring:  "it ends soon and is not renewed",
	subscriptions.Silent:    "nothing has come for a week",
	subscriptions.Unchecked: "the provider's list could not be read",
}

// showTroubles tells of subscriptions whose events may be lost.
func (a *app) showTroubles(all []subscriptions.Subscription) {
	for _, v := range all {
		for _, t := range v.Troubles {
			fmt.Fprintf(a.out, "! %s: %s\n", v.Endpoint, troubles[t])
			switch t {
			case subscriptions.Missing, subscriptions.Keyless, subscriptions.Expired:
				again := []string{"drawbridge endpoints subscribe", string(v.Connection), "--origin", v.Origin, "--replace", v.Endpoint}
				if v.Project != "" {
					again = append(again, "--project", v.Project)
				}
				if v.Subscriber != v.Connection {
					again = append(again, "--with", string(v.Subscriber))
				}
				fmt.Fprintf(a.out, "    %s%s\n", strings.Join(again, " "), a.flags())
			case subscriptions.Expiring:
				if strings.HasPrefix(v.Renewal, "apr_") {
					fmt.Fprintf(a.out, "    drawbridge approvals approve %s%s\n", v.Renewal, a.flags())
				}
			case subscriptions.Unchecked:
				fmt.Fprintf(a.out, "    last: %s\n", v.Fault)
			}
		}
	}
}

// tellTroubles is showTroubles for all subscriptions of a tenant.
func (a *app) tellTroubles(ctx context.Context, h *host.Host, caller connector.Caller) error {
	if a.json {
		return nil // the objects have them
	}
	all, err := h.Subscriptions.List(ctx, caller.Tenant, "")
	a.showTroubles(all)
	return err
}

// remains says what is left at a provider after an endpoint was disabled.
func (a *app) remains(v subscriptions.Subscription) {
	if v.Hook == "" {
		fmt.Fprintf(a.out, "if its proposal is approved now, nothing is sent\n")
		return
	}
	where := ""
	if v.Project != "" {
		where = " of " + quoted(v.Project, 60)
	}
	fmt.Fprintf(a.out, "the provider goes on posting to it and is answered 404: delete webhook %s%s there\n", quoted(v.Hook, 60), where)
}
