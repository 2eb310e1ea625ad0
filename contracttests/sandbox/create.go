package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// draft is the body of POST /api/v1/tickets.
type draft struct {
	Project     string   `json:"project"`
	Title       string   `json:"title"`
	Body        string   `json:"body"`
	Severity    string   `json:"severity"`
	Labels      []string `json:"labels"`
	ExternalRef string   `json:"external_ref"`
	Evidence    []string `json:"evidence"`
}

// operation is what one idempotency key did, as seen by one organisation.
type operation struct {
	body   string // digest of the request bytes
	status int
	answer []byte
	ticket string
	last   *stored // the ticket as created; kept although it may be deleted since
}

func operationKey(org, key string) string { return org + "\x00" + key }

// createTicket commits at most one ticket: validation, idempotency and the
// write are one critical section.
func (s *Server) createTicket(x *exchange) answer {
	key := x.r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return fail(http.StatusBadRequest, "invalid_idempotency_key", "at most 255 bytes")
	}
	ct, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || ct != "application/json" {
		return fail(http.StatusUnsupportedMediaType, "unsupported_media_type", "application/json is required")
	}
	d, faults, err := parseDraft(x.body)
	if err != nil {
		return fail(http.StatusBadRequest, "invalid_json", "the body can't be read")
	}
	u := x.who.user
	w := &s.world
	w.mu.Lock()
	out, created := func() (answer, *stored) {
		sum := digest(x.body)
		opKey := operationKey(u.Organisation, key)
		if op := w.keys[opKey]; op != nil && key != "" && !x.on.NoIdempotency {
			if op.body != sum {
				return fail(http.StatusConflict, "idempotency_key_reused", "the key belongs to another request"), nil
			}
			// The first answer again, but not to someone who lost access since.
			if w.role(u.Login, op.last.Project.ID) == RoleNone {
				return notFound(), nil
			}
			out := answer{status: op.status, body: op.answer}
			out.set("Location", s.base+"/api/v1/tickets/"+url.PathEscape(op.ticket))
			out.set("Idempotency-Replayed", "true")
			return out, nil
		}
		role := RoleNone
		if d.Project != "" {
			if role = w.role(u.Login, d.Project); role == RoleNone {
				return notFound(), nil // absent or hidden, as everywhere
			}
		}
		if len(faults) > 0 {
			return jsonAnswer(http.StatusUnprocessableEntity, problem{Error: "invalid", Errors: faults}), nil
		}
		if role == RoleReader {
			return fail(http.StatusForbidden, "forbidden", "your role in this project is reader"), nil
		}
		t := Ticket{
			ID: w.newID(), Project: ProjectRef{ID: d.Project}, Type: "ticket", Title: d.Title, Body: d.Body, State: "open",
			Status: "triage", Severity: d.Severity, Labels: w.keepLabels(d.Project, role, d.Labels), Evidence: d.Evidence,
			ExternalRef: d.ExternalRef, IdempotencyKey: key,
		}
		drop(&t, x.on.DropFields)
		w.complete(&t, u.Login, now())
		st, err := w.put(t)
		if err != nil {
			return fail(http.StatusInternalServerError, "internal", ""), nil
		}
		w.record("create", "api", st, Write{Login: u.Login, Client: x.who.client, IdempotencyKey: key, BodySHA256: sum, RequestID: x.id})
		if key != "" && !x.on.NoIdempotency {
			w.keys[opKey] = &operation{body: sum, status: http.StatusCreated, answer: st.json, ticket: st.ID, last: st}
		}
		out := answer{status: http.StatusCreated, body: st.json}
		out.set("Location", s.base+"/api/v1/tickets/"+url.PathEscape(st.ID))
		out.set("Etag", st.etag())
		return out, st
	}()
	if created != nil {
		// Inside the lock, so that events are queued in the order of the writes.
		s.hooks.ticket("ticket.created", created)
	}
	w.mu.Unlock()
	return out
}

// keepLabels drops what the project does not know, without a word, unless a
// maintainer brings it. The caller holds mu.
func (w *world) keepLabels(project string, role Role, labels []string) []string {
	known := w.labels[project]
	out := []string{}
	for _, l := range labels {
		if role == RoleMaintainer {
			known[l] = true
		}
		if known[l] && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

func drop(t *Ticket, fields []string) {
	for _, f := range fields {
		switch f {
		case "labels":
			t.Labels = nil
		case "evidence":
			t.Evidence = nil
		case "severity":
			t.Severity = "medium"
		case "external_ref":
			t.ExternalRef = ""
		}
	}
}

// parseDraft reports every fault of the fields at once; the error is for a body
// that is no JSON object at all.
func parseDraft(body []byte) (draft, []fieldError, error) {
	var d draft
	if !utf8.Valid(body) {
		return d, nil, errors.New("invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrong) && wrong.Field != "":
			return d, []fieldError{{wrong.Field, "invalid", "wrong JSON type"}}, nil
		case strings.HasPrefix(err.Error(), "json: unknown field "):
			return d, []fieldError{{strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`), "unknown", "no such field"}}, nil
		}
		return d, nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return d, nil, errors.New("trailing data")
	}
	return d, d.faults(), nil
}

func (d *draft) faults() []fieldError {
	var out []fieldError
	add := func(field, code, message string) { out = append(out, fieldError{field, code, message}) }
	text := func(field, v string, limit int) {
		if utf8.RuneCountInString(v) > limit {
			add(field, "too_long", "longer than allowed")
		}
		if strings.ContainsRune(v, 0) {
			add(field, "invalid", "contains NUL")
		}
	}
	if d.Project == "" {
		add("project", "required", "must be given")
	}
	if strings.TrimSpace(d.Title) == "" {
		add("title", "required", "must not be blank")
	}
	text("title", d.Title, 200)
	text("body", d.Body, 20000)
	text("external_ref", d.ExternalRef, 200)
	if d.Severity == "" {
		d.Severity = "medium"
	} else if !slices.Contains(severities, d.Severity) {
		add("severity", "invalid", "one of low, medium, high, critical")
	}
	for field, list := range map[string][]string{"labels": d.Labels, "evidence": d.Evidence} {
		if len(list) > 20 {
			add(field, "too_long", "at most 20")
		}
		for _, v := range list {
			if v == "" {
				add(field, "invalid", "an entry is empty")
			}
			text(field, v, 200)
		}
	}
	slices.SortStableFunc(out, func(a, b fieldError) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// findOperation tells what a key did. It reads the table of keys, not the
// search index, so its no is a no, except where the answer would show a ticket
// that the caller may not see: then it can't tell.
func (s *Server) findOperation(x *exchange) answer {
	if x.on.NoOperationLookup {
		return notFound()
	}
	w := &s.world
	w.mu.RLock()
	defer w.mu.RUnlock()
	op := w.keys[operationKey(x.who.user.Organisation, x.r.PathValue("key"))]
	if op == nil {
		return jsonAnswer(http.StatusOK, map[string]any{"found": false, "complete": true})
	}
	t, deleted := w.byID[op.ticket], false
	if t == nil {
		t, deleted = op.last, true
	}
	if w.role(x.who.user.Login, t.Project.ID) == RoleNone {
		return jsonAnswer(http.StatusOK, map[string]any{"found": false, "complete": false})
	}
	body := map[string]any{"found": true, "complete": true, "ticket": json.RawMessage(t.json)}
	if deleted {
		body["deleted"] = true
	}
	return jsonAnswer(http.StatusOK, body)
}
