// Package gitea is the ticket driver for Gitea's issues (API v1, Gitea 1.26).
//
// What Gitea does differently is declared as facts and handled here: scopes that
// fail open, filters that return everything when they match nothing, fields that
// are dropped without an error, page numbers instead of positions, no idempotency
// key. A create is therefore marked in its text and found again by listing.
package gitea

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// Driver is stateless; the zero value is ready.
type Driver struct{}

// Facts describes Gitea 1.26 as its source and the contract tests show it.
func (Driver) Facts() tickets.Facts {
	return tickets.Facts{
		Provider: "gitea", ProviderVersion: "v1 (1.26)",
		ReadScopes: []string{"read:issue", "read:repository"}, WriteScopes: []string{"write:issue", "read:repository"},
		ConnectScopes: []string{"read:user"},
		Dedupe:        connector.Dedupe{Kind: connector.DedupeMarker},
		Settle:        30 * time.Second,
		Limitations: []string{
			"no idempotency key: a lost answer is settled by listing the project and reading the mark in each text",
			"a lost answer can't be settled when someone edited the mark out of the text before the look-up",
			"keyword search runs on an index and can miss what was written in the last moments",
			"pages are numbered: what changes between two pages can repeat or hide an item",
			"labels are dropped without an error when the account may not write to the repository",
			"severity and evidence have no field; they are kept in the text",
			"one repository is searched after the other",
		},
	}
}

type wireIssue struct {
	Number int64   `json:"number"`
	Title  string  `json:"title"`
	Body   string  `json:"body"`
	State  string  `json:"state"`
	User   *person `json:"user"`
	Labels []struct {
		Name string `json:"name"`
	} `json:"labels"`
	PullRequest *struct{} `json:"pull_request"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Repository  *struct {
		FullName string `json:"full_name"`
		Archived *bool  `json:"archived"` // not in the short form that lists bring
	} `json:"repository"`
}

type person struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
}

func (w wireIssue) ticket(repo string) tickets.Ticket {
	if w.Repository != nil && w.Repository.FullName != "" {
		repo = w.Repository.FullName
	}
	body, severity, evidence := unmark(w.Body)
	t := tickets.Ticket{
		ID: repo + "#" + strconv.FormatInt(w.Number, 10), Project: repo, Title: w.Title, Body: body, State: w.State,
		Status: w.State, Evidence: evidence, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
		// Issues have no version of their own; the time of the last change is
		// the nearest thing, with a resolution of one second.
		Version: w.UpdatedAt.UTC().Format(time.RFC3339),
	}
	if severity != "" {
		t.Severity, t.SeverityAs = tickets.Some(severity), tickets.Some(severity)
	}
	if w.User == nil {
		t.Author = tickets.Null[string]()
	} else {
		t.Author = tickets.Some(w.User.Login)
	}
	for _, l := range w.Labels {
		t.Labels = append(t.Labels, l.Name)
	}
	if w.Repository != nil && w.Repository.Archived != nil {
		t.Archived = tickets.Of(w.Repository.Archived)
	}
	return t
}

// Get reads one issue. A pull request has the same address and is no ticket.
func (Driver) Get(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
	repo, number, ok := strings.Cut(id, "#")
	n, err := strconv.ParseInt(number, 10, 64)
	// 007 would be another name for 7, and an id has one form.
	if !ok || err != nil || n <= 0 || strconv.FormatInt(n, 10) != number || !a.Allowed(repo) {
		return tickets.Ticket{}, connector.Fail(connector.CodeNotFound, "not an id of this connection")
	}
	w, _, err := connector.Get[wireIssue](ctx, a, connector.Request{Path: issues(repo) + "/" + number})
	switch {
	case err != nil:
	case w.Number != n:
		err = connector.Fail(connector.CodeProviderContract, "the answer is not the issue that was asked for")
	case w.PullRequest != nil:
		err = connector.Fail(connector.CodeNotFound, "not a ticket")
	}
	return w.ticket(repo), err
}

// issues is the path of a repository's issues. The repository comes from the
// grant, never from a caller's text alone.
func issues(repo string) string {
	owner, name, _ := strings.Cut(repo, "/")
	return "/api/v1/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/issues"
}

// Classify knows Gitea's own ways to refuse.
func (Driver) Classify(q connector.Request, r connector.Response) *connector.Error {
	var e *connector.Error
	switch r.Status {
	case http.StatusForbidden:
		answer, err := connector.DecodeJSON[struct {
			Message string `json:"message"`
		}](r)
		if err != nil || !strings.Contains(answer.Message, "required scope") {
			return nil
		}
		e = connector.Fail(connector.CodeScopeRequired, "")
		e.Scopes = requiredScopes(answer.Message)
	case http.StatusLocked:
		e = connector.Fail(connector.CodeConflict, "the repository is archived")
	case http.StatusMovedPermanently:
		// A renamed repository answers 301 to every method, before doing anything.
		e = connector.Fail(connector.CodeMoved, "the repository or its owner was renamed")
	default:
		return nil
	}
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		e.Effect = connector.DispositionNotApplied
	}
	return e
}

// requiredScopes reads the names behind "required=[a,b]" in Gitea's text.
func requiredScopes(message string) []string {
	_, rest, ok := strings.Cut(message, "required=[")
	list, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return nil
	}
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
