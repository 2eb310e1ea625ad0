package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport/doctor"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

// A finding is one thing that is wrong: what it is, since when, what it touches and
// what to do.
type finding struct {
	What  string     `json:"what"`
	Since *time.Time `json:"since,omitempty"`
	Who   string     `json:"touches,omitempty"`
	Next  string     `json:"next,omitempty"` // a command, or where to read
}

// late is how long work may wait before somebody has to ask whether a server runs.
const late = 5 * time.Minute

func (a *app) doctorCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong here and on the way to the providers, and what to do", Args: exactly(),
		Example: "  drawbridge doctor\n  drawbridge doctor --profile sandbox",
		Long: `Looks at the database, the keys, open writes, deliveries, stored copies and the
connections of --as, then goes the way to each provider without sending a credential.
With --profile it goes that way alone. Exit code 0 only if nothing is wrong.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				if err := a.examine(cmd.Context()); err != nil {
					return err
				}
			}
			return a.goTheWay(cmd.Context(), name)
		},
	}
	cmd.Flags().StringVar(&name, "profile", "", "one endpoint profile, and nothing else")
	return cmd
}

func (a *app) examine(ctx context.Context) error {
	return a.with(ctx, func(h *host.Host, caller connector.Caller) error {
		var all []finding
		for _, look := range []func(context.Context, *host.Host, connector.Caller) ([]finding, error){
			ofHouse, ofWrites, ofDeliveries, ofConnections,
		} {
			found, err := look(ctx, h, caller)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		if len(all) > 0 {
			a.code = 1
		}
		if a.json {
			a.printJSON(map[string]any{"findings": append([]finding{}, all...)})
			return nil
		}
		if len(all) == 0 {
			fmt.Fprintln(a.out, "here: nothing is wrong")
		}
		for _, f := range all {
			fmt.Fprintf(a.out, "! %s\n", quoted(f.What, 200))
			if f.Since != nil {
				fmt.Fprintf(a.out, "    since    %s\n", ago(*f.Since))
			}
			if f.Who != "" {
				fmt.Fprintf(a.out, "    touches  %s\n", quoted(f.Who, 200))
			}
			if f.Next != "" {
				fmt.Fprintf(a.out, "    next     %s\n", f.Next+a.flags())
			}
		}
		return nil
	})
}

func ofHouse(ctx context.Context, h *host.Host, _ connector.Caller) (all []finding, err error) {
	passes, err := bypassesRows(ctx, h.DB)
	if err != nil {
		return nil, err
	}
	if passes {
		all = append(all, finding{What: "the database role is a superuser or has BYPASSRLS: the second wall between tenants does not stand",
			Who: "every tenant; docs/serving.md says which role to use"})
	}
	missing, err := h.Credentials.MissingKeys(ctx)
	for _, id := range missing {
		all = append(all, finding{What: fmt.Sprintf("key %d is needed and not in the key ring", id),
			Who: "the connections whose tokens it seals: they are unavailable, not lost", Next: "drawbridge keys list"})
	}
	return all, err
}

func ofWrites(ctx context.Context, h *host.Host, _ connector.Caller) (all []finding, err error) {
	now, err := h.DB.Now(ctx)
	if err != nil {
		return nil, err
	}
	open, err := h.Ledger.Open(ctx)
	if err != nil {
		return nil, err
	}
	if open.Unresolved > 0 {
		all = append(all, finding{What: counted(open.Unresolved, "write", "writes") + " could not be settled by looking up",
			Who: "each may have happened or not; nothing sends them again", Next: "drawbridge operations"})
	}
	if open.OldestUnknown != nil && now.Sub(*open.OldestUnknown) > late {
		all = append(all, finding{What: "the outcome is not known yet of " + counted(open.Unknown, "write", "writes"), Since: open.OldestUnknown,
			Who: "they are looked up while drawbridge serve runs and their provider answers", Next: "drawbridge operations"})
	}
	return all, nil
}

func ofDeliveries(ctx context.Context, h *host.Host, _ connector.Caller) (all []finding, err error) {
	now, err := h.DB.Now(ctx)
	if err != nil {
		return nil, err
	}
	s, err := h.Webhooks.Stats(ctx)
	if err != nil {
		return nil, err
	}
	mirrored, err := h.Mirror.Stats(ctx)
	if err != nil {
		return nil, err
	}
	if s.OldestWaiting != nil && now.Sub(*s.OldestWaiting) > late {
		all = append(all, finding{What: "not decoded yet: " + counted(s.Waiting, "delivery", "deliveries"), Since: s.OldestWaiting,
			Who: "nothing of them is applied; is drawbridge serve running?", Next: "drawbridge deliveries"})
	}
	if s.OldestDirty != nil && now.Sub(*s.OldestDirty) > late {
		all = append(all, finding{What: "changes wait to be applied of " + counted(s.Dirty, "resource", "resources"), Since: s.OldestDirty,
			Who: "their stored copies are not served", Next: "drawbridge deliveries coverage"})
	}
	if s.Parked > 0 {
		all = append(all, finding{What: "failed too often and parked: " + counted(s.Parked, "resource", "resources"),
			Who: "their changes are not applied", Next: "drawbridge deliveries lanes"})
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Quarantined)) {
		all = append(all, finding{What: counted(s.Quarantined[reason], "delivery", "deliveries") + " can't be used: " + reason,
			Who: "what they announced is found by the next sweep", Next: "drawbridge deliveries"})
	}
	if s.Conflicts > 0 {
		all = append(all, finding{What: counted(s.Conflicts, "delivery", "deliveries") + " under the id of another with another body",
			Who: "both are kept and applied; a sender that does this is broken or somebody else", Next: "drawbridge deliveries"})
	}
	if mirrored.Stopped > 0 {
		all = append(all, finding{What: "stopped, since much of what is stored was not found: " + counted(mirrored.Stopped, "sweep", "sweeps"),
			Who: "a revocation at large, or a fault of a filter", Next: "drawbridge deliveries coverage"})
	}
	return all, nil
}

func ofConnections(ctx context.Context, h *host.Host, caller connector.Caller) (all []finding, err error) {
	views, err := h.Credentials.List(ctx, caller)
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		since := v.UpdatedAt
		who := fmt.Sprintf("%s at %s as %s", v.Connection.ID, v.Connection.Provider, v.Connection.Account.Login)
		switch v.Status {
		case credentials.StatusReconnectRequired:
			all = append(all, finding{What: "a connection has to be made again: " + string(v.Reason), Since: &since, Who: who,
				Next: fmt.Sprintf("drawbridge connect --provider %s --connection %s", v.Connection.Provider, v.Connection.ID)})
		case credentials.StatusDegraded:
			all = append(all, finding{What: "the provider refuses our client: " + string(v.Reason), Since: &since, Who: who,
				Next: "drawbridge doctor --profile " + v.Connection.Provider})
		}
	}
	subscribed, err := h.Subscriptions.List(ctx, caller.Tenant, "")
	for _, s := range subscribed {
		for _, t := range s.Troubles {
			all = append(all, finding{What: strings.TrimSuffix(troubles[t], "; to make it anew:"), Who: "events of endpoint " + s.Endpoint, Next: "drawbridge endpoints"})
		}
	}
	return all, err
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

// goTheWay checks what stands between here and the providers.
func (a *app) goTheWay(ctx context.Context, name string) error {
	file, err := a.endpointProfiles()
	if err != nil {
		return err
	}
	found := false
	for _, p := range file.Profiles {
		if name != "" && p.Name != name {
			continue
		}
		found = true
		report := doctor.Check(ctx, p, doctor.Options{NAT64: file.NAT64})
		if a.json {
			a.printJSON(report)
		} else {
			a.showDiagnosis(report)
		}
		if s := report.Status(); s == doctor.Refused || s == doctor.Failed {
			a.code = 1
		}
	}
	if !found && name != "" {
		return usagef("there is no endpoint profile %q; drawbridge profiles lists them", name)
	}
	return nil
}

func (a *app) showDiagnosis(r doctor.Report) {
	fmt.Fprintf(a.out, "%s: %s\n", quoted(r.Profile, 60), r.Status())
	for _, i := range r.Items {
		fmt.Fprintf(a.out, "  %-8s %-12s %s\n", i.Status, i.Step, quoted(i.Text, 200))
		if i.Next != "" {
			fmt.Fprintf(a.out, "  %-8s %-12s next: %s\n", "", "", quoted(i.Next, 200))
		}
	}
}
