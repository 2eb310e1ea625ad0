package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector/transport/profiles"
	"github.com/drawbridge-dev/drawbridge/host"
)

// endpointProfiles are all that requests may run under here: the file's, and
// those that are made from a provider's URL.
func (a *app) endpointProfiles() (profiles.File, error) {
	file, err := host.Profiles(a.data)
	if err != nil {
		return file, err
	}
	instances, err := host.Instances(a.data)
	if err != nil {
		return file, err
	}
	for _, i := range instances {
		if i.Profile != "" {
			continue
		}
		p, err := i.ProfileOf(nil)
		if err != nil {
			return file, err
		}
		file.Profiles = append(file.Profiles, p)
	}
	return file, nil
}

func (a *app) profilesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "profiles", Short: "See where requests may go, and check the profile file", Args: exactly(),
		Example: "  drawbridge profiles\n  drawbridge profiles check",
	}
	list := &cobra.Command{
		Use: "list", Short: "List the endpoint profiles with what they allow", Args: exactly(), Example: "  drawbridge profiles list",
		RunE: func(*cobra.Command, []string) error {
			file, err := a.endpointProfiles()
			if err != nil {
				return err
			}
			var described []profiles.Description
			for _, p := range file.Profiles {
				d := profiles.Describe(p)
				described = append(described, d)
				if a.json {
					a.printJSON(d)
				}
			}
			switch {
			case a.json:
				return nil
			case len(described) == 0:
				fmt.Fprintf(a.out, "no endpoint profile: nothing may be reached\nnext: drawbridge connect --help, or write %s (docs/profiles.md)\n", host.ProfilesFile(a.data))
				return nil
			}
			return profiles.WriteText(a.out, described)
		},
	}
	check := &cobra.Command{
		Use: "check [FILE]", Short: "Check a profile file; every fault with its line", Args: cobra.MaximumNArgs(1),
		Example: "  drawbridge profiles check profiles.json",
		RunE: func(_ *cobra.Command, args []string) error {
			file := host.ProfilesFile(a.data)
			if len(args) == 1 {
				file = args[0]
			}
			read, err := profiles.Load(file)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"file": file, "profiles": len(read.Profiles), "valid": true})
			} else {
				fmt.Fprintf(a.out, "%s: %d profiles, all valid\n", file, len(read.Profiles))
			}
			return nil
		},
	}
	cmd.RunE = list.RunE
	cmd.AddCommand(list, check)
	return cmd
}
