package transport

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// named reads RateLimit and RateLimit-Policy (draft-12): lists of strings with
// parameters, one item a policy. A policy that is only announced has a limit
// and nothing else; one that is only reported has what remains.
func named(h http.Header, now time.Time) []connector.Quota {
	var list []connector.Quota
	for _, it := range items(h["Ratelimit-Policy"]) {
		if n, ok := it.number("q"); ok {
			list = append(list, said(connector.Quota{Dimension: it.dimension(), Limit: &n}, now))
		}
	}
	for _, it := range items(h["Ratelimit"]) {
		n, ok := it.number("r")
		if !ok {
			continue
		}
		q := find(&list, it.dimension(), now)
		q.Remaining = &n
		if t, ok := it.number("t"); ok {
			q.ResetAt = plausible(now.Add(time.Duration(min(t, 1e8))*time.Second), now)
		}
	}
	return list[:min(len(list), maxQuotas)]
}

func find(list *[]connector.Quota, dimension string, now time.Time) *connector.Quota {
	for i := range *list {
		if (*list)[i].Dimension == dimension {
			return &(*list)[i]
		}
	}
	*list = append(*list, said(connector.Quota{Dimension: dimension}, now))
	return &(*list)[len(*list)-1]
}

// An item is a string with parameters (RFC 9651 3.3). Values are kept in the
// form they came in.
type item struct {
	name   string
	params map[string]string
}

// dimension is the policy, with its partition if it has one: two partitions of
// one policy are two limits.
func (it item) dimension() string {
	d := dimension(it.name)
	if pk := it.params["pk"]; pk != "" {
		d = dimension(d + "/" + strings.Trim(pk, ":"))
	}
	return d
}

func (it item) number(name string) (int64, bool) {
	v := it.params[name]
	if len(v) > 15 { // RFC 9651 3.3.1
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 63)
	return int64(n), err == nil
}

// items parses a list. A field that is wrong anywhere is ignored as a whole
// (RFC 9651 4.2). Bytes and inner lists, which these fields never have at the
// top, are wrong.
func items(lines []string) []item {
	if len(lines) == 0 {
		return nil
	}
	p := &field{s: strings.Join(lines, ",")}
	if len(p.s) > 4<<10 {
		return nil
	}
	var list []item
	for p.space(); p.s != ""; {
		name, ok := p.text()
		if !ok || len(list) == maxQuotas {
			return nil
		}
		it := item{name: name, params: map[string]string{}}
		for strings.HasPrefix(p.s, ";") {
			p.s = strings.TrimLeft(p.s[1:], " ")
			key, value, ok := p.param()
			if !ok {
				return nil
			}
			it.params[key] = value
		}
		list = append(list, it)
		if p.space(); p.s == "" {
			break
		}
		if p.s[0] != ',' {
			return nil
		}
		p.s = p.s[1:]
		if p.space(); p.s == "" {
			return nil // a trailing comma
		}
	}
	return list
}

type field struct{ s string }

func (f *field) space() { f.s = strings.TrimLeft(f.s, " \t") }

// text reads a string, or a token, which older drafts used for names.
func (f *field) text() (string, bool) {
	if !strings.HasPrefix(f.s, `"`) {
		n := strings.IndexFunc(f.s, func(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '"' || r == '=' })
		if n < 0 {
			n = len(f.s)
		}
		name := f.s[:n]
		f.s = f.s[n:]
		if name == "" || !printable(name) || (name[0]|0x20 < 'a' || name[0]|0x20 > 'z') && name[0] != '*' {
			return "", false
		}
		return name, true
	}
	var b strings.Builder
	for i := 1; i < len(f.s); i++ {
		switch c := f.s[i]; {
		case c == '"':
			f.s = f.s[i+1:]
			return b.String(), true
		case c == '\\':
			if i++; i == len(f.s) || f.s[i] != '"' && f.s[i] != '\\' {
				return "", false
			}
			b.WriteByte(f.s[i])
		case c < ' ' || c >= 0x7f:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// param reads key=value; a key alone means true.
func (f *field) param() (key, value string, ok bool) {
	n := 0
	for n < len(f.s) && (f.s[n] >= 'a' && f.s[n] <= 'z' || n > 0 && strings.IndexByte("0123456789_-.*", f.s[n]) >= 0) {
		n++
	}
	key, f.s = f.s[:n], f.s[n:]
	if key == "" {
		return "", "", false
	}
	if !strings.HasPrefix(f.s, "=") {
		return key, "?1", true
	}
	f.s = f.s[1:]
	switch {
	case strings.HasPrefix(f.s, `"`):
		value, ok = f.text()
	case strings.HasPrefix(f.s, ":"): // a byte sequence
		end := strings.IndexByte(f.s[1:], ':') + 2
		if end < 2 {
			return "", "", false
		}
		value, f.s = f.s[:end], f.s[end:]
		_, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
		ok = err == nil
	default:
		n := strings.IndexAny(f.s, ";, ")
		if n < 0 {
			n = len(f.s)
		}
		value, f.s = f.s[:n], f.s[n:]
		ok = value != "" && printable(value)
	}
	return key, value, ok
}
