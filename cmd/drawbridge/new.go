package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector/surface"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

//go:embed templates/new
var newTemplates embed.FS

const housePath = "github.com/drawbridge-dev/drawbridge"

// authKinds are the ways of connecting, by the name that a person types.
var authKinds = map[string]string{
	"oauth":              "connector.AuthOAuth2Code",
	"key":                `"static"`,
	"client-credentials": `"client_credentials"`,
}

// signIns are the same ways as credentials calls them.
var signIns = map[string]string{
	"oauth":              "credentials.KindAuthorizationCode",
	"key":                "credentials.KindStatic",
	"client-credentials": "credentials.KindClientCredentials",
}

// skeleton is what the templates of a new connector are filled with.
type skeleton struct {
	Name, Owner, Auth string
	Kind              string // Auth as credentials has it
	Module            string // empty: a package of the module that is there
	Go                string
	House             string
	HouseVersion      string
	Replace           string
	Lock              string
	OpenAPI           string
	API               *apiSkeleton // of --provider-openapi
}

type newFlags struct {
	auth, dir, module, replace, openapi, account, owner string
	operations                                          []string
}

func (a *app) newCommand() *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write the skeleton of a connector that builds, lints and passes its tests", Args: exactly("NAME"),
		Example: `  drawbridge new alerts
  drawbridge new alerts --auth key --dir ./connectors/alerts
  drawbridge new alerts --provider-openapi api.json --account "GET /me" --operation "GET /alerts/{id}" --operation "POST /alerts"`,
		Long: `Writes one connector file, its test against the whole contract, a provider for that to play with,
fixed inputs and outputs, a README and a lock file into a new folder. Inside a
Go module they become a package of it; elsewhere a module of their own, with a go.mod that needs a
released Drawbridge, or with --replace a checkout of it.

With --provider-openapi the operations are made from an OpenAPI 3 description in JSON: one for each
--operation. GET becomes a read, POST a write. What can't be carried over exactly is refused with the
reason, and nothing is written.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, dir, err := f.skeleton(args[0])
			if err != nil {
				return err
			}
			if err := s.write(dir); err != nil {
				return err
			}
			faults, err := lockNew(cmd.Context(), dir)
			needsModules := err != nil && s.Replace == ""
			if needsModules {
				// Without its modules, which only the network has, it can't be built yet.
				fmt.Fprintf(a.err, "there is no lock file yet: %v\n", err)
				err = nil
			}
			if a.json {
				a.printJSON(map[string]any{"dir": dir, "module": s.Module, "faults": faults, "locked": err == nil && !needsModules && len(faults) == 0})
			} else {
				fmt.Fprintf(a.out, "%s: a connector with its test\n\nnext:\n  cd %s\n", dir, dir)
				if needsModules {
					fmt.Fprintf(a.out, "  go mod tidy\n  drawbridge surface write\n  %s=1 go test\n", kit.UpdateVariable)
				}
				fmt.Fprintln(a.out, "  go test ./...")
			}
			if len(faults) > 0 {
				a.code = 1
				fmt.Fprintf(a.err, "the connector can't be mounted yet:\n  %s\n", strings.Join(faults, "\n  "))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&f.auth, "auth", "oauth", "how accounts are connected: oauth, key or client-credentials")
	cmd.Flags().StringVar(&f.dir, "dir", "", "the new folder (default ./NAME)")
	cmd.Flags().StringVar(&f.module, "module", "", "path of the new module (default example.com/NAME)")
	cmd.Flags().StringVar(&f.owner, "owner", "your team", "who answers for the connector")
	cmd.Flags().StringVar(&f.replace, "replace", "", "a checkout of Drawbridge to build against, instead of a release")
	cmd.Flags().StringVar(&f.openapi, "provider-openapi", "", "OpenAPI 3 description of the provider, JSON")
	cmd.Flags().StringArrayVar(&f.operations, "operation", nil, `one of its operations, such as "GET /alerts/{id}"; repeatable`)
	cmd.Flags().StringVar(&f.account, "account", "", `the read that tells whose credential it is, such as "GET /me"`)
	return cmd
}

var connectorName = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// skeleton checks everything before a file is written.
func (f newFlags) skeleton(name string) (s skeleton, dir string, err error) {
	if !connectorName.MatchString(name) || token.IsKeyword(name) || len(name) > 30 {
		return s, "", usagef("%q can't name a connector: lower-case letters and digits, as in a Go package", name)
	}
	auth, ok := authKinds[f.auth]
	if !ok {
		return s, "", usagef("--auth is oauth, key or client-credentials")
	}
	s = skeleton{Name: name, Owner: f.owner, Auth: auth, Kind: signIns[f.auth], House: housePath, Lock: surface.FileName}
	if strings.ContainsAny(s.Owner, "\"\\`\n") || strings.TrimSpace(s.Owner) == "" {
		return s, "", usagef("--owner is a name on one line, without quotes")
	}
	if dir = f.dir; dir == "" {
		dir = name
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return s, "", usagef("%s is there already and holds something; nothing was written", dir)
	}
	if f.openapi != "" {
		raw, err := os.ReadFile(f.openapi)
		if err != nil {
			return s, "", err
		}
		if s.API, err = readAPI(raw, name, f); err != nil {
			return s, "", err
		}
		s.OpenAPI = filepath.Base(f.openapi)
	} else if len(f.operations) > 0 {
		return s, "", usagef("--operation names operations of --provider-openapi")
	}
	return s, dir, f.place(&s, dir)
}

