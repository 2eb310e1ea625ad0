package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) lintCommand() *cobra.Command {
	var constructor string
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Say everything that is wrong with a connector at once", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge lint\n  drawbridge lint ./connectors/alerts --func New",
		Long: `Builds the package in DIR (the current folder when left out) together with a small
program that calls its constructor, runs the program, and prints what connector.Lint says
of the connector. The constructor is the package's one exported function without parameters
that returns a connector.Connector; --func picks one of several.

Nothing is written into the folder. The package's own code runs, as it does in its tests,
so lint code that you would test. It needs the go command.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := loadConnector(cmd.Context(), folder(args), constructor)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"connector": loaded.Name, "faults": loaded.Faults, "valid": len(loaded.Faults) == 0})
			} else if len(loaded.Faults) == 0 {
				fmt.Fprintf(a.out, "%s: nothing to complain about\n", loaded.Name)
			}
			return a.complain(loaded)
		},
	}
	cmd.Flags().StringVar(&constructor, "func", "", "name of the constructor, if there are several")
	return cmd
}

// complain prints the faults of a connector and sets the exit code.
func (a *app) complain(loaded loadedConnector) error {
	if len(loaded.Faults) == 0 {
		return nil
	}
	a.code = 1
	if !a.json {
		fmt.Fprintf(a.err, "%s can't be mounted:\n", loaded.Name)
		for _, f := range loaded.Faults {
			fmt.Fprintf(a.err, "  %s\n", quoted(f, 300))
		}
	}
	return nil
}

func folder(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return "."
}
