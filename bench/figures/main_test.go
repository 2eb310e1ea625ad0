package main

import (
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
		fail string
	}{
		"benchmark": {"BenchmarkX-2  10  5 ours-ns  1.5 x-floor\nok  pkg\n", []string{"figure: X-2  5 ours-ns  1.5 x-floor"}, ""},
		"test":      {"=== RUN TestY\n    y_test.go:3: figure: lost 0\nPASS\n", []string{"figure: lost 0"}, ""},
		"both":      {"figure: a 1\nBenchmarkZ  1  2 ns/op\n", []string{"figure: a 1", "figure: Z  2 ns/op"}, ""},
		"none":      {"ok pkg\n", nil, "no figure"},
		"failed":    {"figure: a 1\n--- FAIL: TestY\nFAIL\n", []string{"figure: a 1"}, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := figures(strings.NewReader(c.in), &out)
			if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("err = %v, want %q", err, c.fail)
			}
			if !strings.HasSuffix(out.String(), strings.Join(c.want, "\n")) && !strings.HasSuffix(strings.TrimSpace(out.String()), strings.Join(c.want, "\n")) {
				t.Errorf("output %q does not end with %q", out.String(), c.want)
			}
		})
	}
}
