package tickets

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// T37, T43: what a person does not see and a model reads is taken out and
// counted; what scripts and emoji need stays.
func TestVisible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, out string
		removed       int
	}{
		{"plain", "Printer on fire", "Printer on fire", 0},
		{"line ends and tabs", "a\r\nb\tc\n", "a\r\nb\tc\n", 0},
		{"NUL", "a\x00b", "ab", 1},
		{"terminal escape", "\x1b[31mred\x1b[0m", "[31mred[0m", 2},
		{"delete and C1", "a\x7f\u0085\u009bb", "ab", 3},
		{"tag characters", "x\U000E0041\U000E0042\U000E007Fy", "xy", 3},
		{"variation selectors that carry bytes", "x\U000E0100\U000E01EFy", "xy", 2},
		{"right-to-left override", "\u202Etxt.exe\u202C", "txt.exe", 2},
		{"isolates", "\u2066a\u2069", "a", 2},
		{"direction marks", "a\u200E\u200F\u061Cb", "ab", 3},
		{"zero width space", "pass\u200Bword", "password", 1},
		{"word joiner and invisible operators", "a\u2060\u2061\u2064b", "ab", 3},
		{"byte order mark", "\uFEFFa", "a", 1},
		{"soft hyphen", "se\u00ADcret", "secret", 1},
		{"annotations", "\uFFF9a\uFFFAb\uFFFB", "ab", 3},
		{"family emoji keeps its joiners", "👩\u200D👩\u200D👧", "👩\u200D👩\u200D👧", 0},
		{"Persian keeps its non-joiner", "می\u200Cخواهم", "می\u200Cخواهم", 0},
		{"emoji presentation", "❤\uFE0F", "❤\uFE0F", 0},
		{"an entity is text, not a character", "a&#8203;b", "a&#8203;b", 0},
		{"a comment is text", "a<!-- b -->c", "a<!-- b -->c", 0},
		{"Arabic and Hebrew", "שלום مرحبا", "שלום مرحبا", 0},
		{"empty", "", "", 0},
	} {
		out, removed := visible(c.in)
		if out != c.out || removed != c.removed {
			t.Errorf("%s: %q with %d removed, want %q with %d", c.name, out, removed, c.out, c.removed)
		}
	}
}

// foreign is text that leans towards what must go.
var foreign = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 40).Draw(t, "n") {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			b.WriteRune(rapid.SampledFrom([]rune{0, 0x1b, 0x7f, 0x85, 0xad, 0x200b, 0x200d, 0x202e, 0x2066, 0xfeff, 0xe0041, 0xfff9}).Draw(t, "hidden"))
		case 1:
			b.WriteByte(rapid.Byte().Draw(t, "byte")) // mostly invalid UTF-8
		default:
			b.WriteRune(rapid.Rune().Draw(t, "rune"))
		}
	}
	return b.String()
})

// Once through is enough, nothing hidden is left, and nothing is invented.
func TestVisibleProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := foreign.Draw(rt, "text")
		out, removed := visible(in)
		again, more := visible(out)
		if again != out || more != 0 {
			rt.Fatalf("not idempotent: %q then %q", out, again)
		}
		if !utf8.ValidString(out) {
			rt.Fatalf("invalid UTF-8: %q", out)
		}
		if was, is := utf8.RuneCountInString(in), utf8.RuneCountInString(out); is+removed != was {
			rt.Fatalf("%d characters in, %d out and %d removed", was, is, removed)
		}
		if utf8.ValidString(in) && len(out) > len(in) {
			rt.Fatalf("grew from %d to %d bytes", len(in), len(out))
		}
	})
}

func TestCutAtCharacterBoundary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in  string
		n   int
		out string
		cut bool
	}{
		{"", 0, "", false},
		{"abc", 3, "abc", false},
		{"abcd", 3, "abc", true},
		{"aé", 2, "a", true},
		{"日本", 3, "日", true},
		{"日本", 5, "日", true},
		{"日", 2, "", true},
		{"😀😀", 7, "😀", true},
	} {
		if out, was := cut(c.in, c.n); out != c.out || was != c.cut {
			t.Errorf("cut(%q, %d) = %q, %v; want %q, %v", c.in, c.n, out, was, c.out, c.cut)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		in := rapid.String().Draw(rt, "text")
		n := rapid.IntRange(0, 200).Draw(rt, "n")
		out, was := cut(in, n)
		if len(out) > n || !utf8.ValidString(out) || !strings.HasPrefix(in, out) || was != (out != in) || was && n-len(out) >= utf8.UTFMax {
			rt.Fatalf("cut(%q, %d) = %q, %v", in, n, out, was)
		}
	})
}

// T43: all text fields take the same path, and none of them is forgotten.
// Guarantee: TIX2
func TestNormaliseTreatsEveryTextField(t *testing.T) {
	t.Parallel()
	const dirty = "a\u200Bb"
	zone := time.FixedZone("", 3*3600)
	got := Ticket{
		ID: "007", Project: "orders", Title: dirty, Body: dirty, State: "open", Status: dirty, Severity: Null[string](),
		SeverityAs: Some(dirty), Labels: []string{dirty}, Evidence: []string{dirty, dirty}, Author: Some(dirty), Version: "1",
		CreatedAt: time.Date(2026, 5, 7, 12, 0, 30, 0, zone), UpdatedAt: time.Date(2026, 5, 7, 13, 0, 30, 0, zone),
	}
	got.normalise()
	want := Ticket{
		ID: "007", Project: "orders", Title: "ab", Body: "ab", State: "open", Status: "ab", Severity: Null[string](),
		SeverityAs: Some("ab"), Labels: []string{"ab"}, Evidence: []string{"ab", "ab"}, Author: Some("ab"), Version: "1",
		CreatedAt: time.Date(2026, 5, 7, 9, 0, 30, 0, time.UTC), UpdatedAt: time.Date(2026, 5, 7, 10, 0, 30, 0, time.UTC), Removed: 8,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Optional[string]{}, Optional[bool]{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	empty := Ticket{}
	empty.normalise()
	if empty.Labels == nil || empty.Evidence == nil || !empty.Author.IsZero() || !empty.SeverityAs.IsZero() {
		t.Errorf("an empty ticket became %+v", empty)
	}
}

// T37: a text over the cap is cut at a character and says so.
func TestNormaliseCaps(t *testing.T) {
	t.Parallel()
	long := Ticket{Title: strings.Repeat("é", maxTitle), Body: "a" + strings.Repeat("é", maxBody/2)}
	long.normalise()
	if len(long.Title) != maxTitle || len(long.Body) != maxBody-1 || !long.TitleTruncated || !long.Truncated {
		t.Errorf("title %d bytes, truncated %v; body %d bytes, truncated %v", len(long.Title), long.TitleTruncated, len(long.Body), long.Truncated)
	}
	exact := Ticket{Title: strings.Repeat("a", maxTitle), Body: strings.Repeat("a", maxBody)}
	exact.normalise()
	if len(exact.Title) != maxTitle || len(exact.Body) != maxBody || exact.TitleTruncated || exact.Truncated {
		t.Errorf("texts of exactly the cap: %d and %d bytes, truncated %v and %v", len(exact.Title), len(exact.Body), exact.TitleTruncated, exact.Truncated)
	}
}
