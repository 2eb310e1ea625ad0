package sandbox

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func (t *stored) etag() string {
	return `"` + t.ID + "." + strconv.FormatInt(t.Version, 10) + `"`
}

// question is a parsed list request.
type question struct {
	allowed  []bool // by project index: on the access list and asked for
	text     string // lower case
	label    string
	severity string
	ref      string
	hasRef   bool
	state    string // "open", "closed", "all"
	kind     string // "ticket", "all"
	archived string // "exclude", "only", "include"
	since    time.Time
	limit    int
	after    *position
}

// position is the last item of the page before. The list is newest first and
// its key never changes, so inserts and updates between two pages neither
// repeat nor skip an item that was there at the first one.
type position struct {
	created time.Time
	id      string
}

func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte("p1 " + strconv.FormatInt(p.created.UnixMilli(), 36) + " " + p.id))
}

func parseCursor(text string) (*position, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	parts := strings.SplitN(string(raw), " ", 3)
	if len(parts) != 3 || parts[0] != "p1" || parts[2] == "" {
		return nil, false
	}
	ms, err := strconv.ParseInt(parts[1], 36, 64)
	if err != nil {
		return nil, false
	}
	return &position{time.UnixMilli(ms).UTC(), parts[2]}, true
}

// oneOf reads a closed parameter with a default.
func oneOf(q url.Values, name string, values ...string) (string, bool) {
	v := q.Get(name)
	if v == "" {
		return values[0], true
	}
	for _, ok := range values {
		if v == ok {
			return v, true
		}
	}
	return "", false
}

func parseQuestion(x *exchange) (question, string) {
	v := x.r.URL.Query()
	q := question{text: strings.ToLower(v.Get("q")), ref: v.Get("external_ref"), hasRef: v.Has("external_ref"), limit: 30}
	var ok bool
	// Only open tickets unless asked: the hidden default of real providers.
	if q.state, ok = oneOf(v, "state", "open", "closed", "all"); !ok {
		return q, "state"
	}
	if q.kind, ok = oneOf(v, "type", "all", "ticket"); !ok {
		return q, "type"
	}
	if q.archived, ok = oneOf(v, "archived", "exclude", "only", "include"); !ok {
		return q, "archived"
	}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return q, "limit"
		}
		q.limit = n
	}
	if text := v.Get("updated_since"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return q, "updated_since"
		}
		q.since = at
	}
	if text := v.Get("cursor"); text != "" && text != x.on.ConstantCursor {
		if q.after, ok = parseCursor(text); !ok {
			return q, "cursor"
		}
	}
	asked := v["project"]
	if v.Get("qlang") == "1" {
		asked = q.language(asked)
	}
	q.allowed = make([]bool, len(projects))
	for i, p := range projects {
		q.allowed[i] = len(asked) == 0
		for _, id := range asked {
			q.allowed[i] = q.allowed[i] || id == p.ID
		}
	}
	return q, ""
}

// language takes field:value terms out of the text. They win over the
// parameters, as qualifiers of real search languages do, so free text that is
// passed on as language changes the question.
func (q *question) language(asked []string) []string {
	var words, fromText []string
	for _, word := range strings.Fields(q.text) {
		field, value, ok := strings.Cut(word, ":")
		switch {
		case ok && field == "state" && (value == "open" || value == "closed" || value == "all"):
			q.state = value
		case ok && field == "project":
			fromText = append(fromText, value)
		case ok && field == "label":
			q.label = value
		case ok && field == "severity":
			q.severity = value
		case ok && field == "archived" && (value == "only" || value == "include" || value == "exclude"):
			q.archived = value
		default:
			words = append(words, word)
		}
	}
	q.text = strings.Join(words, " ")
	if fromText != nil {
		return fromText
	}
	return asked
}

func (q *question) matches(t *stored, lag time.Duration, at time.Time) bool {
	if !q.allowed[t.project] {
		return false
	}
	if q.state != "all" && t.State != q.state || q.kind == "ticket" && t.Type != "ticket" {
		return false
	}
	if q.archived == "exclude" && t.Archived || q.archived == "only" && !t.Archived {
		return false
	}
	if q.hasRef && t.ExternalRef != q.ref || q.severity != "" && t.Severity != q.severity {
		return false
	}
	if !q.since.IsZero() && t.UpdatedAt.Before(q.since) {
		return false
	}
	if q.label != "" && !contains(t.Labels, q.label) {
		return false
	}
	if lag > 0 && (q.text != "" || q.hasRef) && at.Sub(t.seen) < lag {
		return false
	}
	return q.text == "" || strings.Contains(t.search, q.text)
}

func contains(list []string, v string) bool {
	for _, s := range list {
		if s == v {
			return true
		}
	}
	return false
}

func (s *Server) listTickets(x *exchange) answer {
	q, bad := parseQuestion(x)
	if bad == "cursor" {
		return fail(http.StatusBadRequest, "invalid_cursor", "the cursor can't be read")
	}
	if bad != "" {
		return jsonAnswer(http.StatusBadRequest, problem{Error: "invalid_parameter", Errors: []fieldError{{bad, "invalid", "not one of the allowed values"}}})
	}
	var (
		w     = &s.world
		lag   = time.Duration(x.on.IndexLagMS) * time.Millisecond
		at    = time.Now()
		items = make([]*stored, 0, q.limit)
		size  = 64
		total int
		more  bool
	)
	w.mu.RLock()
	for i := range projects {
		q.allowed[i] = q.allowed[i] && w.role(x.who.user.Login, projects[i].ID) != RoleNone
	}
	for i := len(w.order) - 1; i >= 0; i-- {
		t := w.order[i]
		if !q.matches(t, lag, at) {
			continue
		}
		total++
		if q.after != nil && compareKey(t.CreatedAt, t.ID, q.after.created, q.after.id) >= 0 {
			continue
		}
		if len(items) == q.limit {
			more = true
			continue
		}
		items = append(items, t)
		size += len(t.json) + 1
	}
	w.mu.RUnlock()

	var b bytes.Buffer
	b.Grow(size + 128)
	b.WriteString(`{"items":[`)
	for i, t := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(t.json)
	}
	b.WriteString(`],"next_cursor":`)
	switch {
	case x.on.ConstantCursor != "":
		b.WriteString(strconv.Quote(x.on.ConstantCursor))
	case more && !x.on.NoNextCursor:
		last := items[len(items)-1]
		b.WriteString(`"` + position{last.CreatedAt, last.ID}.cursor() + `"`)
	default:
		b.WriteString("null")
	}
	b.WriteString(`,"total":`)
	b.WriteString(strconv.Itoa(total))
	b.WriteByte('}')
	return answer{status: http.StatusOK, body: b.Bytes()}
}
