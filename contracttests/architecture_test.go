package contracttests_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/drawbridge-dev/drawbridge"

// mayImport is the house: each folder and the folders of ours that it may use.
// A folder below a listed one follows its nearest entry. Imports run down only,
// so a folder never names one that stands above it.
var mayImport = []struct {
	folder string
	uses   []string
}{
	{"store", nil},
	{"store/storetest", []string{"store"}},
	{"keys", nil},
	{"confine", nil},
	{"docs", nil},
	{"connector/internal/schema", nil},
	{"connector", []string{"connector/internal/schema"}},
	{"connector/internal/strictjson", nil},
	{"connector/transport", []string{"connector"}},
	{"connector/transport/profiles", []string{"connector", "connector/internal/strictjson", "connector/transport"}},
	{"connector/transport/doctor", []string{"connector", "connector/transport", "connector/transport/profiles"}},
	{"connector/toolshape", []string{"connector"}},
	{"connector/manifest", []string{"connector", "connector/internal/strictjson"}},
	{"cursors", []string{"connector", "keys"}},
	{"credentials", []string{"connector", "connector/transport", "keys", "store"}},
	{"operations", []string{"connector", "keys", "store"}},
	{"quotas", []string{"connector", "connector/transport", "store"}},
	{"telemetry", []string{"connector", "connector/transport"}},
	{"telemetry/scrape", nil},
	{"tickets", []string{"connector"}},
	{"tickets/sandboxorg", []string{"connector", "tickets"}},
	{"tickets/gitea", []string{"connector", "tickets"}},
	{"webhooks/signature", nil},
	{"webhooks/inbox", []string{"store"}},
	{"webhooks/mirror", []string{"connector", "store", "webhooks/inbox"}},
	{"webhooks/notices", []string{"connector", "store", "webhooks/mirror"}},
	{"webhooks/followups", []string{"connector", "store", "webhooks/inbox", "webhooks/mirror"}},
	{"webhooks", []string{"connector", "keys", "store", "webhooks/inbox", "webhooks/signature"}},
	{"webhooks/subscriptions", []string{"connector", "keys", "store", "webhooks", "webhooks/inbox"}},
	{"host", []string{"connector", "connector/manifest", "connector/transport", "connector/transport/profiles", "credentials", "cursors", "keys", "operations", "quotas", "store", "telemetry", "tickets", "tickets/gitea", "tickets/sandboxorg", "webhooks", "webhooks/followups", "webhooks/inbox", "webhooks/mirror", "webhooks/notices", "webhooks/subscriptions"}},
	{"mcpexpose/edge", []string{"connector"}},
	{"mcpexpose", []string{"connector", "keys", "mcpexpose/edge", "store"}},
	{"console", []string{"connector", "credentials", "keys", "operations", "store", "webhooks"}},
	{"connector/surface", []string{"connector", "connector/internal/strictjson", "connector/manifest"}},
	{"contracttests", []string{"*"}},
	{"contracttests/sandbox", nil},
	{"contracttests/crash", []string{"*"}},
	{"contracttests/scenarios", []string{"connector", "contracttests/sandbox", "credentials", "host", "operations", "tickets"}},
	{"contracttests/sandbox/cmd/sandboxorg", []string{"contracttests/sandbox"}},
	{"contracttests/fault", nil},
	{"contracttests/dev", []string{"connector", "contracttests/fault", "operations"}},
	{"contracttests/gitea", nil},
	{"examples/deployments", []string{"connector"}},
	{"bench", []string{"*"}},
	{"cmd/drawbridge", []string{"*"}},
}

