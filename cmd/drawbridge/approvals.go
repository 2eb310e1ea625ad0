package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (a *app) approvalsCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Decide about what wants to be written",
		Example: `  drawbridge approvals
  drawbridge approvals show apr_7h2k
  drawbridge approvals approve apr_7h2k`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				states := []operations.ApprovalState{operations.ApprovalPending, operations.ApprovalApproved}
				if all {
					states = nil
				}
				cards, err := h.Ledger.Approvals(cmd.Context(), caller.Tenant, operations.Filter{}, states...)
				if err != nil {
					return err
				}
				if a.json {
					for _, c := range cards {
						a.printJSON(c)
					}
					return nil
				}
				if len(cards) == 0 {
					fmt.Fprintf(a.out, "nothing waits for a decision\n")
					return nil
				}
				rows := [][]string{{"ID", "STATE", "EXPIRES", "PROPOSED BY", "WHAT"}}
				for _, c := range cards {
					rows = append(rows, []string{string(c.ID), string(c.State), ago(c.ExpiresAt), quoted(string(c.Proposer), 20), quoted(c.Sentence.Shown, 70)})
				}
				table(a.out, rows)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also decided, used and expired ones")

	show := &cobra.Command{
		Use: "show ID", Short: "Read exactly what would be sent", Args: exactly("ID"),
		Example: "  drawbridge approvals show apr_7h2k",
		RunE: a.onCard(func(cmd *cobra.Command, h *host.Host, caller connector.Caller, id string) (operations.Card, error) {
			return h.Ledger.Approval(cmd.Context(), caller.Tenant, id)
		}),
	}
	approve := &cobra.Command{
		Use: "approve ID", Short: "Let exactly this payload be sent, once", Args: exactly("ID"),
		Example: "  drawbridge approvals approve apr_7h2k",
		RunE: a.onCard(func(cmd *cobra.Command, h *host.Host, caller connector.Caller, id string) (operations.Card, error) {
			return h.Ledger.Approve(cmd.Context(), caller.Tenant, id, string(caller.Principal))
		}),
	}
	var reason string
	deny := &cobra.Command{
		Use: "deny ID", Short: "Refuse it", Args: exactly("ID"),
		Example: `  drawbridge approvals deny apr_7h2k --reason "wrong project"`,
		RunE: a.onCard(func(cmd *cobra.Command, h *host.Host, caller connector.Caller, id string) (operations.Card, error) {
			return h.Ledger.Deny(cmd.Context(), caller.Tenant, id, string(caller.Principal), reason)
		}),
	}
	withdraw := &cobra.Command{
		Use: "withdraw ID", Short: "Take a proposal back", Args: exactly("ID"),
		Example: "  drawbridge approvals withdraw apr_7h2k",
		RunE: a.onCard(func(cmd *cobra.Command, h *host.Host, caller connector.Caller, id string) (operations.Card, error) {
			return h.Ledger.Withdraw(cmd.Context(), caller.Tenant, id, string(caller.Principal), reason)
		}),
	}
	deny.Flags().StringVar(&reason, "reason", "", "why, for whoever proposed it")
	withdraw.Flags().StringVar(&reason, "reason", "", "why")
	for _, c := range []*cobra.Command{show, approve, deny, withdraw} {
		c.ValidArgsFunction = a.completeApprovals
		cmd.AddCommand(c)
	}
	return cmd
}

// onCard runs something that ends in a card, and prints the card.
func (a *app) onCard(f func(*cobra.Command, *host.Host, connector.Caller, string) (operations.Card, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
			c, err := f(cmd, h, caller, args[0])
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(c)
			} else {
				a.showCard(c)
			}
			return nil
		})
	}
}

// showCard reads in ten seconds: the sentence, each field as it will be sent,
// what the provider does by itself, who proposes and why, until when.
func (a *app) showCard(c operations.Card) {
	fmt.Fprintf(a.out, "%s\n\n", c.Sentence.Shown)
	fmt.Fprintf(a.out, "  %s %s on %s\n", c.Method, c.Path.Shown, c.Provider.Shown)
	for _, f := range append(append([]operations.Field(nil), c.Query...), c.Fields...) {
		a.showField(f)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(a.out, "\n  the provider: %s", n.Shown)
	}
	if len(c.Evidence) > 0 {
		var ids []string
		for _, e := range c.Evidence {
			ids = append(ids, e.Shown)
		}
		fmt.Fprintf(a.out, "\n  evidence: %s", strings.Join(ids, ", "))
	}
	fmt.Fprintf(a.out, "\n\n  account   %s (%s) at %s\n", c.Account.Shown, c.AccountID.Shown, c.Organisation.Shown)
	fmt.Fprintf(a.out, "  proposed  by %s with %s %s, %s\n", c.Proposer, c.Tool, c.Version, ago(c.CreatedAt))
	fmt.Fprintf(a.out, "  digest    %s\n", c.Digest)
	switch c.State {
	case operations.ApprovalPending:
		fmt.Fprintf(a.out, "  expires   %s\n\n", ago(c.ExpiresAt))
		fmt.Fprintf(a.out, "approve it:  drawbridge approvals approve %s%s\ndeny it:     drawbridge approvals deny %s%s\n", c.ID, a.flags(), c.ID, a.flags())
	case operations.ApprovalApproved:
		fmt.Fprintf(a.out, "  approved  by %s, %s; the next run of the same call sends it (until %s)\n", c.DecidedBy, ago(c.DecidedAt), ago(c.ExpiresAt))
	default:
		fmt.Fprintf(a.out, "  %s", c.State)
		if c.DecidedBy != "" {
			fmt.Fprintf(a.out, " by %s, %s", c.DecidedBy, ago(c.DecidedAt))
		}
		if c.Reason.Shown != "" {
			fmt.Fprintf(a.out, ": %s", quoted(c.Reason.Shown, 200))
		}
		fmt.Fprintln(a.out)
	}
}

func (a *app) showField(f operations.Field) {
	value := f.Value.Shown
	if !strings.Contains(value, "\n") {
		fmt.Fprintf(a.out, "    %-14s %s\n", f.Name.Shown, value)
	} else {
		fmt.Fprintf(a.out, "    %s\n", f.Name.Shown)
		for line := range strings.Lines(value) {
			fmt.Fprintf(a.out, "      | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if f.Value.Hidden > 0 {
		fmt.Fprintf(a.out, "      ! %d characters that do not show; written out: %s\n", f.Value.Hidden, f.Value.Escaped)
	}
}

func (a *app) completeApprovals(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	_ = a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
		cards, err := h.Ledger.Approvals(cmd.Context(), caller.Tenant, operations.Filter{}, operations.ApprovalPending, operations.ApprovalApproved)
		for _, c := range cards {
			ids = append(ids, string(c.ID)+"\t"+quoted(c.Sentence.Shown, 60))
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}
