package gitea

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// DecodeEvent reads a delivery of Gitea. The event type is a header that its
// signature does not cover, so a wrong one may at most cost a fetch.
func (Driver) DecodeEvent(eventType string, payload []byte) ([]tickets.Changed, error) {
	if eventType != "issues" && eventType != "issue_comment" && eventType != "repository" {
		return nil, nil
	}
	e, err := connector.DecodeJSON[struct {
		Action string `json:"action"`
		Issue  *struct {
			Number      int64     `json:"number"`
			PullRequest *struct{} `json:"pull_request"`
		} `json:"issue"`
		PullRequest *struct{} `json:"pull_request"`
		Repository  *struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}](connector.Response{Body: payload})
	switch {
	case err != nil, e.Repository == nil:
		return nil, tickets.ErrEvent
	case eventType == "repository":
		return []tickets.Changed{{Project: e.Repository.FullName, Removes: e.Action == "deleted"}}, nil
	case e.Issue == nil || e.Issue.Number <= 0:
		return nil, tickets.ErrEvent
	case e.PullRequest != nil || e.Issue.PullRequest != nil:
		return nil, nil
	}
	return []tickets.Changed{{
		ID:      e.Repository.FullName + "#" + strconv.FormatInt(e.Issue.Number, 10),
		Project: e.Repository.FullName,
		// A deleted comment leaves its issue.
		Removes: eventType == "issues" && e.Action == "deleted",
	}}, nil
}

const sweepPage = 50

// Sweep lists one repository after the other, as Search does. A page that moved
// because something was deleted can hide an issue from one sweep, never from
// the fetch that decides what became of it.
func (Driver) Sweep(ctx context.Context, a *connector.Access, q tickets.SweepQuery) (tickets.Inventory, error) {
	var page tickets.Inventory
	repos := slices.Sorted(slices.Values(q.Projects))
	at, ok := parsePosition(q.Cursor)
	if !ok {
		return page, connector.Fail(connector.CodeCursorInvalid, "")
	}
	if at.repo == "" {
		at = first(repos[0])
	}
	i := slices.Index(repos, at.repo)
	if i < 0 {
		return page, connector.Fail(connector.CodeCursorInvalid, "")
	}
	query := url.Values{"state": {"all"}, "type": {"issues"}, "page": {strconv.Itoa(at.page)}, "limit": {strconv.Itoa(sweepPage)}}
	if !q.Since.IsZero() {
		query.Set("since", q.Since.UTC().Format(time.RFC3339))
	}
	items, resp, err := connector.Get[[]wireIssue](ctx, a, connector.Request{Path: issues(at.repo), Query: query})
	switch {
	case connector.CodeOf(err) == connector.CodeNotFound:
		// Deleted or hidden: it has no issues for this connection, and must not
		// take the other repositories along.
	case err != nil:
		return page, err
	case items == nil:
		return page, connector.Fail(connector.CodeProviderContract, "the list is null")
	case at.repeats(items):
		return page, connector.Fail(connector.CodeProviderContract, "the list repeats a page")
	default:
		page.Clock, _ = http.ParseTime(resp.Header.Get("Date"))
	}
	for _, w := range items {
		if w.PullRequest == nil {
			t := w.ticket(at.repo)
			page.Entries = append(page.Entries, tickets.Entry{ID: t.ID, Project: t.Project, Version: t.Version})
		}
	}
	// Only an empty page is an end: a page may be smaller than asked for.
	switch {
	case len(items) > 0:
		page.Next = at.next(items, 0).String()
	case i+1 < len(repos):
		page.Next = first(repos[i+1]).String()
	}
	return page, nil
}
