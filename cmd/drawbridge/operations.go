package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (a *app) operationsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "operations", Short: "See what became of writes", Args: exactly(),
		Example: `  drawbridge operations
  drawbridge operations show op_3v9d --watch`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				lines, err := h.Ledger.Operations(cmd.Context(), caller.Tenant, operations.Filter{})
				if err != nil {
					return err
				}
				return a.listOperations(lines)
			})
		},
	}
	var watch bool
	show := &cobra.Command{
		Use: "show ID", Short: "Show one write and its history; looks it up first if the outcome is unknown", Args: exactly("ID"),
		Example: "  drawbridge operations show op_3v9d --watch",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				d, err := a.lookUp(cmd.Context(), h, caller, args[0], watch)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(operationJSON(d))
				} else {
					a.showOperation(d)
				}
				if d.State == connector.StateUnknown || d.State == connector.StateUnresolved {
					a.code = connector.CodeOutcomeUnknown.ExitCode()
				}
				return nil
			})
		},
	}
	show.Flags().BoolVar(&watch, "watch", false, "keep looking until the outcome is known or needs a person")
	show.ValidArgsFunction = a.completeOperations

	var as, reason, external string
	var yes bool
	settle := &cobra.Command{
		Use: "settle ID", Short: "Decide by hand what became of a write that no look-up could settle", Args: exactly("ID"),
		Example: `  drawbridge operations settle op_3v9d --state applied --external-id 1234 --reason "found it in the web page"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				if !yes && !a.confirm(fmt.Sprintf("This ends %s as %s by your word. If a ticket exists and you say rejected, the same write can be made twice.", args[0], as), as) {
					return usagef("not settled")
				}
				d, err := h.Ledger.Settle(cmd.Context(), caller.Tenant, args[0], operations.Verdict{
					State: connector.OperationState(as), By: string(caller.Principal), Reason: reason, ExternalID: external,
				})
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(operationJSON(d))
				} else {
					a.showOperation(d)
				}
				return nil
			})
		},
	}
	settle.Flags().StringVar(&as, "state", "", "applied or rejected")
	settle.Flags().StringVar(&reason, "reason", "", "how you know; required")
	settle.Flags().StringVar(&external, "external-id", "", "the provider's id of what was made")
	settle.Flags().BoolVar(&yes, "yes", false, "do not ask again")
	settle.ValidArgsFunction = a.completeOperations
	export := &cobra.Command{
		Use: "export", Short: "Write every operation with its card, history and receipt as JSON lines", Args: exactly(),
		Example: "  drawbridge operations export > operations.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				n := 0
				err := h.Ledger.Export(cmd.Context(), caller.Tenant, func(d operations.Detail) error {
					n++
					return json.NewEncoder(a.out).Encode(operationJSON(d))
				})
				if err == nil {
					fmt.Fprintf(a.err, "%d operations\n", n)
				}
				return err
			})
		},
	}
	cmd.AddCommand(show, settle, export)
	return cmd
}

// confirm asks for the word to be typed.
func (a *app) confirm(what, word string) bool {
	fmt.Fprintf(a.err, "%s\nType %q to go on: ", what, word)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	return strings.TrimSpace(line) == word && word != ""
}

// lookUp reads one operation and, while its outcome is unknown, asks the
// provider what became of it: once, or until it is known.
func (a *app) lookUp(ctx context.Context, h *host.Host, caller connector.Caller, id string, watch bool) (operations.Detail, error) {
	for {
		if _, err := h.Ledger.Sweep(ctx); err != nil {
			return operations.Detail{}, err
		}
		d, err := h.Ledger.Operation(ctx, caller.Tenant, id)
		if err != nil || d.State != connector.StateUnknown && d.State != connector.StateDispatching {
			return d, err
		}
		if d.State == connector.StateUnknown {
			_, err := h.Settle(ctx, d.Record)
			if code := connector.CodeOf(err); err != nil && code != connector.CodeOutcomeUnknown && code != connector.CodeConflict {
				return d, err
			}
			if d, err = h.Ledger.Operation(ctx, caller.Tenant, id); err != nil {
				return d, err
			}
		}
		if !watch || d.State != connector.StateUnknown && d.State != connector.StateDispatching {
			return d, nil
		}
		fmt.Fprintf(a.err, "still unknown (%s); looking again\n", operations.Visible(d.Reason).Shown)
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (a *app) listOperations(lines []operations.Line) error {
	if a.json {
		for _, l := range lines {
			a.printJSON(l)
		}
		return nil
	}
	if len(lines) == 0 {
		fmt.Fprintf(a.out, "no writes yet; propose one with drawbridge call tickets.create ...\n")
		return nil
	}
	rows := [][]string{{"ID", "STATE", "TOOL", "PROVIDER", "PROPOSED", "REASON"}}
	for _, l := range lines {
		rows = append(rows, []string{string(l.ID), string(l.State), l.Tool, quoted(l.Provider, 20), ago(l.CreatedAt), quoted(l.Reason, 50)})
	}
	table(a.out, rows)
	return nil
}

func operationJSON(d operations.Detail) any {
	var receipt json.RawMessage
	if len(d.Record.Receipt) > 0 {
		receipt = d.Record.Receipt
	}
	return struct {
		operations.Detail
		Receipt json.RawMessage `json:"receipt,omitempty"`
	}{d, receipt}
}

func (a *app) showOperation(d operations.Detail) {
	fmt.Fprintf(a.out, "%s  %s\n  %s\n", d.ID, d.State, d.Card.Sentence.Shown)
	var receipt struct {
		Proof      string `json:"proof"`
		How        string `json:"how"`
		ExternalID string `json:"external_id"`
	}
	if json.Unmarshal(d.Record.Receipt, &receipt) == nil && receipt.Proof != "" {
		fmt.Fprintf(a.out, "  receipt: %s as %s, proven by %s\n", receipt.Proof, quoted(receipt.ExternalID, 80), receipt.How)
	}
	if d.State == connector.StateUnknown {
		fmt.Fprintf(a.out, "  a ticket may exist; Drawbridge looks again %s and does not send it again\n", ago(d.NextLook))
	}
	if d.State == connector.StateUnresolved {
		fmt.Fprintf(a.out, "  next: drawbridge operations settle %s --state applied|rejected --reason ...%s\n", d.ID, a.flags())
	}
	fmt.Fprintln(a.out)
	rows := [][]string{{"  WHEN", "STATE", "BY", "REASON"}}
	for _, e := range d.History {
		rows = append(rows, []string{"  " + ago(e.At), string(e.To), quoted(e.Actor, 30), quoted(e.Reason, 80)})
	}
	table(a.out, rows)
}

func (a *app) completeOperations(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	_ = a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
		lines, err := h.Ledger.Operations(cmd.Context(), caller.Tenant, operations.Filter{})
		for _, l := range lines {
			ids = append(ids, string(l.ID)+"\t"+string(l.State))
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}
