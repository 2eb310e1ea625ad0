package scenarios_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/contracttests/scenarios"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestScenarios plays the four stories on each engine.
// Guarantee: TST5, TIX4, TIX5, TIX6, CUR3, CRE8, NET10
func TestScenarios(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		var story strings.Builder
		var log bytes.Buffer
		dir, url := t.TempDir(), d.URL
		if d.Engine == store.SQLite {
			url = "" // in the data folder, whose files are searched below
		}
		org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer org.Close()
		report, err := scenarios.Against(t.Context(), scenarios.Config{Data: dir, Database: url, Story: &story,
			Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, org)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Passed || len(report.Scenarios) != 4 {
			t.Errorf("report: %+v\n%s", report, &story)
		}
		if log.Len() == 0 {
			t.Error("nothing was logged: there is nothing to look at")
		}
		for _, secret := range org.Canaries() {
			if strings.Contains(story.String(), secret) || strings.Contains(log.String(), secret) {
				t.Errorf("the story or the log holds the secret %.12s...", secret)
			}
		}
		leaks(t, dir, org.Canaries())
	})
}

// leaks looks for the provider's secrets in every file of the data folder.
// Guarantee: CRE4
func leaks(t *testing.T, dir string, secrets []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing to look at in the data folder: %v", err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(raw), secret) {
				t.Errorf("%s holds a secret of the provider in clear: %.12s...", f.Name(), secret)
			}
		}
	}
}
