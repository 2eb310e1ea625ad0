package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/console"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/store"
)

func (a *app) backupCommand() *cobra.Command {
	var keysTo string
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the database and the settings into one file, beside a running server", Args: exactly("FILE"),
		Example: "  drawbridge backup monday.tar --keys-to keys.tar",
		Long: `The copy is of one moment. Tokens and stored writes stay sealed in it; the keys are in
the file of --keys-to, which has to be kept elsewhere: whoever has both has every token.
PostgreSQL is copied by its own tools (pg_dump); keep the data folder's keys beside that.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.HasPrefix(a.database, "postgres") {
				return usagef("PostgreSQL is copied by its own tools: pg_dump, then pg_restore, then drawbridge restore --database URL")
			}
			return a.with(cmd.Context(), func(h *host.Host, _ connector.Caller) error {
				kinds := []backupKind{{"data", args[0], h.Backup}}
				if keysTo != "" {
					kinds = append(kinds, backupKind{"keys", keysTo, h.BackupKeys})
				}
				written := map[string]host.Backup{}
				for _, k := range kinds {
					b, err := writeNew(k.path, func(w io.Writer) (host.Backup, error) { return k.write(cmd.Context(), w) })
					if err != nil {
						return err
					}
					written[k.name] = b
					if !a.json {
						for _, f := range b.Files {
							fmt.Fprintf(a.out, "%-16s %10d bytes in %s\n", f.Name, f.Size, k.path)
						}
					}
				}
				if a.json {
					a.printJSON(written)
				} else if keysTo == "" {
					fmt.Fprintf(a.err, "the keys that open it are not in it; write them with --keys-to\n")
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&keysTo, "keys-to", "", "file for the keys that open the backup")
	return cmd
}

type backupKind struct {
	name, path string
	write      func(context.Context, io.Writer) (host.Backup, error)
}

// writeNew writes a file that was not there, for the owner only, or none at all.
func writeNew[T any](path string, write func(io.Writer) (T, error)) (out T, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return out, err
	}
	out, err = write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
	}
	return out, err
}

func (a *app) restoreCommand() *cobra.Command {
	var keysFrom string
	cmd := &cobra.Command{
		Use: "restore [FILE]", Short: "Fill an empty data folder from a backup", Args: cobra.ArbitraryArgs,
		Example: "  drawbridge restore monday.tar --keys-from keys.tar --data /srv/drawbridge\n  drawbridge restore --database postgres://...    # after pg_restore",
		Long: `Stop every server first. What happened after the backup is not in it: writes that may
have been sent since are looked up and never sent again, connections are swept, and a
connection whose token was renewed since has to be made again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.database != "" {
				if len(args) > 0 {
					return usagef("a file is for SQLite; PostgreSQL is restored by its own tools")
				}
				ring, err := a.ring()
				if err != nil {
					return err
				}
				unknown, err := host.RestoredDatabase(cmd.Context(), host.Config{Data: a.data, Database: a.database, Keys: ring, Policy: host.Local{}, Consent: host.Local{},
					Migrations: []store.Migrations{console.Migrations(), mcpexpose.Migrations()}})
				return a.restored(host.Restored{Unknown: unknown}, err)
			}
			if len(args) != 1 || keysFrom == "" {
				return usagef("restore takes a FILE and the keys that open it, --keys-from FILE")
			}
			backup, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer backup.Close()
			keys, err := os.Open(keysFrom)
			if err != nil {
				return err
			}
			defer keys.Close()
			return a.restored(host.Restore(cmd.Context(), a.data, backup, keys))
		},
	}
	cmd.Flags().StringVar(&keysFrom, "keys-from", "", "the file that backup --keys-to wrote")
	return cmd
}

func (a *app) restored(r host.Restored, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(r)
		return nil
	}
	fmt.Fprintf(a.out, "restored; %d writes may have been sent since the backup, and are looked up\n", r.Unknown)
	if r.Unknown > 0 {
		fmt.Fprintf(a.out, "  watch them: drawbridge operations%s\n", a.flags())
	}
	return nil
}
