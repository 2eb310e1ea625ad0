package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

type contractFlags struct{ provider, report string }

func (a *app) contractCommand() *cobra.Command {
	var f contractFlags
	cmd := &cobra.Command{
		Use: "contract [DIR]", Short: "Hold a connector against the whole contract, and say what broke", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge contract --provider sandbox\n  drawbridge contract ./connectors/alerts --report ./evidence",
		Long: `Runs TestContract of the package in DIR (the current folder when left out) and shows each
check of contracttests/kit: passed, failed, or not claimed with the reason. With --provider
sandbox it is the ticket connector of this program against the sandbox organisation.

Exit code 0 only if a contract was run and nothing of it failed. It needs the go command,
except with --provider.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			reports, err := a.contract(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			for _, r := range reports {
				if f.report != "" {
					if err := r.Save(f.report); err != nil {
						return err
					}
				}
				if a.json {
					a.printJSON(r)
				} else {
					a.showContract(r)
				}
				if r.Fault != "" || len(r.Broken()) > 0 {
					a.code = 1
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.provider, "provider", "", "run the connector of this program for a provider instead: sandbox")
	cmd.Flags().StringVar(&f.report, "report", "", "folder to keep contract-report.json and contract-report.md in")
	return cmd
}

func (a *app) contract(ctx context.Context, f contractFlags, args []string) (reports []kit.Report, err error) {
	temp, err := os.MkdirTemp("", "drawbridge-contract-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	progress := newProgress(a.err)
	defer progress.end()
	if f.provider != "" {
		subject, err := builtIn(f.provider, args)
		if err != nil {
			return nil, err
		}
		return []kit.Report{kit.Run(&ownRun{ctx: ctx, temp: temp, progress: progress}, subject)}, nil
	}
	test, err := buildContract(ctx, folder(args), temp)
	if err != nil {
		return nil, err
	}
	into := filepath.Join(temp, "report")
	cmd := test.command(ctx, "-test.timeout=10m", "-test.v")
	cmd.Env = append(os.Environ(), "DRAWBRIDGE_CONTRACT_REPORT="+into, kit.ProgressVariable+"=1")
	var said bytes.Buffer
	output := lines(func(line string) {
		if done, total, ok := kit.ParseProgress(line); ok {
			progress.show(done, total)
		} else {
			said.WriteString(line + "\n")
		}
	})
	cmd.Stdout, cmd.Stderr = output, output // equal, so written by one goroutine
	ended := cmd.Run()
	progress.end()
	if reports, err = readReports(into); err != nil {
		return nil, err
	}
	return reports, test.judge(ended, reports, said.String())
}

// judge is the error of a run that the reports don't explain.
func (c contractTest) judge(ended error, reports []kit.Report, said string) error {
	broken := false
	for _, r := range reports {
		broken = broken || r.Fault != "" || len(r.Broken()) > 0
	}
	var exit *exec.ExitError
	switch {
	case ended != nil && !errors.As(ended, &exit):
		return ended
	case ended != nil && !broken:
		return fmt.Errorf("TestContract of %s failed outside the contract:\n%s", c.pkg.ImportPath, strings.TrimSpace(said))
	case len(reports) == 0:
		return fmt.Errorf("%s has no TestContract that runs kit.Run: docs/writing-a-connector.md says how to write one\n%s", c.pkg.ImportPath, strings.TrimSpace(said))
	}
	return nil
}

func readReports(dir string) (reports []kit.Report, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "contract-report.json"))
	for _, name := range files {
		var r kit.Report
		raw, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, err
}

// builtIn is a connector of this program with a provider that needs nothing.
func builtIn(provider string, args []string) (kit.Subject, error) {
	if provider != "sandbox" {
		return kit.Subject{}, usagef("--provider is sandbox; other providers are run by the tests of their connectors")
	}
	if len(args) > 0 {
		return kit.Subject{}, usagef("--provider runs a connector of this program; leave out %s", args[0])
	}
	return kit.Tickets(tickets.New(sandboxorg.Driver{}), kit.SandboxOrg()), nil
}

// showContract prints what failed last, where a reader's eyes are.
func (a *app) showContract(r kit.Report) {
	fmt.Fprintf(a.out, "%s %s against %s (%s), seed %d\n", quoted(r.Connector, 60), quoted(r.Version, 20), quoted(r.Provider, 60), r.Evidence, r.Seed)
	for _, result := range []string{kit.Passed, kit.NotClaimed, kit.Blocked, kit.Failed} {
		if r.Count(result) == 0 {
			continue
		}
		fmt.Fprintf(a.out, "\n%s\n", result)
		for _, o := range r.Checks {
			if o.Result != result {
				continue
			}
			fmt.Fprintf(a.out, "  %-4s %s\n", o.ID, o.Promise)
			if o.Why != "" {
				fmt.Fprintf(a.out, "       %s\n", quoted(o.Why, 300))
			}
			for _, d := range o.Details {
				fmt.Fprintf(a.out, "       %s\n", quoted(d, 300))
			}
		}
	}
	fmt.Fprintf(a.out, "\n%d passed, %d failed, %d not claimed, %d blocked, in %.1f s\n", r.Count(kit.Passed), r.Count(kit.Failed),
		r.Count(kit.NotClaimed), r.Count(kit.Blocked), r.Seconds)
	if r.Fault != "" {
		fmt.Fprintf(a.out, "the run itself failed: %s\n", quoted(r.Fault, 300))
	}
}
