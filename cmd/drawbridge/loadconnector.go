package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// loadedConnector is what a connector's code says about itself.
type loadedConnector struct {
	Name    string          `json:"name"`
	Faults  []string        `json:"faults"`  // of connector.Lint
	Surface json.RawMessage `json:"surface"` // the text of its lock file
}

//go:embed templates/load.go.tmpl
var loadProgram string

const connectorPath = "github.com/drawbridge-dev/drawbridge/connector"

// loadConnector runs the constructor of the package in dir. A connector is a Go
// value, so nothing but the go command can make one: a small program is laid over
// the author's folder (go help build, -overlay), where it may import what the
// folder may, and nothing is written there.
func loadConnector(ctx context.Context, dir, constructor string) (loaded loadedConnector, err error) {
	pkg, err := goList(ctx, dir)
	if err != nil {
		return loaded, err
	}
	if constructor, err = findConstructor(pkg, constructor); err != nil {
		return loaded, err
	}
	temp, err := os.MkdirTemp("", "drawbridge-load")
	if err != nil {
		return loaded, err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, "main.go")
	text := strings.NewReplacer("PACKAGE", strconv.Quote(pkg.ImportPath), "CONSTRUCTOR", constructor).Replace(loadProgram)
	// The folder exists only in the overlay, below the package for the sake of
	// packages that are internal to it.
	const place = "drawbridge_load"
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(pkg.Dir, place, "main.go"): program}})
	if err != nil {
		return loaded, err
	}
	overlayFile := filepath.Join(temp, "overlay.json")
	if err := errors.Join(os.WriteFile(program, []byte(text), 0o600), os.WriteFile(overlayFile, overlay, 0o600)); err != nil {
		return loaded, err
	}
	out, err := goCommand(ctx, pkg.Dir, "run", "-overlay", overlayFile, "./"+place)
	if err != nil {
		return loaded, err
	}
	if err := json.Unmarshal(out, &loaded); err != nil {
		return loaded, fmt.Errorf("%s printed something while its connector was made: a constructor has no effects", pkg.ImportPath)
	}
	return loaded, nil
}

type goPackage struct {
	Dir, ImportPath, Name string
	GoFiles               []string
}

func goList(ctx context.Context, dir string) (pkg goPackage, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return pkg, usagef("there is no folder %s", dir)
	}
	out, err := goCommand(ctx, dir, "list", "-json=Dir,ImportPath,Name,GoFiles", ".")
	if err != nil {
		return pkg, err
	}
	if err := json.Unmarshal(out, &pkg); err != nil {
		return pkg, err
	}
	if pkg.Name == "main" {
		return pkg, usagef("%s is a program; a connector is in a package that programs import", pkg.ImportPath)
	}
	return pkg, nil
}

// findConstructor looks for the functions that make a connector.
func findConstructor(pkg goPackage, asked string) (string, error) {
	var found []string
	for _, name := range pkg.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", err
		}
		local := importedAs(f)
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && makesConnector(fn, local) {
				found = append(found, fn.Name.Name)
			}
		}
	}
	for _, name := range found {
		if name == asked || asked == "" && len(found) == 1 {
			return name, nil
		}
	}
	if len(found) == 0 {
		return "", usagef("%s has no exported function without parameters that returns a connector.Connector", pkg.ImportPath)
	}
	return "", usagef("name the constructor with --func: %s", strings.Join(found, ", "))
}

// importedAs is the name under which a file knows package connector.
func importedAs(f *ast.File) string {
	for _, spec := range f.Imports {
		if path, _ := strconv.Unquote(spec.Path.Value); path == connectorPath {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return "connector"
		}
	}
	return ""
}

func makesConnector(fn *ast.FuncDecl, local string) bool {
	results := fn.Type.Results
	if local == "" || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.TypeParams != nil || fn.Type.Params.NumFields() > 0 || results.NumFields() != 1 {
		return false
	}
	selector, ok := results.List[0].Type.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Connector" {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == local
}

// goCommand runs the go command in a folder. What it complains about is the
// author's own code, so it is shown as it is.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("the go command is not here, and a connector is Go code")
	case errors.As(err, &ended):
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return out, err
}
