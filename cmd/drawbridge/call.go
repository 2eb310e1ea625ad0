package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

func (a *app) callCommand() *cobra.Command {
	var connection, intent, callID string
	cmd := &cobra.Command{
		Use:   "call TOOL ARGUMENTS",
		Short: "Run a tool",
		Example: `  drawbridge call tickets.search '{"query":"printer","page_size":10,"cursor":null}'
  drawbridge call tickets.get '{"id":"007"}' --json
  echo '{"project":"orders","title":"t","body":"b","severity":"low"}' | drawbridge call tickets.create -`,
		Long: `Runs one tool with JSON arguments; - reads them from standard input.

Exit codes: 0 success or empty, 3 partial, 4 refused, 5 outcome unknown, 2 usage.`,
		Args: exactly("TOOL", "ARGUMENTS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments := []byte(args[1])
			if args[1] == "-" {
				var err error
				if arguments, err = io.ReadAll(a.in); err != nil {
					return err
				}
			}
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				caller.Connection = connector.ConnectionID(connection)
				r, err := a.runtimeFor(cmd, h, caller)
				if err != nil {
					return err
				}
				result := r.Execute(cmd.Context(), caller, connector.Call{
					ID: callID, Tool: args[0], Intent: intent, Arguments: arguments,
				})
				a.code = result.ExitCode()
				if a.json {
					a.printJSON(result)
				} else {
					a.showResult(result)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&connection, "connection", "", "which connection to use, when there are several")
	cmd.Flags().StringVar(&intent, "intent", "", "name of the intended write; the same intent is the same write for ever")
	cmd.Flags().StringVar(&callID, "call-id", "", "id that correlates this call with its result")
	return cmd
}

// runtimeFor picks the provider: of the named connection, of the only usable
// one, or the only one that is set up.
func (a *app) runtimeFor(cmd *cobra.Command, h *host.Host, caller connector.Caller) (*connector.Runtime, error) {
	views, err := h.Credentials.List(cmd.Context(), caller)
	if err != nil {
		return nil, err
	}
	var providers []string
	for _, v := range views {
		if caller.Connection == v.Connection.ID || caller.Connection == "" && v.Status.Usable() {
			providers = append(providers, v.Connection.Provider)
		}
	}
	if len(providers) == 0 {
		providers = h.Providers() // the runtime says what is wrong, in its order
	}
	slices.Sort(providers)
	providers = slices.Compact(providers)
	switch len(providers) {
	case 0:
		return nil, connector.Fail(connector.CodeConnectionRequired, "no ticket system is set up in this data folder")
	case 1:
	default:
		return nil, usagef("there are connections to %s; choose one with --connection", strings.Join(providers, " and "))
	}
	r, ok := h.Runtime(providers[0])
	if !ok {
		return nil, connector.Fail(connector.CodeConnectionRequired, "the provider %s is not set up in this data folder", providers[0])
	}
	return r, nil
}

func (a *app) showResult(r connector.Result) {
	switch {
	case r.Pending != nil:
		a.showPending(r)
	case r.Status == connector.StatusUnknown:
		a.showUnknown(r)
	case r.Error != nil:
		fmt.Fprintf(a.err, "cannot run %s: ", r.Tool)
		a.explain(*r.Error)
	default:
		a.showData(r)
	}
}

func (a *app) showPending(r connector.Result) {
	p := r.Pending
	fmt.Fprintf(a.err, "cannot run %s yet: %s\n", r.Tool, r.Error.Code)
	fmt.Fprintf(a.err, "  %s (digest %s…%s)\n", r.Error.Message, p.Digest[:6], p.Digest[len(p.Digest)-4:])
	fmt.Fprintf(a.err, "  read it:     drawbridge approvals show %s%s\n", p.Approval, a.flags())
	fmt.Fprintf(a.err, "  approve it:  drawbridge approvals approve %s%s\n", p.Approval, a.flags())
	fmt.Fprintf(a.err, "  deny it:     drawbridge approvals deny %s%s\n", p.Approval, a.flags())
	fmt.Fprintf(a.err, "  then run the same call again (it expires %s)\n", ago(p.ExpiresAt))
}

func (a *app) showUnknown(r connector.Result) {
	fmt.Fprintf(a.err, "the outcome is not known: %s\n  %s\n", r.Error.Code, r.Error.Message)
	fmt.Fprintf(a.err, "  Drawbridge looks it up and does not send it again\n")
	fmt.Fprintf(a.err, "  watch:  drawbridge operations show %s --watch%s\n", r.Effect.Operation, a.flags())
}

func (a *app) showData(r connector.Result) {
	var list struct {
		Items []tickets.Ticket `json:"items"`
	}
	var one tickets.Ticket
	switch {
	case len(r.Data) == 0:
	case r.Tool == "tickets.search" && json.Unmarshal(r.Data, &list) == nil:
		rows := [][]string{{"ID", "PROJECT", "STATE", "UPDATED", "TITLE"}}
		for _, t := range list.Items {
			rows = append(rows, []string{quoted(t.ID, 40), quoted(t.Project, 30), t.State + " (" + quoted(t.Status, 20) + ")", ago(t.UpdatedAt), quoted(t.Title, 60)})
		}
		if len(rows) > 1 {
			table(a.out, rows)
		}
	case json.Unmarshal(r.Data, &one) == nil && one.ID != "":
		severity, _ := one.Severity.Get()
		author, _ := one.Author.Get()
		table(a.out, [][]string{
			{"id", quoted(one.ID, 100)}, {"project", quoted(one.Project, 100)}, {"title", quoted(one.Title, 200)},
			{"state", one.State + " (" + quoted(one.Status, 40) + ")"}, {"severity", severity}, {"author", quoted(author, 60)},
			{"labels", quoted(strings.Join(one.Labels, ", "), 200)}, {"updated", ago(one.UpdatedAt)}, {"version", quoted(one.Version, 60)},
		})
		for line := range strings.Lines(one.Body) {
			fmt.Fprintf(a.out, "  | %s\n", quoted(strings.TrimRight(line, "\n"), 200))
		}
	default:
		fmt.Fprintf(a.out, "%s\n", r.Data)
	}
	fmt.Fprintf(a.out, "%s\n", r.Summary)
	if p := r.Provenance; p != nil && p.Source == connector.SourceCopy {
		fmt.Fprintf(a.out, "a stored copy, fetched %s; the provider was not asked\n", ago(p.FetchedAt))
	}
	for _, m := range r.Coverage.Missing {
		if m.Reason != "more_pages" {
			fmt.Fprintf(a.out, "  missing %s: %s\n", m.What, m.Reason)
		}
	}
	if rec := r.Receipt; rec != nil {
		again := ""
		if r.Replayed {
			again = "  (an earlier call did it; nothing was sent now)"
		}
		fmt.Fprintf(a.out, "receipt: %s as %s, proven by %s, operation %s%s\n", rec.Proof(), quoted(rec.ExternalID(), 80), rec.How(), rec.Operation(), again)
		for _, d := range rec.Differences() {
			fmt.Fprintf(a.out, "  stored otherwise: %s  sent %q  stored %q\n", d.Pointer, quoted(d.Sent, 80), quoted(d.Stored, 80))
		}
	}
	if r.NextCursor != nil {
		fmt.Fprintf(a.out, "next cursor: %s\n", *r.NextCursor)
	}
}
