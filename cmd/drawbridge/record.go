package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/contracttests/record"
)

func (a *app) recordCommand() *cobra.Command {
	var c record.Config
	var addr, out, canaries string
	cmd := &cobra.Command{
		Use: "record", Short: "Keep what a provider answers, without its secrets, for tests without it", Args: exactly(),
		Example: `  drawbridge record --to https://api.example.org --out provider.json
  CANARY="$TOKEN" drawbridge record --to https://api.example.org --out provider.json --canary-env CANARY`,
		Long: `Listens on this machine and passes requests on to one provider. On Ctrl-C the exchanges are
written to a new file: without headers but a few, with every credential that was seen and every
field that is named like a secret replaced, also inside other texts and encodings. If a canary is
still in it, nothing is written.

Text that people wrote is kept. Record against accounts that were made for it, and read the file.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.To == "" || out == "" {
				return usagef("say --to and --out")
			}
			if canaries != "" {
				secret, ok := os.LookupEnv(canaries)
				if !ok || secret == "" {
					return usagef("--canary-env names a variable that holds nothing")
				}
				c.Canaries = []string{secret}
			}
			r, err := record.NewRecorder(c)
			if err != nil {
				return errUsage{err}
			}
			// Taken before anything is recorded: no recording is lost at the end,
			// and none overwrites another.
			file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			err = a.serveLocally(cmd.Context(), addr, r, "recording "+c.To)
			if err == nil {
				err = r.Write(file)
			}
			if err = errors.Join(err, file.Close()); err != nil {
				return errors.Join(err, os.Remove(out))
			}
			if a.json {
				a.printJSON(map[string]any{"file": out, "exchanges": r.Len()})
			} else {
				fmt.Fprintf(a.out, "%s: %d exchanges\n", out, r.Len())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&c.To, "to", "", "the provider, by scheme and host")
	cmd.Flags().StringVar(&out, "out", "", "the new file")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "loopback address to listen on")
	cmd.Flags().StringArrayVar(&c.Names, "scrub", nil, "name of a further field whose values must go; repeatable")
	cmd.Flags().StringVar(&canaries, "canary-env", "", "environment variable with a secret that must not be in the file")
	return cmd
}

func (a *app) replayCommand() *cobra.Command {
	var addr string
	var names []string
	cmd := &cobra.Command{
		Use: "replay FILE", Short: "Answer as a recorded provider did", Args: exactly("FILE"),
		Example: "  drawbridge replay provider.json --addr 127.0.0.1:8124",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			rec, err := record.Read(f)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			p := record.NewPlayer(rec, names)
			if err := a.serveLocally(cmd.Context(), addr, p, fmt.Sprintf("replaying %d exchanges", len(rec.Exchanges))); err != nil {
				return err
			}
			for _, m := range p.Missed() {
				a.code = 1
				fmt.Fprintf(a.err, "not in the recording: %s\n", quoted(m, 200))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "loopback address to listen on")
	cmd.Flags().StringArrayVar(&names, "scrub", nil, "the names that were given to drawbridge record")
	return cmd
}

// serveLocally serves until the command is interrupted. Others on the network
// have no business with a provider's answers, so only this machine is served.
func (a *app) serveLocally(ctx context.Context, addr string, h http.Handler, what string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || net.ParseIP(host) == nil || !net.ParseIP(host).IsLoopback() {
		return usagef("--addr is a loopback address with a port, such as 127.0.0.1:8124")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	if a.json {
		a.printJSON(map[string]string{"url": url})
	} else {
		fmt.Fprintf(a.out, "%s at %s\nstop it with Ctrl-C\n", what, url)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// What is under way belongs into the recording.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(ending)
	<-served
	return err
}
