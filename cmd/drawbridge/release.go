package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/surface"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/docs"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// A release says what a binary is, from what the binary itself knows.
type release struct {
	Release    int               `json:"release"` // of this form: 1
	Version    string            `json:"version"`
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	MCP        releaseMCP        `json:"mcp"`
	Databases  []string          `json:"databases"`
	Webhooks   []string          `json:"webhook_schemes"`
	Connectors []surface.Surface `json:"connectors"`
	Guarantees []docs.Guarantee  `json:"guarantees"`
	// Evidence are runs of the contract kit. Empty: nothing was measured for this
	// binary.
	Evidence []kit.Report `json:"evidence"`
}

type releaseMCP struct {
	Versions   []string `json:"protocol_versions"` // newest first
	Transports []string `json:"transports"`
}

func (a *app) releaseCommand() *cobra.Command {
	var evidence string
	cmd := &cobra.Command{
		Use: "release", Short: "Say what this binary is: version, protocols, connectors, limits, evidence", Args: exactly(),
		Example: "  drawbridge release\n  drawbridge contract --provider sandbox --report evidence && drawbridge release --evidence evidence --json > drawbridge.release.json",
		Long: `Everything but the evidence is read from the binary itself. The evidence are the
contract-report.json files below a folder, as drawbridge contract --report leaves them;
without them the release says that nothing was measured.`,
		RunE: func(*cobra.Command, []string) error {
			r := newRelease()
			if evidence != "" {
				if err := r.collect(evidence); err != nil {
					return err
				}
			}
			if a.json {
				a.printJSON(r)
				return nil
			}
			a.showRelease(r)
			return nil
		},
	}
	cmd.Flags().StringVar(&evidence, "evidence", "", "folder with reports of the contract kit")
	return cmd
}

func newRelease() release {
	r := release{Release: 1, Version: buildVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		MCP: releaseMCP{edge.Versions(), []string{"stdio", "streamable http"}}, Databases: []string{"sqlite", "postgresql"},
		Webhooks: signature.Names(), Guarantees: docs.Guarantees(), Evidence: []kit.Report{}}
	for _, c := range []connector.Connector{tickets.New(sandboxorg.Driver{}), tickets.New(gitea.Driver{})} {
		r.Connectors = append(r.Connectors, surface.Of(c))
	}
	return r
}

// collect reads every report below a folder. One of another connector's version is
// refused: it would be evidence for something else.
func (r *release) collect(folder string) error {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "contract-report.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var report kit.Report
		if err := json.Unmarshal(raw, &report); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !slices.ContainsFunc(r.Connectors, func(s surface.Surface) bool {
			return s.Manifest.ID == report.Connector && s.Manifest.Version == report.Version
		}) {
			return fmt.Errorf("%s is about %s %s, which is not in this binary", path, report.Connector, report.Version)
		}
		r.Evidence = append(r.Evidence, report)
		return nil
	})
	if err == nil && len(r.Evidence) == 0 {
		err = errors.New("there is no contract-report.json below " + folder)
	}
	return err
}

func (a *app) showRelease(r release) {
	fmt.Fprintf(a.out, "drawbridge %s (%s, %s)\n\n", r.Version, r.Go, r.Platform)
	fmt.Fprintf(a.out, "MCP         %s over %s\n", strings.Join(r.MCP.Versions, ", "), strings.Join(r.MCP.Transports, " and "))
	fmt.Fprintf(a.out, "databases   %s\n", strings.Join(r.Databases, ", "))
	fmt.Fprintf(a.out, "webhooks    %s\n", strings.Join(r.Webhooks, ", "))
	for _, s := range r.Connectors {
		m := s.Manifest
		fmt.Fprintf(a.out, "\n%s %s for %s (%s), signs in by %s\n", m.ID, m.Version, m.Provider, m.ProviderVersion, m.Auth.Kind)
		for _, c := range m.Capabilities {
			fmt.Fprintf(a.out, "  %-16s %s\n", c.Name, c.Effect)
		}
		for _, l := range m.Limitations {
			fmt.Fprintf(a.out, "  limit: %s\n", l)
		}
	}
	fmt.Fprintf(a.out, "\n%d guarantees; not covered by their tests:\n", len(r.Guarantees))
	for _, g := range r.Guarantees {
		if g.NotCovered != "" {
			fmt.Fprintf(a.out, "  %-6s %s\n", g.ID, g.NotCovered)
		}
	}
	fmt.Fprintln(a.out, "\nevidence:")
	for _, e := range r.Evidence {
		fmt.Fprintf(a.out, "  %s\n", e)
	}
	if len(r.Evidence) == 0 {
		fmt.Fprintln(a.out, "  nothing was measured for this binary")
	}
}