// owners says which folder may import a third-party module; tests may also use
// testModules. A module that is not here is not a part of the product.
var owners = map[string][]string{
	"golang.org/x/oauth2":                    {"credentials", "console"},
	"golang.org/x/sync":                      {"credentials", "bench"},
	"github.com/hashicorp/go-retryablehttp":  {"connector/transport"},
	"code.dny.dev/ssrf":                      {"connector/transport"},
	"github.com/sony/gobreaker":              {"connector/transport"},
	"golang.org/x/time":                      {"connector/transport", "mcpexpose/edge"},
	"golang.org/x/net":                       {"connector/transport", "credentials"},
	"github.com/tink-crypto/tink-go":         {"keys"},
	"google.golang.org/protobuf":             {"keys"},
	"modernc.org/sqlite":                     {"store"},
	"github.com/jackc/pgx":                   {"store", "store/storetest"},
	"github.com/pressly/goose":               {"store"},
	"github.com/google/jsonschema-go":        {"connector"},
	"github.com/santhosh-tekuri/jsonschema":  {"connector"},
	"github.com/go-json-experiment/json":     {"connector", "connector/internal", "connector/manifest", "connector/toolshape", "connector/transport/profiles", "credentials", "tickets", "mcpexpose", "mcpexpose/edge", "bench"},
	"github.com/spf13/cobra":                 {"cmd/drawbridge"},
	"github.com/landlock-lsm/go-landlock":    {"confine"},
	"go.opentelemetry.io/otel":               {"telemetry", "telemetry/scrape"},
	"github.com/prometheus/client_golang":    {"telemetry/scrape"},
	"github.com/modelcontextprotocol/go-sdk": {"mcpexpose"},
	"github.com/coreos/go-oidc":              {"mcpexpose/edge", "console"},
	"github.com/chromedp/chromedp":           {"contracttests/browser"},
	"github.com/chromedp/cdproto":            {"contracttests/browser"},
}

var testModules = []string{"github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "go.opentelemetry.io/otel",
	"github.com/modelcontextprotocol/go-sdk"}

// TestImportsRunDown walks every Go file of the module.
func TestImportsRunDown(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || nested(path)) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		files++
		folder, _ := filepath.Rel("..", filepath.Dir(path))
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if why := refuse(filepath.ToSlash(folder), imported, strings.HasSuffix(path, "_test.go")); why != "" {
				t.Errorf("%s imports %s: %s", path, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("looked at %d files only", files)
	}
}

// nested reports a folder with a module of its own.
func nested(folder string) bool {
	found, _ := filepath.Glob(filepath.Join(folder, "go.mod"))
	return len(found) > 0
}

func refuse(folder, imported string, test bool) string {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		i := entry(folder)
		if i < 0 {
			return "the folder is not in the table"
		}
		row := mayImport[i]
		// Tests may use the whole house: they prove it.
		if test || ours == folder || strings.HasPrefix(ours, row.folder+"/") && strings.Contains(ours, "/internal/") ||
			slices.Contains(row.uses, "*") || slices.Contains(row.uses, ours) {
			return ""
		}
		return "not below it in the table"
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if test && slices.ContainsFunc(testModules, func(m string) bool { return within(imported, m) }) {
		return ""
	}
	for module, folders := range owners {
		if !within(imported, module) {
			continue
		}
		if slices.ContainsFunc(folders, func(owner string) bool { return folder == owner || strings.HasPrefix(folder, owner+"/internal") }) {
			return ""
		}
		return "only " + strings.Join(folders, ", ") + " may import it"
	}
	return "the module has no owner"
}

// entry finds the nearest row at or above a folder.
func entry(folder string) int {
	best := -1
	for i, row := range mayImport {
		if within(folder, row.folder) && (best < 0 || len(row.folder) > len(mayImport[best].folder)) {
			best = i
		}
	}
	return best
}

func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// TestTheTableHasNoCycle keeps the table itself honest: a row uses only rows
// that stand above it in the list, which reads from the ground up.
func TestTheTableHasNoCycle(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range mayImport {
		for _, used := range row.uses {
			if used != "*" && !seen[used] {
				t.Errorf("%s uses %s, which does not stand below it", row.folder, used)
			}
		}
		seen[row.folder] = true
	}
}

// TestRefusals shows that the check can fail.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ folder, imported string }{
		{"connector", module + "/store"},
		{"tickets", module + "/credentials"},
		{"tickets/gitea", module + "/connector/transport"},
		{"store", module + "/keys"},
		{"tickets", "golang.org/x/oauth2"},
		{"credentials", "github.com/hashicorp/go-retryablehttp"},
		{"connector", "github.com/stretchr/testify/assert"},
	} {
		if refuse(c.folder, c.imported, false) == "" {
			t.Errorf("%s may import %s", c.folder, c.imported)
		}
	}
}
