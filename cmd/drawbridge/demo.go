package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/contracttests/scenarios"
)

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Watch the main job happen, on this machine", Args: exactly(),
		Example: "  drawbridge demo\n  drawbridge demo --json",
		Long: `Starts the sandbox ticket organisation on a free loopback port and a database in a
temporary folder, and plays four scenarios over real HTTP. Exit code 0 only if all pass.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "drawbridge-demo-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			config := scenarios.Config{Data: dir}
			if !a.json {
				config.Story = a.out
			}
			started := time.Now()
			report, err := scenarios.Run(cmd.Context(), config)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(report)
			} else if report.Passed {
				fmt.Fprintf(a.out, "\nAll four passed in %.1f s. Next: drawbridge sandbox, and drawbridge connect --help\n", time.Since(started).Seconds())
			}
			if !report.Passed {
				a.code = 1
			}
			return nil
		},
	}
}
