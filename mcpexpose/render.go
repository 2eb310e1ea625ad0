package mcpexpose

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// render is the text beside the structured content, for clients that read no other.
// It has the same data in it, with every character that hides or is obeyed written
// out, and says how many there were.
func render(r connector.Result) (text string, neutralized int) {
	var b strings.Builder
	b.WriteString(r.Summary)
	if r.Error != nil {
		fmt.Fprintf(&b, "\n%s; next: %s", r.Error.Code, r.Error.Next)
		for _, f := range r.Error.Faults {
			fmt.Fprintf(&b, "\n%q: %s", f.Pointer, f.Keyword)
		}
		if len(r.Error.Scopes) > 0 {
			fmt.Fprintf(&b, "\nmissing scopes: %s", strings.Join(r.Error.Scopes, " "))
		}
		if r.Error.RetryAfter > 0 {
			fmt.Fprintf(&b, "\nretry after %.0f s", r.Error.RetryAfter)
		}
	}
	if r.Effect.Operation != "" {
		fmt.Fprintf(&b, "\noperation: %s, %s", r.Effect.Operation, r.Effect.Disposition)
	}
	if len(r.Coverage.Missing) > 0 {
		b.WriteString("\nmissing:")
		for _, m := range r.Coverage.Missing {
			fmt.Fprintf(&b, " %s (%s)", m.What, m.Reason)
		}
	}
	if r.NextCursor != nil {
		b.WriteString("\nthere are more pages: pass next_cursor as cursor")
		fmt.Fprintf(&b, "\nnext_cursor: %s", *r.NextCursor)
	}
	if len(r.Data) > 0 {
		b.WriteString("\n\n")
		b.Write(r.Data) // as it is: a model pays for indentation
	}
	return neutralize(b.String())
}

// neutralize writes out what a reader would not see and a terminal or a model
// would: control and format characters (escape codes, bidirectional overrides,
// zero width, tag characters) and private use. Joiners stay: scripts and emoji need
// them.
func neutralize(s string) (string, int) {
	n := 0
	if strings.IndexFunc(s, hides) < 0 {
		return s, 0
	}
	var b strings.Builder
	for _, r := range s {
		if hides(r) {
			n++
			fmt.Fprintf(&b, "\\u{%X}", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String(), n
}

func hides(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
		return false
	case r < 0x7f && r >= 0x20:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}
