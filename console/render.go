package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/operations"
)

//go:embed pages
var pageFiles embed.FS

// A page is what stands around the text of one.
type page struct {
	Title   string
	Command string // does the same in a terminal; empty: none does
	Onward  string // the browser goes there by itself
}

// frame is what a template gets.
type frame struct {
	page
	Style      string // address of the style sheet
	Who        *session
	Name       string
	Tenant     string
	CSRF       string
	Deliveries bool
	Section    string // the first part of the path
	SignIn     string // what the identity provider is called
	Body       any
}

var (
	styleSheet = mustRead("pages/style.css")
	stylePath  = func() string {
		sum := sha256.Sum256(styleSheet)
		return "/style.css?v=" + hex.EncodeToString(sum[:6])
	}()
	templates = parsePages()
)

func mustRead(name string) []byte {
	b, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return b
}

func parsePages() map[string]*template.Template {
	base := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"visible": visible, "when": when, "join": strings.Join, "status": statusText, "reason": reasonText,
		"state": stateText, "approval": approvalText, "step": stepText,
	}).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	entries, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if path.Ext(e.Name()) != ".html" || name == "layout" || name == "parts" {
			continue
		}
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(pageFiles, "pages/"+e.Name()))
	}
	return all
}

// render writes a page whole or not at all.
func (c *Console) render(w http.ResponseWriter, r *http.Request, s *session, status int, name string, p page, body any) {
	section, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	f := frame{page: p, Style: stylePath, Who: s, Deliveries: c.cfg.Deliveries != nil, Section: section, Body: body}
	if s != nil {
		f.Name, f.Tenant, f.CSRF = s.name, string(s.caller.Tenant), s.csrf()
	}
	if c.cfg.OIDC != nil {
		f.SignIn = c.cfg.OIDC.label()
	}
	var b bytes.Buffer
	if err := templates[name].ExecuteTemplate(&b, "layout.html", f); err != nil {
		c.log.ErrorContext(r.Context(), "page can not be written", "page", name, "err", err)
		http.Error(w, "this page can not be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // the browser has gone
}

// style is named by its content, so a browser may keep it.
func (c *Console) style(w http.ResponseWriter, r *http.Request, _ *session) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(styleSheet)
}

// visible is how every foreign text gets onto a page.
func visible(v any) operations.Text {
	switch v := v.(type) {
	case operations.Text:
		return v
	case string:
		return operations.Visible(v)
	}
	return operations.Visible(fmt.Sprint(v))
}

// moment is a time for people and for programs.
type moment struct{ ISO, Exact, Near string }

func when(t time.Time) moment {
	t = t.UTC()
	return moment{t.Format(time.RFC3339), t.Format("2 Jan 2006 15:04:05 UTC"), near(time.Since(t))}
}

func near(ago time.Duration) string {
	form := "%s ago"
	if ago < 0 {
		form, ago = "in %s", -ago
	}
	switch {
	case ago < time.Minute:
		return fmt.Sprintf(form, fmt.Sprintf("%d s", ago/time.Second))
	case ago < time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d min", ago/time.Minute))
	case ago < 48*time.Hour:
		return fmt.Sprintf(form, fmt.Sprintf("%d h", ago/time.Hour))
	}
	return fmt.Sprintf(form, fmt.Sprintf("%d days", ago/(24*time.Hour)))
}

func statusText(s credentials.Status) string {
	switch s {
	case credentials.StatusActive:
		return "works"
	case credentials.StatusDegraded:
		return "works for now; the application's registration at the provider has a fault that an administrator must mend"
	case credentials.StatusReconnectRequired:
		return "must be connected again"
	case credentials.StatusDisconnecting:
		return "disconnected here; the provider is still to be told"
	case credentials.StatusDisconnected:
		return "disconnected"
	}
	return string(s)
}

func reasonText(r credentials.Reason) string {
	switch r {
	case credentials.ReasonInvalidGrant:
		return "the provider ended it"
	case credentials.ReasonLostRotation:
		return "a new token was lost on its way here"
	case credentials.ReasonRevoked:
		return "the provider refused a fresh token"
	case credentials.ReasonIntegrity:
		return "the stored record was altered"
	case credentials.ReasonNoRefreshToken:
		return "it ran out, and the provider gave nothing to renew it with"
	case credentials.ReasonKeyRefused:
		return "the provider does not accept the key"
	case credentials.ReasonUnclassified:
		return "the provider refused it again and again"
	}
	return string(r)
}

func stateText(s connector.OperationState) string {
	switch s {
	case connector.StateAwaitingApproval:
		return "waits for an approval"
	case connector.StateApproved:
		return "approved, not sent yet"
	case connector.StateDispatching:
		return "being sent"
	case connector.StateApplied:
		return "done"
	case connector.StateRejected:
		return "not done: refused, or shown to be absent"
	case connector.StateNotSent:
		return "not sent"
	case connector.StateUnknown:
		return "outcome unknown; being looked up"
	case connector.StateUnresolved:
		return "outcome unknown; a person must decide"
	}
	return string(s)
}

func approvalText(s operations.ApprovalState) string {
	switch s {
	case operations.ApprovalPending:
		return "waits for you"
	case operations.ApprovalApproved:
		return "approved; the next run of the same call sends it, once"
	case operations.ApprovalUsed:
		return "approved and used"
	}
	return string(s) // denied, expired, withdrawn
}

func stepText(s credentials.Step) string {
	switch s.State {
	case credentials.StepDone:
		return "done"
	case credentials.StepPending:
		return "pending; it is tried again"
	case credentials.StepFailed:
		return "failed"
	}
	return "nothing to do"
}
