package store

import (
	"strconv"
	"strings"
)

// dialect returns the text to send for a text a service wrote.
func (db *DB) dialect(query string) string {
	if db.engine == SQLite {
		return query
	}
	if text, ok := db.rewritten.Load(query); ok {
		return text.(string)
	}
	text := numbered(query)
	if db.rewrittenCount.Add(1) <= maxCachedTexts {
		db.rewritten.Store(query, text)
	}
	return text
}

// numbered turns ? and ?N into $N, counting as SQLite does: ? is one more than
// the largest number so far.
func numbered(query string) string {
	if !strings.Contains(query, "?") {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 8)
	largest := 0
	for i := 0; i < len(query); {
		if n := opaque(query[i:]); n > 0 {
			b.WriteString(query[i : i+n])
			i += n
			continue
		}
		if query[i] != '?' {
			b.WriteByte(query[i])
			i++
			continue
		}
		digits := i + 1
		for digits < len(query) && '0' <= query[digits] && query[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(query[i+1 : digits])
		if err != nil {
			n, digits = largest+1, i+1
		}
		largest = max(largest, n)
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		i = digits
	}
	return b.String()
}

// typeWords replaces the word BYTES outside quotes and comments.
func typeWords(text string, e Engine) string {
	word := "BLOB"
	if e == PostgreSQL {
		word = "BYTEA"
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if n := opaque(text[i:]); n > 0 {
			b.WriteString(text[i : i+n])
			i += n
			continue
		}
		n := 0
		for i+n < len(text) && isWord(text[i+n]) {
			n++
		}
		if n == 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		if text[i:i+n] == "BYTES" {
			b.WriteString(word)
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// opaque returns the length of the quoted text or comment that s starts with,
// zero if it starts with neither. One that is not closed runs to the end; the
// database reports it. Backslash escapes and dollar quotes exist on PostgreSQL
// only, so SQL for both engines has none.
func opaque(s string) int {
	var end string
	switch {
	case s[0] == '\'', s[0] == '"':
		// A doubled quote closes and opens again at once, so it needs no care.
		end = s[:1]
	case strings.HasPrefix(s, "--"):
		end = "\n"
	case strings.HasPrefix(s, "/*"):
		return blockComment(s)
	default:
		return 0
	}
	n := strings.Index(s[1:], end)
	if n < 0 {
		return len(s)
	}
	return 1 + n + len(end)
}

// blockComment stops at the first close, as SQLite does. PostgreSQL nests them;
// a nested comment is refused by SQLite's parser when the tests run there.
func blockComment(s string) int {
	n := strings.Index(s[2:], "*/")
	if n < 0 {
		return len(s)
	}
	return 2 + n + 2
}
