package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

func (a *app) connectionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "connections", Short: "See and cut connected accounts", Args: exactly(),
		Example: `  drawbridge connections
  drawbridge connections disconnect con_5t7w`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				views, err := h.Credentials.List(cmd.Context(), caller)
				if err != nil {
					return err
				}
				if a.json {
					for _, v := range views {
						a.printJSON(viewJSON(v))
					}
					return nil
				}
				if len(views) == 0 {
					fmt.Fprintf(a.out, "no account is connected for %s\nnext: drawbridge connect --provider sandbox --url URL%s\n", a.as, a.flags())
					return nil
				}
				rows := [][]string{{"ID", "PROVIDER", "ACCOUNT", "STATUS", "CONNECTED", "LAST USED", "PROJECTS"}}
				for _, v := range views {
					c := v.Connection
					status := string(v.Status)
					if v.Reason != "" {
						status += " (" + string(v.Reason) + ")"
					}
					rows = append(rows, []string{string(c.ID), c.Provider, quoted(c.Account.Login+" at "+c.Account.Organisation, 40),
						status, ago(v.CreatedAt), lastUse(v), quoted(strings.Join(c.Resources, ", "), 40)})
				}
				table(a.out, rows)
				return nil
			})
		},
	}
	show := &cobra.Command{
		Use: "show ID", Short: "Show one connection", Args: exactly("ID"), Example: "  drawbridge connections show con_5t7w",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				v, err := h.Credentials.Show(cmd.Context(), caller, connector.ConnectionID(args[0]))
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(viewJSON(v))
				} else {
					a.showConnection(v)
				}
				return nil
			})
		},
	}
	var yes bool
	disconnect := &cobra.Command{
		Use: "disconnect ID", Short: "Stop a connection and revoke its tokens at the provider", Args: exactly("ID"),
		Example: "  drawbridge connections disconnect con_5t7w",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
				if !yes && !a.confirm("This stops "+args[0]+" at once, kills its cursors and approvals, and revokes its tokens at the provider.", "disconnect") {
					return usagef("not disconnected")
				}
				steps, err := h.Credentials.Disconnect(cmd.Context(), caller, connector.ConnectionID(args[0]), "asked for by "+a.as)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(stepsJSON(steps))
				} else {
					a.showSteps(steps)
				}
				return nil
			})
		},
	}
	disconnect.Flags().BoolVar(&yes, "yes", false, "do not ask again")
	show.ValidArgsFunction, disconnect.ValidArgsFunction = a.completeConnections, a.completeConnections
	cmd.AddCommand(show, disconnect)
	return cmd
}

// lastUse is known to within an hour.
func lastUse(v credentials.View) string {
	if v.LastUsedAt.IsZero() {
		return "never"
	}
	return ago(v.LastUsedAt)
}

func (a *app) showConnection(v credentials.View) {
	c := v.Connection
	expires := "unknown"
	if !v.AccessExpiresAt.IsZero() {
		expires = ago(v.AccessExpiresAt)
	}
	table(a.out, [][]string{
		{"id", string(c.ID)}, {"provider", c.Provider}, {"account", quoted(c.Account.Login, 60) + " (" + quoted(c.Account.Subject, 60) + ")"},
		{"organisation", quoted(c.Account.Organisation, 60)}, {"status", strings.TrimSpace(string(v.Status) + " " + string(v.Reason))},
		{"scopes", strings.Join(c.Scopes, " ")}, {"projects", quoted(strings.Join(c.Resources, ", "), 400)},
		{"connected", ago(v.CreatedAt)}, {"last used", lastUse(v)}, {"changed", ago(v.UpdatedAt)}, {"token expires", expires + map[bool]string{true: ", renewed by itself"}[v.Renewable]},
	})
	for _, n := range c.Notes {
		fmt.Fprintf(a.out, "note: %s\n", n)
	}
	if !v.Status.Usable() {
		a.showSteps(v.Revocation)
		fmt.Fprintf(a.out, "next: drawbridge connect --provider %s%s\n", c.Provider, a.flags())
	}
}

func (a *app) showSteps(s credentials.Steps) {
	rows := [][]string{}
	for _, step := range []struct {
		name string
		step credentials.Step
	}{{"stopped here", s.Stopped}, {"refresh token revoked", s.RefreshToken}, {"access token revoked", s.AccessToken}} {
		if step.step.State != "" {
			rows = append(rows, []string{step.name, string(step.step.State), step.step.Code})
		}
	}
	table(a.out, append(rows, []string{"revoked at the provider", s.RevokedAtProvider, ""}))
}

func (a *app) completeConnections(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	_ = a.with(cmd.Context(), func(h *host.Host, caller connector.Caller) error {
		views, err := h.Credentials.List(cmd.Context(), caller)
		for _, v := range views {
			ids = append(ids, string(v.Connection.ID)+"\t"+v.Connection.Provider+" "+quoted(v.Connection.Account.Login, 30))
		}
		return err
	})
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// The stable JSON of connections: a reference and facts, nothing that could be
// used to call anything.

func connectionJSON(c connector.Connection) map[string]any {
	return map[string]any{
		"connection_id": c.ID, "tenant": c.Tenant, "principal": c.Principal, "provider": c.Provider, "account": c.Account,
		"scopes": orEmpty(c.Scopes), "projects": orEmpty(c.Resources), "authorization_version": c.AuthzVersion, "notes": orEmpty(c.Notes),
	}
}

func viewJSON(v credentials.View) map[string]any {
	m := connectionJSON(v.Connection)
	m["status"], m["reason"], m["created_at"], m["updated_at"] = v.Status, v.Reason, v.CreatedAt, v.UpdatedAt
	if !v.LastUsedAt.IsZero() {
		m["last_used_at"] = v.LastUsedAt
	}
	if !v.AccessExpiresAt.IsZero() {
		m["access_expires_at"] = v.AccessExpiresAt
	}
	if !v.Status.Usable() {
		m["disconnect"] = stepsJSON(v.Revocation)
	}
	return m
}

func stepsJSON(s credentials.Steps) map[string]any {
	step := func(st credentials.Step) map[string]any {
		m := map[string]any{"state": st.State}
		if st.Code != "" {
			m["code"] = st.Code
		}
		if !st.At.IsZero() {
			m["at"] = st.At.UTC().Format(time.RFC3339Nano)
		}
		return m
	}
	return map[string]any{"stopped": step(s.Stopped), "refresh_token": step(s.RefreshToken), "access_token": step(s.AccessToken),
		"revoked_at_provider": s.RevokedAtProvider}
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
