package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

type devFlags struct{ provider, listen string }

func (a *app) devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use: "dev [DIR]", Short: "Try a connector on a page: calls, approvals, faults, the wire", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge dev\n  drawbridge dev ./connectors/alerts\n  drawbridge dev --provider sandbox",
		Long: `Builds TestContract of the package in DIR (the current folder when left out) and runs it so
that it serves a page instead of its checks: the connector in the full runtime, against the
provider of its test. There are forms for its operations, the approval of a write with the
exact bytes, what became of each write, faults to switch on between the connector and the
provider, and what came over the wire. Start it again after a change.

The page is for this machine. It needs the go command, except with --provider.`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.dev(cmd.Context(), f, args) },
	}
	cmd.Flags().StringVar(&f.provider, "provider", "", "try the connector of this program for a provider instead: sandbox")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "loopback address to listen on; port 0 is a free one")
	return cmd
}

func (a *app) dev(ctx context.Context, f devFlags, args []string) error {
	temp, err := os.MkdirTemp("", "drawbridge-dev-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if f.provider != "" {
		subject, err := builtIn(f.provider, args)
		if err != nil {
			return err
		}
		return kit.Develop(ctx, &ownRun{ctx: ctx, temp: temp}, subject, func(ctx context.Context, b dev.Bench) error {
			return dev.Serve(ctx, b, f.listen, a.greetAuthor)
		})
	}
	test, err := buildContract(ctx, folder(args), temp)
	if err != nil {
		return err
	}
	cmd := test.command(ctx, "-test.timeout=0")
	cmd.Env = append(os.Environ(), dev.Variable+"="+f.listen)
	// It serves until its standard input ends. An interrupt at a terminal reaches
	// both processes; one that reaches only this one must end both.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel = stdin.Close
	greeted := false
	var said bytes.Buffer
	output := lines(func(line string) {
		if g, ok := dev.ParseGreeting(line); ok && !greeted {
			greeted = true
			a.greetAuthor(g)
		} else {
			said.WriteString(line + "\n")
		}
	})
	cmd.Stdout, cmd.Stderr = output, output // equal, so written by one goroutine
	err = cmd.Run()
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
		return nil
	case err == nil && !greeted:
		return test.judge(nil, nil, said.String())
	case err != nil:
		return fmt.Errorf("TestContract of %s: %w\n%s", test.pkg.ImportPath, err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

func (a *app) greetAuthor(g dev.Greeting) {
	if a.json {
		a.printJSON(g)
		return
	}
	fmt.Fprintf(a.out, "the connector is at %s\n\nopen this link; it works once, within ten minutes:\n\n  %s\n\nstop it with Ctrl-C\n", g.URL, g.SignIn)
}
