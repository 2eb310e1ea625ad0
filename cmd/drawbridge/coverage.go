package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// followed is a connection of which something is or was stored.
type followed struct {
	credentials.View
	mirror.Coverage
}

// forgetting is the state of a connection that has ended while some of what was
// stored is still to be removed.
const forgetting = "forgetting"

func followedBy(ctx context.Context, h *host.Host, caller connector.Caller) ([]followed, error) {
	views, err := h.Credentials.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	var all []followed
	for _, v := range views {
		c, err := h.Coverage(ctx, v.Connection)
		if err != nil {
			return nil, err
		}
		ended := v.Status == credentials.StatusDisconnecting || v.Status == credentials.StatusDisconnected
		switch {
		case c.State == mirror.None:
			continue
		case ended && c.State == mirror.Forgotten:
			c = mirror.Coverage{State: mirror.Forgotten}
		case ended:
			c = mirror.Coverage{State: forgetting}
		}
		all = append(all, followed{v, c})
	}
	return all, nil
}

// vanished says whether a sweep has stopped at how much it did not find.
func (f followed) vanished() bool { return slices.Contains(f.Reasons, "vanished") }

// acceptVanished lets the next sweep of one of the caller's own connections go on.
func acceptVanished(ctx context.Context, h *host.Host, caller connector.Caller, id connector.ConnectionID) error {
	v, err := stoppedSweep(ctx, h, caller, id)
	if err != nil {
		return err
	}
	return h.Mirror.Accept(ctx, v.Connection)
}

func stoppedSweep(ctx context.Context, h *host.Host, caller connector.Caller, id connector.ConnectionID) (followed, error) {
	all, err := followedBy(ctx, h, caller)
	if err != nil {
		return followed{}, err
	}
	at := slices.IndexFunc(all, func(f followed) bool { return f.Connection.ID == id })
	if at < 0 {
		return followed{}, connector.Fail(connector.CodeNotFound, "no such connection of yours, or nothing is stored of it")
	}
	if !all[at].vanished() {
		return followed{}, connector.Fail(connector.CodeConflict, "no sweep of this connection has stopped")
	}
	return all[at], nil
}

func (a *app) coverageCommand() *cobra.Command {
	return &cobra.Command{
		Use: "coverage", Short: "See how far what is stored of your connections can be relied on", Args: exactly(),
		Example: "  drawbridge deliveries coverage",
		Long: `Says of each connection that events are received for: complete, partial and why, or
unknown, when what is stored was not yet compared with the provider. Drift counts the
changes that a comparison found and no event had announced.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				all, err := followedBy(cmd.Context(), h, caller)
				if err != nil {
					return err
				}
				a.listCoverage(all)
				return nil
			})
		},
	}
}

func (a *app) acceptCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "accept CONNECTION", Short: "Let a sweep go on that did not find much of what is stored", Args: exactly("CONNECTION"),
		Example: "  drawbridge deliveries accept con_5t7w", ValidArgsFunction: a.completeConnections,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				id := connector.ConnectionID(args[0])
				if _, err := stoppedSweep(cmd.Context(), h, caller, id); err != nil {
					return err
				}
				if !yes && !a.confirm("A sweep of "+args[0]+" did not find more than a fifth of what is stored. The next one asks the provider for\n"+
					"each of these, and what it does not show any more is removed here.", "accept") {
					return usagef("not accepted")
				}
				if err := acceptVanished(cmd.Context(), h, caller, id); err != nil {
					return err
				}
				return a.done(map[string]any{"connection_id": id, "accepted": true}, "the server that runs sweeps "+args[0]+" again")
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask again")
	return cmd
}

func (a *app) listCoverage(all []followed) {
	if a.json {
		for _, f := range all {
			a.printJSON(map[string]any{"connection_id": f.Connection.ID, "provider": f.Connection.Provider, "coverage": f.Coverage})
		}
		return
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "no connection is followed\nnext: drawbridge endpoints add --help")
		return
	}
	at := func(t *time.Time) string {
		if t == nil {
			return "never"
		}
		return ago(*t)
	}
	rows := [][]string{{"CONNECTION", "PROVIDER", "STATE", "WHY", "DRIFT", "SWEPT", "POLLED"}}
	for _, f := range all {
		rows = append(rows, []string{string(f.Connection.ID), quoted(f.Connection.Provider, 20), f.State, strings.Join(f.Reasons, ", "), fmt.Sprint(f.Drift),
			at(f.SweptAt), at(f.PolledAt)})
	}
	table(a.out, rows)
	for _, f := range all {
		if f.vanished() {
			fmt.Fprintf(a.out, "next: look at %s, then drawbridge deliveries accept %s%s\n", quoted(f.Connection.Provider, 20), f.Connection.ID, a.flags())
		}
	}
}
