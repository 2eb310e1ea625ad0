package dev

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/operations"
)

//go:embed pages
var pageFiles embed.FS

type pageSet map[string]*template.Template

// A page is what stands around the text of one.
type page struct{ Title string }

type frame struct {
	page
	Style  string
	Inside bool
	CSRF   string
	Armed  []armed
	Body   any
}

// bound is a part of a page with the token that its forms need.
type bound struct {
	CSRF string
	Of   any
}

var styleSheet = func() []byte {
	b, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return b
}()

var stylePath = func() string {
	sum := sha256.Sum256(styleSheet)
	return "/style.css?v=" + hex.EncodeToString(sum[:6])
}()

func (s *server) parsePages() pageSet {
	base := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"visible": func(v any) operations.Text { return operations.Visible(fmt.Sprint(v)) }, "clock": clock, "status": statusText, "state": stateText, "toolPath": toolPath,
		"bound": func(of any) bound { return bound{s.door.csrf, of} },
	}).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html"))
	all := pageSet{}
	entries, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if path.Ext(e.Name()) == ".html" && name != "layout" && name != "parts" {
			all[name] = template.Must(template.Must(base.Clone()).ParseFS(pageFiles, "pages/"+e.Name()))
		}
	}
	return all
}

// render writes a page whole or not at all, and without the provider's
// credentials, whatever a connector did with one.
func (s *server) render(w http.ResponseWriter, status int, name string, p page, body any) {
	f := frame{page: p, Style: stylePath, Inside: name != "enter" && name != "error", CSRF: s.door.csrf, Body: body}
	if f.Inside {
		f.Armed = s.armedNow()
	}
	var b bytes.Buffer
	if err := s.pages[name].ExecuteTemplate(&b, "layout.html", f); err != nil {
		http.Error(w, "this page can not be shown", http.StatusInternalServerError)
		return
	}
	text := b.String()
	for _, secret := range s.secrets() {
		text = strings.ReplaceAll(text, secret, "[credential]")
		text = strings.ReplaceAll(text, escaped(secret), "[credential]")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the browser has gone
}

var bare = template.Must(template.New("").Parse("{{.}}"))

// escaped is a text as pages have it.
func escaped(text string) string {
	var b strings.Builder
	_ = bare.Execute(&b, text) // a text, into memory
	return b.String()
}

func (s *server) style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // its name has its content
	_, _ = w.Write(styleSheet)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }
