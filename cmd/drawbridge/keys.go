package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "keys", Short: "Turn over the keys that seal tokens and stored writes", Args: exactly(),
		Example: "  drawbridge keys\n  drawbridge keys add && drawbridge keys promote ID && drawbridge keys rewrap",
		Long: `Turning a key over needs no downtime: add a key, promote it once every process has
seen it (they re-read the file), rewrap what the old key sealed, and rewrap again a
little later until it seals nothing; then disable the old key, and destroy it when no
backup needs it any more.

The ring comes from where --keys or DRAWBRIDGE_KEYS says:
  file:PATH                     a file for its owner only; keys.json in the data folder when left out
  env:NAME                      the text in an environment variable, such as env:DRAWBRIDGE_KEYRING;
                                a command that changes the ring prints its new text
  vault:https://HOST/MOUNT/KEY  keys.wrapped in the data folder, wrapped by the transit engine of
                                HashiCorp Vault; token in DRAWBRIDGE_VAULT_TOKEN_FILE or
                                DRAWBRIDGE_VAULT_TOKEN, namespace in DRAWBRIDGE_VAULT_NAMESPACE`,
		RunE: a.listKeys,
	}
	list := &cobra.Command{Use: "list", Short: "List the keys and how much each one seals", Args: exactly(), Example: "  drawbridge keys list", RunE: a.listKeys}
	add := &cobra.Command{Use: "add", Short: "Make a key that does not seal yet", Args: exactly(), Example: "  drawbridge keys add",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				if _, err := h.Keys.Add(); err != nil {
					return err
				}
				return a.changedKeys(cmd.Context(), h)
			}); err != nil {
				return err
			}
			return nil
		}}
	rewrap := &cobra.Command{Use: "rewrap", Short: "Seal everything with the primary key, beside running calls", Args: exactly(), Example: "  drawbridge keys rewrap",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				n, err := h.Rewrap(cmd.Context())
				fmt.Fprintf(a.err, "%d records sealed anew\n", n)
				return err
			}); err != nil {
				return err
			}
			return a.listKeys(cmd, args)
		}}
	generate := &cobra.Command{Use: "generate", Short: "Print a new ring for an environment secret", Args: exactly(), Example: "  drawbridge keys generate > keyring.secret",
		RunE: func(*cobra.Command, []string) error {
			text, err := keys.Generate()
			if err == nil {
				fmt.Fprintln(a.out, text)
			}
			return err
		}}
	move := &cobra.Command{Use: "move TO", Short: "Copy the ring to where another --keys setting says", Args: exactly("TO"),
		Example: "  drawbridge keys move vault:https://vault.example.org/transit/drawbridge",
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := a.ring()
			if err != nil {
				return err
			}
			return a.moveKeys(r, args[0])
		}}
	cmd.AddCommand(list, add, rewrap, generate, move,
		a.keyCommand("promote", "Seal with this key from now on", func(_ context.Context, h *host.Host, id uint32) error { return h.Keys.Promote(id) }),
		a.keyCommand("disable", "Stop opening with this key", func(_ context.Context, h *host.Host, id uint32) error { return h.Keys.Disable(id) }),
		a.keyCommand("enable", "Open with this key again", func(_ context.Context, h *host.Host, id uint32) error { return h.Keys.Enable(id) }))
	var yes bool
	destroy := a.keyCommand("destroy", "Destroy a disabled key that seals nothing any more", func(ctx context.Context, h *host.Host, id uint32) error {
		if !yes && !a.confirm(fmt.Sprintf("Key %d will be gone for ever, and with it what backups sealed with it.", id), "destroy") {
			return usagef("not destroyed")
		}
		return h.DestroyKey(ctx, id)
	})
	destroy.Flags().BoolVar(&yes, "yes", false, "do not ask again")
	cmd.AddCommand(destroy)
	return cmd
}

// keyCommand is a command on one key that ends with the list.
func (a *app) keyCommand(verb, short string, do func(context.Context, *host.Host, uint32) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Args: exactly("ID"), Example: "  drawbridge keys " + verb + " 123456",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return usagef("a key id is a number; drawbridge keys lists them")
			}
			if err := a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				if err := do(cmd.Context(), h, uint32(id)); err != nil {
					return err
				}
				return a.changedKeys(cmd.Context(), h)
			}); err != nil {
				return err
			}
			return nil
		},
	}
}

// changedKeys shows the ring after a change. One that came from the environment is
// kept by nobody but the caller.
func (a *app) changedKeys(ctx context.Context, h *host.Host) error {
	if s, err := a.keySource(a.keys); err != nil || s.variable != "" {
		return errors.Join(err, a.exportKeys(h.Keys, s.variable))
	}
	return a.showKeys(ctx, h)
}

func (a *app) listKeys(cmd *cobra.Command, _ []string) error {
	return a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error { return a.showKeys(cmd.Context(), h) })
}

func (a *app) showKeys(ctx context.Context, h *host.Host) error {
	used, err := h.SealedBy(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{"KEY", "STATUS", "PRIMARY", "SEALS"}}
	for _, k := range h.Keys.Keys() {
		if a.json {
			a.printJSON(struct {
				keys.KeyInfo
				Seals int `json:"seals"`
			}{k, used[k.ID]})
		}
		rows = append(rows, []string{fmt.Sprint(k.ID), fmt.Sprint(k.Status), map[bool]string{true: "yes", false: "-"}[k.Primary], fmt.Sprint(used[k.ID])})
	}
	if !a.json {
		table(a.out, rows)
	}
	return nil
}
