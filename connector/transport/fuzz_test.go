package transport

import (
	"mime"
	"strings"
	"testing"
)

func FuzzContentType(f *testing.F) {
	for _, s := range []string{"application/json", "application/json; charset=utf-8", `Application/JSON;charset="UTF-8"`, "application/vnd.github+json",
		"text/json", "application/json; charset=utf-16", "application/json, text/html", "application/json;charset=utf-8;charset=latin1", "+json", "application/x+json;="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		if !isJSON([]string{v}) {
			return
		}
		// An independent reading of what may pass.
		kind, params, err := mime.ParseMediaType(v)
		if err != nil || !strings.HasPrefix(kind, "application/") || !strings.HasSuffix(kind, "json") || strings.ContainsAny(kind, ", \t") {
			t.Errorf("%q passes as JSON", v)
		}
		if c, ok := params["charset"]; ok && !strings.EqualFold(c, "utf-8") {
			t.Errorf("%q passes with charset %q", v, c)
		}
		if isJSON([]string{v, v}) || isJSON(nil) {
			t.Error("none or two types pass")
		}
	})
}
