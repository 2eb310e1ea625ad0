package operations

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is foreign text in a form that can be shown to a person. Shown has a
// mark in place of every character that a screen would hide, reorder or obey:
// controls, bidirectional and zero-width characters, tags, fillers, spaces that
// aren't the space, bytes that aren't UTF-8. Line ends and tabs are kept, so a
// page or a terminal still has to keep one text's lines apart from its own.
//
// Marks look like ⟨U+202E⟩. Foreign text can contain the same characters as
// ordinary ones; Escaped, which is present whenever marks are, is the exact form.
type Text struct {
	Shown   string `json:"shown"`
	Escaped string `json:"escaped,omitempty"` // \n, \t, \\ and \u{202E}, \x{FF} for a byte that isn't UTF-8
	Length  int    `json:"length"`            // in characters; a byte that isn't UTF-8 counts as one
	Hidden  int    `json:"hidden,omitempty"`  // how many of them are marked
}

// Visible makes any text safe to show.
func Visible(s string) Text {
	t := Text{Shown: s}
	var shown, escaped strings.Builder
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		t.Length++
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&shown, "⟨0x%02X⟩", s[i])
			fmt.Fprintf(&escaped, `\x{%02X}`, s[i])
			t.Hidden++
		case r == '\n' || r == '\t':
			shown.WriteRune(r)
			escaped.WriteString(map[rune]string{'\n': `\n`, '\t': `\t`}[r])
		case invisible(r):
			fmt.Fprintf(&shown, "⟨U+%04X⟩", r)
			fmt.Fprintf(&escaped, `\u{%04X}`, r)
			t.Hidden++
		case r == '\\':
			shown.WriteRune(r)
			escaped.WriteString(`\\`)
		default:
			shown.WriteRune(r)
			escaped.WriteRune(r)
		}
	}
	if t.Hidden > 0 {
		t.Shown, t.Escaped = shown.String(), escaped.String()
	}
	return t
}

// invisible tells whether a character leaves no mark of its own on a screen, or
// changes what others look like. IsPrint leaves out controls, format characters
// (bidirectional, zero width, tags), private use, unassigned code points and all
// spaces but one. The rest are letters and marks that are drawn as nothing.
func invisible(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == '\u2800' // the braille pattern without a dot
}
