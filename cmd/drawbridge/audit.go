package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Read, check and export the record of every call", Args: exactly(),
		Example: "  drawbridge audit tail\n  drawbridge audit verify\n  drawbridge audit export > audit.jsonl",
		Long: `One record a call: ids, digests, decisions, codes and times, never a value. The records
of a tenant are a hash chain, so that one that is changed or missing shows.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var follow bool
	tail := &cobra.Command{
		Use: "tail", Short: "Show the records of the tenant, oldest first", Args: exactly(), Example: "  drawbridge audit tail --follow",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				return a.tail(cmd.Context(), h, caller, follow)
			})
		},
	}
	tail.Flags().BoolVar(&follow, "follow", false, "go on with new records until interrupted")
	export := &cobra.Command{
		Use: "export", Short: "Write the tenant's chain as JSON lines", Args: exactly(), Example: "  drawbridge audit export > audit.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				head, err := h.Audit.Export(cmd.Context(), caller.Tenant, a.out)
				if err == nil {
					fmt.Fprintf(a.err, "%d records, head %s\n", head.Seq, head.Hash)
				}
				return err
			})
		},
	}
	verify := &cobra.Command{
		Use: "verify [FILE]", Short: "Check the chain of the tenant, or of an exported file", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge audit verify\n  drawbridge audit verify audit.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			caller, err := a.caller()
			if err != nil {
				return err
			}
			var head operations.AuditHead
			if len(args) == 1 {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				if head, err = operations.VerifyAuditExport(caller.Tenant, f); err != nil {
					return err
				}
			} else if err := a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				head, err = h.Audit.Verify(cmd.Context(), caller.Tenant)
				return err
			}); err != nil {
				return err
			}
			if a.json {
				a.printJSON(head)
			} else {
				fmt.Fprintf(a.out, "%d records, each in its place; head %s\n", head.Seq, head.Hash)
			}
			return nil
		},
	}
	cmd.AddCommand(tail, verify, export)
	return cmd
}

func (a *app) tail(ctx context.Context, h *host.Host, caller connector.Caller, follow bool) error {
	show := func(e operations.AuditEntry) error {
		r := e.Record
		if a.json {
			a.printJSON(map[string]any{"seq": e.Seq, "at": r.At.UTC(), "call_id": r.CallID, "run": r.Run, "step_id": r.Step, "tool": r.Tool,
				"principal": r.Principal, "connection_id": r.Connection, "decision": r.Decision, "status": r.Status, "code": r.Code,
				"operation_id": r.Operation, "arguments_digest": r.ArgsDigest, "provider_request_id": r.RequestID, "attempts": r.Attempts})
			return nil
		}
		fmt.Fprintf(a.out, "%6d  %s  %-16s %-8s %-20s %s %s\n", e.Seq, r.At.Local().Format("2006-01-02 15:04:05"), quoted(r.Tool, 24), r.Status,
			r.Code, quoted(string(r.Principal), 20), r.Operation)
		return nil
	}
	if follow {
		err := h.Audit.Tail(ctx, caller.Tenant, 0, show)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	for seq := int64(0); ; {
		page, err := h.Audit.After(ctx, caller.Tenant, seq, 0)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if err := show(e); err != nil {
				return err
			}
			seq = e.Seq
		}
	}
}

func (a *app) receiptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "receipts", Short: "Export a signed receipt, and check one offline", Args: exactly(),
		Example: "  drawbridge receipts export op_3v9d > receipt.json\n  drawbridge receipts key > drawbridge.pub\n  drawbridge receipts verify receipt.json --key drawbridge.pub",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	export := &cobra.Command{
		Use: "export OPERATION", Short: "Print the signed receipt of an applied write", Args: exactly("OPERATION"),
		Example: "  drawbridge receipts export op_3v9d > receipt.json", ValidArgsFunction: a.completeOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				signed, err := h.Ledger.ExportReceipt(cmd.Context(), caller.Tenant, args[0])
				if err == nil {
					a.printJSON(signed)
				}
				return err
			})
		},
	}
	public := &cobra.Command{
		Use: "key", Short: "Print the public key that receipts are checked with", Args: exactly(), Example: "  drawbridge receipts key > drawbridge.pub",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				fmt.Fprint(a.out, h.Signer.Public().String())
				return nil
			})
		},
	}
	var keyFile string
	verify := &cobra.Command{
		Use: "verify FILE", Short: "Check a receipt against a public key; needs no data folder", Args: exactly("FILE"),
		Example: "  drawbridge receipts verify receipt.json --key drawbridge.pub",
		RunE: func(_ *cobra.Command, args []string) error {
			if keyFile == "" {
				return usagef("whose signature? give --key; drawbridge receipts key prints it")
			}
			text, err := os.ReadFile(keyFile)
			if err != nil {
				return err
			}
			key, err := keys.ParsePublicKey(string(text))
			if err != nil {
				return err
			}
			in := a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			raw, err := io.ReadAll(io.LimitReader(in, 1<<20))
			if err != nil {
				return err
			}
			s, err := operations.VerifyReceipt(raw, key)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(s)
				return nil
			}
			fmt.Fprintf(a.out, "the signature holds: %s made %s at %s, %s\n", s.Tool, quoted(s.ExternalID, 80), quoted(s.Organisation, 60), s.Proof)
			table(a.out, [][]string{{"account", quoted(s.Account, 60)}, {"approved by", quoted(s.ApprovedBy, 60) + " at " + s.ApprovedAt},
				{"occurred", s.OccurredAt}, {"payload digest", s.Digest}, {"operation", string(s.Operation)}})
			return nil
		},
	}
	verify.Flags().StringVar(&keyFile, "key", "", "file with the public key")
	cmd.AddCommand(export, public, verify)
	return cmd
}
