package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector/surface"
)

func (a *app) surfaceCommand() *cobra.Command {
	var constructor string
	cmd := &cobra.Command{
		Use: "surface", Short: "Keep what a connector promised, and see what a change of it means", Args: exactly(),
		Example: "  drawbridge surface check\n  drawbridge surface write\n  drawbridge surface diff old.lock.json new.lock.json",
		Long: `A connector's surface is what others rely on: its tools, schemas, scopes, risk classes and
output policy. It is kept in ` + surface.FileName + ` beside the code.

check compares the code with the lock file and fails if they differ, for CI. write takes the
code's surface over, and refuses when the version does not say what changed. diff compares two
lock files: breaking, needs new consent, compatible.

The code is read the way drawbridge lint reads it.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	check := &cobra.Command{
		Use: "check [DIR]", Short: "Compare a connector's code with its lock file", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge surface check",
		RunE: func(cmd *cobra.Command, args []string) error {
			is, err := a.surfaceFromCode(cmd, folder(args), constructor)
			if err != nil || a.code != 0 {
				return err
			}
			file := filepath.Join(folder(args), surface.FileName)
			was, err := readLock(file)
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no lock file\nnext: drawbridge surface write %s", folder(args))
			}
			if err != nil {
				return err
			}
			if lockText(was) == lockText(is) {
				a.showDiff(nil)
				return nil
			}
			a.code = 1
			a.showDiff(surface.Diff(was, is))
			fmt.Fprintf(a.err, "the code is not what the lock file says\nnext: drawbridge surface write %s\n", folder(args))
			return nil
		},
	}
	write := &cobra.Command{
		Use: "write [DIR]", Short: "Write a connector's lock file", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge surface write",
		RunE: func(cmd *cobra.Command, args []string) error {
			is, err := a.surfaceFromCode(cmd, folder(args), constructor)
			if err != nil || a.code != 0 {
				return err
			}
			file := filepath.Join(folder(args), surface.FileName)
			switch was, err := readLock(file); {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return err
			default:
				if err := surface.Check(was, is); err != nil {
					return err
				}
			}
			if err := os.WriteFile(file, []byte(lockText(is)), 0o644); err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"file": file, "version": is.Manifest.Version})
			} else {
				fmt.Fprintf(a.out, "%s: %s %s\n", file, is.Manifest.ID, is.Manifest.Version)
			}
			return nil
		},
	}
	diff := &cobra.Command{
		Use: "diff OLD NEW", Short: "Compare two lock files; fails when the version does not say what changed", Args: exactly("OLD", "NEW"),
		Example: "  drawbridge surface diff v1.lock.json connector.lock.json",
		RunE: func(_ *cobra.Command, args []string) error {
			was, err := readLock(args[0])
			if err != nil {
				return err
			}
			is, err := readLock(args[1])
			if err != nil {
				return err
			}
			a.showDiff(surface.Diff(was, is))
			if err := surface.Check(was, is); err != nil {
				a.code = 1
				fmt.Fprintf(a.err, "%v\n", err)
			}
			return nil
		},
	}
	for _, c := range []*cobra.Command{check, write} {
		c.Flags().StringVar(&constructor, "func", "", "name of the constructor, if there are several")
	}
	cmd.AddCommand(check, write, diff)
	return cmd
}

// surfaceFromCode is the surface of a connector that could be mounted; one that
// can't be has none worth keeping, and the exit code says so.
func (a *app) surfaceFromCode(cmd *cobra.Command, dir, constructor string) (surface.Surface, error) {
	loaded, err := loadConnector(cmd.Context(), dir, constructor)
	if err != nil {
		return surface.Surface{}, err
	}
	if len(loaded.Faults) > 0 {
		if a.json {
			a.printJSON(map[string]any{"connector": loaded.Name, "faults": loaded.Faults, "valid": false})
		}
		return surface.Surface{}, a.complain(loaded)
	}
	return surface.Read(bytes.NewReader(loaded.Surface))
}

func readLock(file string) (surface.Surface, error) {
	f, err := os.Open(file)
	if err != nil {
		return surface.Surface{}, err
	}
	defer f.Close()
	s, err := surface.Read(f)
	if err != nil {
		return s, fmt.Errorf("%s:\n%w", file, err)
	}
	return s, nil
}

func lockText(s surface.Surface) string {
	var b bytes.Buffer
	_ = surface.Write(&b, s) // it was read from JSON, and buffers take everything
	return b.String()
}

func (a *app) showDiff(lines []surface.Line) {
	if a.json {
		for _, l := range lines {
			a.printJSON(l)
		}
		return
	}
	if len(lines) == 0 {
		fmt.Fprintln(a.out, "nothing changed")
		return
	}
	rows := [][]string{{"WHAT", "STEP", "WHERE", "WHY"}}
	for _, l := range lines {
		rows = append(rows, []string{l.Kind.String(), l.Step.String(), quoted(l.Subject, 80), quoted(l.Reason, 160)})
	}
	table(a.out, rows)
}
