package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
	"github.com/drawbridge-dev/drawbridge/host"
)

func (a *app) toolsCommand() *cobra.Command {
	var shape string
	cmd := &cobra.Command{
		Use: "tools", Short: "List the tools that you may use", Args: exactly(),
		Example: `  drawbridge tools
  drawbridge tools show tickets.create
  drawbridge tools --shape anthropic`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTools(cmd, func(defs []connector.Definition) error {
				if shape != "" {
					return a.printShape(shape, defs)
				}
				if a.json {
					for _, d := range defs {
						a.printJSON(d)
					}
					return nil
				}
				if len(defs) == 0 {
					fmt.Fprintf(a.out, "no ticket system is set up here\nnext: drawbridge connect --help\n")
					return nil
				}
				rows := [][]string{{"TOOL", "PROVIDER", "EFFECT", "APPROVAL", "WHAT"}}
				for _, d := range defs {
					rows = append(rows, []string{d.Name, d.Provider, d.Effect.String(), map[bool]string{true: "by a person", false: "-"}[d.Approval], d.Title})
				}
				table(a.out, rows)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&shape, "shape", "", "print the definitions as openai, openai-responses or anthropic tools")
	show := &cobra.Command{
		Use: "show NAME", Short: "Show one tool with its schemas and what its provider can't guarantee", Args: exactly("NAME"),
		Example: "  drawbridge tools show tickets.create",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTools(cmd, func(defs []connector.Definition) error {
				for _, d := range defs {
					if d.Name != args[0] {
						continue
					}
					if a.json {
						a.printJSON(d)
					} else {
						a.showTool(d)
					}
					return nil
				}
				return &connector.Error{Code: connector.CodeUnknownTool}
			})
		},
	}
	manifests := &cobra.Command{
		Use: "manifest", Short: "Print the manifests of the connectors that are mounted, as JSON", Args: exactly(),
		Example: "  drawbridge tools manifest",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				for _, m := range h.Manifests() {
					a.printJSON(m)
				}
				return nil
			})
		},
	}
	cmd.AddCommand(show, manifests)
	return cmd
}

func (a *app) withTools(cmd *cobra.Command, f func([]connector.Definition) error) error {
	return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
		var all []connector.Definition
		for _, name := range h.Providers() {
			r, _ := h.Runtime(name)
			defs, err := r.Tools(cmd.Context(), caller)
			if err != nil {
				return err
			}
			all = append(all, defs...)
		}
		return f(all)
	})
}

func (a *app) printShape(name string, defs []connector.Definition) error {
	shapes := map[string]toolshape.Shape{"openai": toolshape.OpenAI, "openai-responses": toolshape.OpenAIResponses, "anthropic": toolshape.Anthropic}
	s, ok := shapes[name]
	if !ok {
		return usagef("--shape is openai, openai-responses or anthropic")
	}
	raw, err := s.Tools(defs)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s\n", raw)
	return nil
}

func (a *app) showTool(d connector.Definition) {
	fmt.Fprintf(a.out, "%s  %s\n%s\n\n", d.Name, d.Title, d.Description)
	table(a.out, [][]string{
		{"connector", d.Connector + " " + d.Version}, {"provider", d.Provider}, {"effect", d.Effect.String()},
		{"sensitivity", d.Sensitivity.String()}, {"scopes", strings.Join(d.Scopes, " ")},
	})
	for _, l := range d.Limitations {
		fmt.Fprintf(a.out, "can't guarantee: %s\n", l)
	}
	var schema bytes.Buffer
	if json.Indent(&schema, d.InputSchema, "", "  ") == nil {
		fmt.Fprintf(a.out, "\ninput:\n%s\n", &schema)
	}
}
