// Command sandboxorg runs the sandbox ticket organisation as a process of its
// own, in a container or without one. It needs nothing but a port.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxorg:", err)
		os.Exit(1)
	}
}

func run() error {
	var cfg sandbox.Config
	flag.StringVar(&cfg.Addr, "addr", "127.0.0.1:0", "listen `address`")
	flag.StringVar(&cfg.BaseURL, "base-url", "", "public `URL`, if it is not http://ADDR")
	flag.DurationVar(&cfg.AccessTokenTTL, "access-ttl", 0, "lifetime of access tokens (default 10m)")
	flag.DurationVar(&cfg.RefreshTokenTTL, "refresh-ttl", 0, "lifetime of one refresh token (default none)")
	flag.Int64Var(&cfg.Seed, "seed", 0, "fixes data, passwords and client secrets")
	flag.IntVar(&cfg.Tickets, "tickets", 0, "seeded tickets (default 60)")
	flag.Func("webhook-network", "`CIDR` of webhook targets beside loopback, repeatable", func(v string) error {
		p, err := netip.ParsePrefix(v)
		cfg.WebhookNetworks = append(cfg.WebhookNetworks, p)
		return err
	})
	asJSON := flag.Bool("json", false, "print one line of JSON when ready instead of text")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := sandbox.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	ready := s.Ready()
	if *asJSON {
		err = ready.WriteLine(os.Stdout)
	} else {
		err = text(ready)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}

func text(r sandbox.Ready) error {
	_, err := fmt.Printf("sandbox organisation at %s\nadmin token %s\n", r.URL, r.AdminToken)
	for _, u := range r.Users {
		fmt.Printf("  %s / %s (%s)\n", u.Login, u.Password, u.Organisation)
	}
	for _, c := range r.Clients {
		fmt.Printf("  client %s %s\n", c.ID, c.Secret)
	}
	return err
}
