package gitea

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

const (
	maxPages = 40 // of one repository in a look-up: 2,000 issues
	maxText  = 60000
	// skew is how far our clock and Gitea's may differ.
	skew = 10 * time.Minute
)

// The foot of a created text. It is visible to everyone who reads the issue,
// and to the person who approves it.
const (
	footRule     = "\n\n---\n"
	footSeverity = "Severity: "
	footEvidence = "Evidence: "
	footMark     = "Drawbridge operation: "
)

func mark(d tickets.Draft, id connector.OperationID) string {
	var b strings.Builder
	b.WriteString(d.Body + footRule + footSeverity + d.Severity + "\n")
	if len(d.Evidence) > 0 {
		// A list in JSON: evidence ids may hold any character.
		list, _ := json.Marshal(d.Evidence)
		b.WriteString(footEvidence + string(list) + "\n")
	}
	b.WriteString(footMark + string(id))
	return b.String()
}

// unmark splits a text that mark wrote; any other text comes back whole.
func unmark(text string) (body, severity string, evidence []string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	i := strings.LastIndex(text, footRule)
	if i < 0 || markOf(text) == "" {
		return text, "", nil
	}
	for line := range strings.Lines(text[i+len(footRule):]) {
		line = strings.TrimSuffix(line, "\n")
		if s, ok := strings.CutPrefix(line, footSeverity); ok && slices.Contains(tickets.Severities, s) {
			severity = s
		}
		if s, ok := strings.CutPrefix(line, footEvidence); ok && json.Unmarshal([]byte(s), &evidence) != nil {
			evidence = nil // someone edited it; what was read of it until then is no list
		}
	}
	return text[:i], severity, evidence
}

// markOf is the operation id in the last line of a text.
func markOf(text string) connector.OperationID {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), " \n")
	id, ok := strings.CutPrefix(text[strings.LastIndex(text, "\n")+1:], footMark)
	if !ok {
		return ""
	}
	return connector.OperationID(id)
}

// PlanCreate resolves label names to ids, because Gitea drops what it does not
// know without an error, and writes the marked text.
func (Driver) PlanCreate(ctx context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
	text := mark(d, a.Operation())
	if utf8.RuneCountInString(text) > maxText {
		return connector.Request{}, &connector.Error{Code: connector.CodeInvalidInput,
			Faults: []connector.Fault{{Pointer: "/body", Keyword: "maxLength"}}}
	}
	ids, err := labelIDs(ctx, a, d)
	if err != nil {
		return connector.Request{}, err
	}
	body, err := json.Marshal(struct {
		Title  string  `json:"title"`
		Body   string  `json:"body"`
		Labels []int64 `json:"labels,omitempty"`
	}{d.Title, text, ids})
	r := connector.Request{
		Method: http.MethodPost, Path: issues(d.Project), ContentType: "application/json", Body: body,
		Notes: []string{"people who watch the repository are notified",
			"severity, evidence and the operation's mark are written at the foot of the text, for all to read"},
	}
	if len(ids) > 0 {
		r.Notes = append(r.Notes, "labels "+strings.Join(d.Labels, ", ")+" are sent as ids; Gitea drops them if the account may not write to the repository")
	}
	return r, err
}

func labelIDs(ctx context.Context, a *connector.Access, d tickets.Draft) ([]int64, error) {
	if len(d.Labels) == 0 {
		return nil, nil
	}
	// A full page is not known by its length: an administrator may have set a
	// smaller one. The end is a page with nothing on it.
	known := map[string]int64{}
	missing := func(name string) bool { _, ok := known[name]; return !ok }
	for page := 1; page <= maxPages && slices.ContainsFunc(d.Labels, missing); page++ {
		labels, _, err := connector.Get[[]struct {
			ID   int64  `json:"id"`
			Name string `json:"name"`
		}](ctx, a, connector.Request{Path: strings.TrimSuffix(issues(d.Project), "/issues") + "/labels",
			Query: url.Values{"limit": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}}})
		if err != nil {
			return nil, err
		}
		if len(labels) == 0 {
			break
		}
		for _, l := range labels {
			known[l.Name] = l.ID
		}
	}
	ids := make([]int64, 0, len(d.Labels))
	var faults []connector.Fault
	for i, name := range d.Labels {
		id, ok := known[name]
		if !ok {
			faults = append(faults, connector.Fault{Pointer: "/labels/" + strconv.Itoa(i), Keyword: "enum"})
		}
		ids = append(ids, id)
	}
	if len(faults) > 0 {
		return nil, &connector.Error{Code: connector.CodeInvalidInput, Message: "the repository has no such label", Faults: faults}
	}
	return ids, nil
}

// Created reads the 201 answer.
func (Driver) Created(r connector.Response) (tickets.Ticket, error) {
	w, err := connector.DecodeJSON[wireIssue](r)
	if err != nil {
		partial, partialErr := connector.DecodeJSON[struct {
			Number     int64 `json:"number"`
			Repository struct {
				FullName string `json:"full_name"`
			} `json:"repository"`
		}](r)
		if partialErr == nil && partial.Number > 0 && partial.Repository.FullName != "" {
			return tickets.Ticket{ID: partial.Repository.FullName + "#" + strconv.FormatInt(partial.Number, 10),
				Project: partial.Repository.FullName}, err
		}
		return tickets.Ticket{}, err
	}
	if w.Repository == nil || w.Repository.FullName == "" || w.Number <= 0 {
		return tickets.Ticket{}, connector.Fail(connector.CodeProviderContract, "the created issue has no address")
	}
	return w.ticket(""), nil
}

// FindCreated lists the repository, which is read from the database and not
// from the search index, and reads the mark of every issue. Absence is claimed
// only after the whole list was seen.
func (Driver) FindCreated(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
	query := url.Values{"state": {"all"}, "type": {"issues"}, "limit": {strconv.Itoa(perPage)}}
	if t := a.Dispatched(); !t.IsZero() {
		query.Set("since", t.Add(-skew).UTC().Format(time.RFC3339))
	}
	seen, first := map[int64]bool{}, -1
	for page := 1; page <= maxPages; page++ {
		query.Set("page", strconv.Itoa(page))
		items, total, err := listPage(ctx, a, d.Project, query)
		if err != nil {
			return tickets.Ticket{}, connector.CannotTell, err
		}
		if first < 0 {
			first = total
		}
		before := len(seen)
		for _, w := range items {
			seen[w.Number] = true // a page that comes twice has shown nothing more
			// The mark is readable, so anyone could copy it into an issue of
			// their own: only an issue of our account counts.
			ours := w.User != nil && strconv.FormatInt(w.User.ID, 10) == a.Connection().Account.Subject
			if ours && markOf(w.Body) == id && w.PullRequest == nil {
				return w.ticket(d.Project), connector.FoundYes, nil
			}
		}
		// A list that moved while it was read has holes.
		if total != first {
			break
		}
		if len(seen) >= total {
			return tickets.Ticket{}, connector.FoundNo, nil
		}
		if len(seen) == before {
			break
		}
	}
	return tickets.Ticket{}, connector.CannotTell, nil
}