// place decides between a package of the module around it and a module.
func (f newFlags) place(s *skeleton, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for above := filepath.Dir(abs); f.module == "" && f.replace == ""; above = filepath.Dir(above) {
		if _, err := os.Stat(filepath.Join(above, "go.mod")); err == nil {
			return nil
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	if s.Module = f.module; s.Module == "" {
		s.Module = "example.com/" + s.Name
	}
	if strings.ContainsAny(s.Module, " \t\n\"`") {
		return usagef("--module is a Go module path, such as example.com/%s", s.Name)
	}
	s.Go, s.HouseVersion = "1.26.0", released()
	switch {
	case f.replace != "":
		s.HouseVersion = "v0.0.0"
		if s.Replace, err = filepath.Abs(f.replace); err != nil {
			return err
		}
		if raw, err := os.ReadFile(filepath.Join(s.Replace, "go.mod")); err != nil || !strings.HasPrefix(string(raw), "module "+housePath+"\n") {
			return usagef("--replace names a checkout of %s, and %s is none", housePath, f.replace)
		}
	case s.HouseVersion == "":
		return usagef("this build of drawbridge is no release that a go.mod could name; say --replace with its checkout")
	}
	return nil
}

// released is the version of this program, if it is one that others can get.
func released() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != housePath || !strings.HasPrefix(info.Main.Version, "v") || strings.Contains(info.Main.Version, "+") {
		return ""
	}
	return info.Main.Version
}

// write makes all texts before the first file, so that a failure leaves nothing.
func (s skeleton) write(dir string) error {
	names := map[string]string{"connector.go.tmpl": s.Name + ".go", "connector_test.go.tmpl": s.Name + "_test.go",
		"provider_test.go.tmpl": "provider_test.go", "README.md.tmpl": "README.md"}
	if s.API != nil {
		names = map[string]string{"api.go.tmpl": s.Name + ".go", "api_test.go.tmpl": s.Name + "_test.go",
			"apiprovider_test.go.tmpl": "provider_test.go", "README.md.tmpl": "README.md"}
	}
	files := map[string][]byte{}
	if s.Module != "" {
		names["go.mod.tmpl"] = "go.mod"
	}
	all, err := template.ParseFS(newTemplates, "templates/new/*.tmpl")
	if err != nil {
		return err
	}
	for from, to := range names {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, from, s); err != nil {
			return err
		}
		files[to] = b.Bytes()
		if strings.HasSuffix(to, ".go") {
			if files[to], err = tidyGo(b.Bytes()); err != nil {
				return fmt.Errorf("%s: %w", to, err)
			}
		}
	}
	if s.Replace != "" {
		if err := s.dependencies(files); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tidyGo formats a file and drops the imports that it does not use, because
// which ones it needs depends on the operations that were asked for.
func tidyGo(src []byte) ([]byte, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, ident := range f.Unresolved {
		used[ident.Name] = true
	}
	for _, spec := range f.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); !used[path.Base(imported)] {
			src = bytes.Replace(src, []byte("\t"+spec.Path.Value+"\n"), nil, 1)
		}
	}
	return format.Source(src)
}

// dependencies takes over what the checkout needs, in its versions, so that the
// module builds at once and offline. go mod tidy drops what it does not use.
func (s skeleton) dependencies(files map[string][]byte) error {
	house, err := os.ReadFile(filepath.Join(s.Replace, "go.mod"))
	if err != nil {
		return err
	}
	var needs strings.Builder
	needs.WriteString("\nrequire (\n")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(house), -1) {
		fmt.Fprintf(&needs, "\t%s %s // indirect\n", m[1], m[2])
	}
	needs.WriteString(")\n")
	files["go.mod"] = append(bytes.TrimRight(files["go.mod"], "\n"), "\n"+needs.String()...)
	files["go.sum"], err = os.ReadFile(filepath.Join(s.Replace, "go.sum"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s has no go.sum", s.Replace)
	}
	return err
}

// fixNew writes the first fixed inputs and outputs, by the author's own test.
func fixNew(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^TestContract$", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), kit.UpdateVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("its test does not run: %w\n%s", err, out)
	}
	return nil
}

// lockNew writes the first lock file, from the code.
func lockNew(ctx context.Context, dir string) (faults []string, err error) {
	loaded, err := loadConnector(ctx, dir, "New")
	if err != nil || len(loaded.Faults) > 0 {
		return loaded.Faults, err
	}
	s, err := surface.Read(bytes.NewReader(loaded.Surface))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, surface.FileName), []byte(lockText(s)), 0o644); err != nil {
		return nil, err
	}
	return nil, fixNew(ctx, dir)
}
