package store

import (
	"strings"
	"testing"
)

func TestNumbered(t *testing.T) {
	tests := []struct{ in, want string }{
		{"SELECT 1", "SELECT 1"},
		{"a = ? AND b = ?", "a = $1 AND b = $2"},
		{"a = ?2 OR b = ?1 OR c = ?2 OR d = ?", "a = $2 OR b = $1 OR c = $2 OR d = $3"},
		{"?10, ?", "$10, $11"},
		{"'?' ? '''?' ?", "'?' $1 '''?' $2"},
		{`"a?" = ?`, `"a?" = $1`},
		{"? -- why?\n?", "$1 -- why?\n$2"},
		{"? /* why? ' */ ?", "$1 /* why? ' */ $2"},
		{"a - ? / ?", "a - $1 / $2"},
		{"'open ?", "'open ?"},
		{"/* open ?", "/* open ?"},
		{"/*/ ? */ ?", "/*/ ? */ $1"},
		{"-- end?", "-- end?"},
		{"ä = ?", "ä = $1"},
	}
	for _, test := range tests {
		if got := numbered(test.in); got != test.want {
			t.Errorf("numbered(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestTypeWords(t *testing.T) {
	const in = "CREATE TABLE t (a BYTES NOT NULL, \"BYTES\" TEXT, c BYTES, my_BYTES TEXT, BYTES2 TEXT, bytes TEXT DEFAULT 'BYTES'); -- BYTES\n/* BYTES */ BYTES"
	for e, word := range map[Engine]string{SQLite: "BLOB", PostgreSQL: "BYTEA"} {
		want := "CREATE TABLE t (a " + word + " NOT NULL, \"BYTES\" TEXT, c " + word + ", my_BYTES TEXT, BYTES2 TEXT, bytes TEXT DEFAULT 'BYTES'); -- BYTES\n/* BYTES */ " + word
		if got := typeWords(in, e); got != want {
			t.Errorf("%v: got %q, want %q", e, got, want)
		}
	}
}

// Rewriting must add or drop nothing but the placeholders: undoing it gives
// the text back.
func FuzzNumbered(f *testing.F) {
	for _, s := range []string{"a = ? AND b = ?2", "'it''s ?' \"?\" -- ?\n ? /* ? */ ?", "/*", "--", "'", "?0 ?99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if strings.Contains(in, "$") {
			t.Skip()
		}
		out := numbered(in)
		strip := func(s, mark string) string {
			var b strings.Builder
			for i := 0; i < len(s); {
				if s[i] == mark[0] {
					for i++; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
					}
					continue
				}
				b.WriteByte(s[i])
				i++
			}
			return b.String()
		}
		// Digits after a mark that stayed are lost on both sides.
		if a, b := strip(in, "?"), strip(strip(out, "$"), "?"); a != b {
			t.Fatalf("numbered(%q) = %q changed the rest of the text", in, out)
		}
		if strings.Count(in, "?") != strings.Count(out, "?")+strings.Count(out, "$") {
			t.Fatalf("numbered(%q) = %q lost a placeholder", in, out)
		}
		if typed := typeWords(in, PostgreSQL); strings.ReplaceAll(typed, "BYTEA", "BYTES") != strings.ReplaceAll(in, "BYTEA", "BYTES") {
			t.Fatalf("typeWords(%q) = %q changed more than the word", in, typed)
		}
	})
}
