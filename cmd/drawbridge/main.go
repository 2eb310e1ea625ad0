// Command drawbridge connects accounts of ticket systems, runs tools on them and
// lets people decide about writes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/telemetry"
)

func main() {
	// net/http prints bytes of a provider to the global logger when a connection
	// misbehaves. Nothing of ours uses that logger.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := (&app{in: os.Stdin, out: os.Stdout, err: os.Stderr, process: true}).run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// app is one invocation: where it writes and the flags that all commands share.
type app struct {
	in        io.Reader
	out, err  io.Writer
	data      string
	database  string
	keys      string // where the key ring comes from
	as        string
	json      bool
	logger    *slog.Logger         // nil: commands of one moment log nothing
	telemetry *telemetry.Telemetry // nil: nothing is measured
	code      int                  // exit code of a command that ended without an error
	process   bool                 // this is the whole process, which may be confined
}

// run is main without the process: the tests call it.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return (&app{in: in, out: out, err: errOut}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return a.code
	}
	return a.fail(err)
}

// errUsage marks mistakes in the command line: exit code 2.
type errUsage struct{ error }

func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "drawbridge",
		Short: "Connectors whose writes can be proven",
		Long: `Drawbridge runs tools on ticket systems for agents and people. Nothing is written
before a person has approved the exact bytes, and no write is sent twice.

Start here:
  drawbridge demo                      watch the main job happen, on this machine
  drawbridge sandbox                   start a ticket organisation to play with
  drawbridge connect --help            connect an account
  drawbridge call tickets.search ...   run a tool
  drawbridge serve                     the pages for people, and the work in the background

Read on in the README, or with --help behind any command.`,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; run drawbridge without arguments to see them", args[0])
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return errUsage{err} })
	f := root.PersistentFlags()
	f.StringVar(&a.data, "data", defaultData(), "folder of the database, the key ring and the list of providers")
	f.StringVar(&a.database, "database", "", "database URL (postgres://...); SQLite in the data folder when empty")
	f.StringVar(&a.keys, "keys", os.Getenv(keysVariable), "where the key ring comes from: file:PATH, env:NAME or vault:URL (drawbridge keys --help); keys.json in the data folder when empty, or what "+keysVariable+" says")
	f.StringVar(&a.as, "as", defaultPrincipal(), "who acts, as TENANT/USER")
	f.BoolVar(&a.json, "json", false, "print JSON and nothing else")
	root.AddCommand(a.demoCommand(), a.sandboxCommand(), a.connectCommand(), a.connectionsCommand(), a.callCommand(),
		a.toolsCommand(), a.approvalsCommand(), a.operationsCommand(), a.receiptsCommand(),
		a.auditCommand(), a.keysCommand(), a.backupCommand(), a.restoreCommand(), a.releaseCommand(), a.serveCommand(), a.mcpCommand(),
		a.endpointsCommand(), a.deliveriesCommand(), a.profilesCommand(), a.doctorCommand(),
		a.newCommand(), a.lintCommand(), a.contractCommand(), a.devCommand(), a.surfaceCommand(), a.recordCommand(), a.replayCommand())
	return root
}

// exactly is cobra.ExactArgs with our exit code for usage errors.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("%s takes %d arguments: %s", cmd.CommandPath(), len(names), strings.Join(names, " "))
		}
		return nil
	}
}

func defaultData() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "drawbridge-data"
	}
	return filepath.Join(dir, "drawbridge")
}

func defaultPrincipal() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "local/" + u.Username
	}
	return "local/me"
}

// caller reads --as. It is the operator's word, and the only identity there is.
func (a *app) caller() (connector.Caller, error) {
	tenant, principal, ok := strings.Cut(a.as, "/")
	if !ok || tenant == "" || principal == "" || strings.Contains(principal, "/") {
		return connector.Caller{}, usagef("--as takes TENANT/USER, such as acme/alice")
	}
	return connector.Caller{Tenant: connector.TenantID(tenant), Principal: connector.PrincipalID(principal)}, nil
}

// open opens the data folder with the providers that were set up in it.
func (a *app) open(ctx context.Context) (*host.Host, connector.Caller, error) {
	caller, err := a.caller()
	if err != nil {
		return nil, caller, err
	}
	instances, err := host.Instances(a.data)
	if err != nil {
		return nil, caller, err
	}
	profiles, err := host.Profiles(a.data)
	if err != nil {
		return nil, caller, err
	}
	ring, err := a.ring()
	if err != nil {
		return nil, caller, err
	}
	h, err := host.Open(ctx, host.Config{
		Data: a.data, Database: a.database, Instances: instances, Profiles: profiles, Keys: ring, Policy: host.Local{}, Consent: host.Local{},
		Logger: a.logger, Telemetry: a.telemetry, Migrations: []store.Migrations{console.Migrations(), mcpexpose.Migrations()},
	})
	return h, caller, err
}

// with opens the host for the time of one command.
func (a *app) with(ctx context.Context, f func(*host.Host, connector.Caller) error) error {
	h, caller, err := a.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(h, caller), h.Close())
}

// fail prints an error in three parts and picks the exit code.
func (a *app) fail(err error) int {
	var usage errUsage
	if errors.As(err, &usage) {
		fmt.Fprintf(a.err, "%s\n", usage)
		return 2
	}
	var e *connector.Error
	if !errors.As(err, &e) {
		if a.json {
			a.printJSON(map[string]any{"error": map[string]string{"code": "INTERNAL", "message": err.Error()}})
		}
		fmt.Fprintf(a.err, "failed: %s\n", err)
		return 1
	}
	if a.json {
		a.printJSON(map[string]any{"error": e.Report()})
	}
	a.explain(e.Report())
	return e.Code.ExitCode()
}
