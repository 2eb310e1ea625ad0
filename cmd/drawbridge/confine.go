package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/confine"
	"github.com/drawbridge-dev/drawbridge/host"
)

// confineFlags say how far a process that serves is held by the kernel.
type confineFlags struct {
	mode  string
	ports []uint
}

func (f *confineFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.mode, "confine", "auto", "auto: held by the kernel as far as it can; require: not started where it can't; off")
	s.UintSliceVar(&f.ports, "connect-port", nil, "a further TCP port that may be dialled, for identity providers with endpoints on other ports")
}

// confine takes from the process what serving does not need. It comes after everything
// was opened and before the first request. Only a process of our own is confined: it
// can't be undone.
func (a *app) confine(h *host.Host, f confineFlags, files []string, urls ...string) error {
	switch {
	case f.mode != "auto" && f.mode != "require" && f.mode != "off":
		return usagef("--confine is auto, require or off")
	case f.mode == "off" || !a.process:
		return nil
	}
	rules := confine.Rules{Read: slices.Concat(confine.System, files), Write: []string{a.data}, Connect: h.Ports()}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v := os.Getenv(name); v != "" {
			rules.Read = append(rules.Read, filepath.SplitList(v)...)
		}
	}
	if path := strings.TrimPrefix(a.database, "sqlite:"); path != "" && !strings.Contains(path, "://") {
		rules.Write = append(rules.Write, filepath.Dir(path))
	}
	source, err := a.keySource(a.keys)
	if err != nil {
		return err
	}
	if source.file != "" && filepath.Dir(source.file) != filepath.Clean(a.data) {
		rules.Write = append(rules.Write, filepath.Dir(source.file)) // the ring is replaced and locked beside its file
	}
	if token := os.Getenv(vaultTokenFileVariable); source.vault != "" && token != "" {
		rules.Read = append(rules.Read, filepath.Dir(token)) // an agent replaces the file
	}
	for _, p := range f.ports {
		if p == 0 || p > 65535 {
			return usagef("%d is not a TCP port", p)
		}
		rules.Connect = append(rules.Connect, uint16(p))
	}
	for _, raw := range append(urls, a.database, source.vault) {
		if port, ok := portOf(raw); ok {
			rules.Connect = append(rules.Connect, port)
		}
	}
	held, err := confine.Apply(rules)
	if err != nil {
		return err
	}
	if f.mode == "require" && !(held.Files && held.Ports) {
		return fmt.Errorf("this kernel can't confine the process (files %t, ports %t); it takes Linux 6.7 with Landlock, or --confine auto", held.Files, held.Ports)
	}
	slices.Sort(rules.Connect)
	a.logger.Info("confined", "files", held.Files, "ports", held.Ports, "connect", slices.Compact(rules.Connect))
	return nil
}

// portOf is the port that a URL is dialled at.
func portOf(raw string) (uint16, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return 0, false
	}
	text := u.Port()
	if text == "" {
		text = map[string]string{"https": "443", "http": "80", "postgres": "5432", "postgresql": "5432"}[u.Scheme]
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil
}

// environment are the variables that a process that serves may see, beside our own
// (DRAWBRIDGE_...), PostgreSQL's (PG...) and OpenTelemetry's (OTEL_...). The rest is
// taken away: a proxy or a credential of somebody's shell is no setting of ours.
var environment = []string{"HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR", "TZ", "LANG", "TERM", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// cleanEnvironment is for a process of our own, before it opens anything. The variable
// that --keys names stays.
func (a *app) cleanEnvironment() {
	if !a.process {
		return
	}
	ring, _ := strings.CutPrefix(a.keys, "env:")
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		known := slices.Contains(environment, name) || name == ring
		for _, prefix := range []string{"DRAWBRIDGE_", "PG", "OTEL_"} {
			known = known || strings.HasPrefix(name, prefix)
		}
		if !known {
			os.Unsetenv(name)
		}
	}
}
