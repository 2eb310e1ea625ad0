package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/webhooks"
)

type serveFlags struct {
	listen, url     string
	metrics         string
	cert, key       string
	oidc            oidcFlags
	mcp             mcpFlags
	confine         confineFlags
	shutdownSeconds int
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve pages and MCP, and keep operations and tokens going", Args: exactly(),
		Example: `  drawbridge serve
  drawbridge serve --listen :8443 --url https://bridge.example.org --tls-cert cert.pem --tls-key key.pem \
    --oidc-issuer https://id.example.org --oidc-client-id drawbridge --oidc-tenant acme`,
		Long: `Serves the pages on which people connect accounts and decide approvals, the tools behind
MCP at /mcp, and does the periodic work: looking unknown writes up, letting approvals
expire, revoking tokens.

Without --oidc-issuer there is one person, the one of --as, who signs in with the link
that is printed here and works once. Several processes may serve one database.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), f) },
	}
	s := cmd.Flags()
	s.StringVar(&f.listen, "listen", "127.0.0.1:7433", "address to listen on")
	s.StringVar(&f.url, "url", "", "how browsers and clients reach this server; needed unless it listens on a loopback address")
	s.StringVar(&f.metrics, "metrics-listen", "", "address for /metrics in Prometheus' format, without a sign-in: for operators alone")
	s.StringVar(&f.cert, "tls-cert", "", "PEM file of the certificate chain")
	s.StringVar(&f.key, "tls-key", "", "PEM file of its key")
	s.IntVar(&f.shutdownSeconds, "grace", 30, "seconds that requests under way have when the server stops")
	f.oidc.add(cmd)
	f.mcp.add(cmd)
	f.confine.add(cmd)
	return cmd
}

func (a *app) serve(ctx context.Context, f serveFlags) error {
	a.cleanEnvironment()
	if (f.cert == "") != (f.key == "") {
		return usagef("--tls-cert and --tls-key belong together")
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	base, err := baseURL(f, listener.Addr())
	if err != nil {
		return err
	}
	a.logger = slog.New(slog.NewTextHandler(a.err, nil))
	measured, err := a.openMetrics(f.metrics)
	if err != nil {
		return err
	}
	defer measured.close()
	return a.with(ctx, func(h *host.Host, caller connector.Caller) error {
		if err := measured.serve(h); err != nil {
			return err
		}
		defer measured.close() // before the host, which it reads
		pages, err := a.pages(h, caller, base, f.oidc)
		if err != nil {
			return err
		}
		if err := a.confine(h, f.confine, []string{f.cert, f.key}, f.oidc.issuer, f.mcp.issuer); err != nil {
			return err
		}
		if err := a.warnOfRole(ctx, h.DB); err != nil {
			return err
		}
		if err := a.greet(ctx, pages, base, f); err != nil {
			return err
		}
		background, stop := context.WithCancel(ctx)
		ticking := make(chan struct{})
		go func() { h.Run(background, 5*time.Second); close(ticking) }()
		defer func() { stop(); <-ticking }()
		mux := routes(h)
		if len(h.Providers()) > 0 {
			server, err := a.mcpServer(h, pageLinks{pages})
			if err != nil {
				return err
			}
			door, err := a.mcpDoor(ctx, server, caller, base, f.mcp)
			if err != nil {
				return err
			}
			mount(mux, door, server)
			defer context.AfterFunc(ctx, server.EndSubscriptions)()
		}
		mux.Handle(webhooks.PathPrefix, h.Webhooks.Handler())
		mux.Handle("/", pages.Handler())
		return serveUntil(ctx, f, listener, mux)
	})
}

// routes is what tells about the process.
func routes(h *host.Host) *http.ServeMux {
	mux := http.NewServeMux()
	// Alive says that the process answers, ready that it can run calls.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plainText(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if h.Ready(ctx) != nil {
			plainText(w, http.StatusServiceUnavailable, "the database does not answer")
			return
		}
		plainText(w, http.StatusOK, "ready")
	})
	return mux
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// serveUntil serves until the context ends, then lets requests under way finish.
func serveUntil(ctx context.Context, f serveFlags, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		// It would print bytes of whoever connects.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	failed := make(chan error, 1)
	go func() {
		if f.cert != "" {
			failed <- server.ServeTLS(listener, f.cert, f.key)
		} else {
			failed <- server.Serve(listener)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(f.shutdownSeconds)*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off when the server stopped: %w", err), server.Close())
	}
	return nil
}

// baseURL is how browsers reach us: said by the operator, or the listener's own
// loopback address.
func baseURL(f serveFlags, addr net.Addr) (string, error) {
	if f.url != "" {
		return f.url, nil
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil || !at.Addr().IsLoopback() {
		return "", usagef("%s is open to others: say with --url how they reach it", f.listen)
	}
	scheme := "http"
	if f.cert != "" {
		scheme = "https"
	}
	return scheme + "://" + at.String(), nil
}
