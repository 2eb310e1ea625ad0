package contracttests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEveryDependencyHasAReason compares go.mod's direct requirements with the
// table.
func TestEveryDependencyHasAReason(t *testing.T) {
	reasons := read(t, "docs/dependencies.md")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1)
	if len(direct) < 10 {
		t.Fatalf("found %d requirements only", len(direct))
	}
	for _, m := range direct {
		if !strings.Contains(reasons, "| "+m[1]+" |") {
			t.Errorf("docs/dependencies.md gives no reason for %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \|`).FindAllStringSubmatch(reasons, -1) {
		if !strings.Contains(read(t, "go.mod"), m[1]+" v") {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not require", m[1])
		}
	}
}

// TestEveryGuaranteeIsListed compares the ids that tests name with
// docs/guarantees.md, both ways.
func TestEveryGuaranteeIsListed(t *testing.T) {
	named := map[string][]string{}
	ids := regexp.MustCompile(`Guarantees?: ([A-Z0-9, ]+)`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range ids.FindAllStringSubmatch(string(raw), -1) {
			for _, id := range regexp.MustCompile(`[A-Z]{3}[0-9]+`).FindAllString(m[1], -1) {
				named[id] = append(named[id], path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	doc := read(t, "docs/guarantees.md")
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]{3}[0-9]+) \|`).FindAllStringSubmatch(doc, -1) {
		listed = append(listed, m[1])
		if len(named[m[1]]) == 0 {
			t.Errorf("docs/guarantees.md lists %s, which no test names", m[1])
		}
	}
	for id, files := range named {
		if !slices.Contains(listed, id) {
			t.Errorf("%s is named in %s but not listed in docs/guarantees.md", id, files[0])
		}
	}
	// The packages that a row names must hold tests which name the row.
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]{3}[0-9]+) \| [^|]* \| ([^|]*) \|`).FindAllStringSubmatch(doc, -1) {
		for folder := range strings.FieldsSeq(strings.ReplaceAll(row[2], ",", " ")) {
			if !slices.ContainsFunc(named[row[1]], func(path string) bool {
				return filepath.ToSlash(filepath.Dir(path)) == "../"+folder
			}) {
				t.Errorf("%s: no test of %s names it", row[1], folder)
			}
		}
	}
}
