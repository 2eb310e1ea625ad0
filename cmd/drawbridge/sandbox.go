package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

func (a *app) sandboxCommand() *cobra.Command {
	var config sandbox.Config
	cmd := &cobra.Command{
		Use: "sandbox", Short: "Start a ticket organisation to play with", Args: exactly(),
		Example: "  drawbridge sandbox --addr 127.0.0.1:8123",
		Long: `Starts the sandbox ticket organisation: a real HTTP server with sign-in, consent, access
lists, paging and switches for everything that real providers do wrong. It keeps its
data in memory and runs until it is interrupted.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := sandbox.Start(cmd.Context(), config)
			if err != nil {
				return err
			}
			defer s.Close()
			ready := s.Ready()
			if a.json {
				a.printJSON(ready)
			} else {
				fmt.Fprintf(a.out, "sandbox ticket organisation at %s\n\n", ready.URL)
				rows := [][]string{{"USER", "PASSWORD", "ORGANISATION"}}
				for _, u := range ready.Users {
					rows = append(rows, []string{u.Login, u.Password, u.Organisation})
				}
				table(a.out, rows)
				fmt.Fprintf(a.out, "\nnext, in another terminal:\n  drawbridge connect --provider sandbox --url %s\n\nstop it with Ctrl-C\n", ready.URL)
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&config.Addr, "addr", "127.0.0.1:0", "address to listen on")
	cmd.Flags().DurationVar(&config.AccessTokenTTL, "access-ttl", 10*time.Minute, "life of an access token")
	cmd.Flags().Int64Var(&config.Seed, "seed", 1, "seed of the data and of random faults")
	return cmd
}
