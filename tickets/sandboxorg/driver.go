// Package sandboxorg is the ticket driver for the sandbox organisation that the
// contract tests run against.
package sandboxorg

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

const maxEvidence = 200 // characters of one id

// Driver is stateless; the zero value is ready.
type Driver struct{}

// Facts describes the sandbox with its default behaviour.
func (Driver) Facts() tickets.Facts {
	return tickets.Facts{
		Provider: "sandbox", ProviderVersion: "v1",
		ReadScopes: []string{"tickets:read"}, WriteScopes: []string{"tickets:read", "tickets:write"},
		ConnectScopes: []string{"profile:read", "offline_access"},
		Dedupe:        connector.Dedupe{Kind: connector.DedupeHeader, Name: "Idempotency-Key"},
		Settle:        2 * time.Second,
		Limitations: []string{
			"labels that the project does not know are dropped by the provider without an error",
			"archived tickets are left out of a search",
		},
	}
}

// The wire form. Private notes and contact fields have no place to land in.
type wireTicket struct {
	ID      string `json:"id"`
	Project struct {
		ID string `json:"id"`
	} `json:"project"`
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Body     string   `json:"body"`
	State    string   `json:"state"`
	Status   string   `json:"status"`
	Severity *string  `json:"severity"`
	Labels   []string `json:"labels"`
	Archived bool     `json:"archived"`
	Evidence []string `json:"evidence"`
	Author   struct {
		Login string `json:"login"`
	} `json:"author"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Version   int64     `json:"version"`
}

func (w wireTicket) ticket() tickets.Ticket {
	return tickets.Ticket{
		ID: w.ID, Project: w.Project.ID, Title: w.Title, Body: w.Body, State: w.State, Status: w.Status,
		Severity: tickets.Of(w.Severity), SeverityAs: tickets.Of(w.Severity), Labels: w.Labels, Evidence: w.Evidence,
		Author: tickets.Some(w.Author.Login), Archived: tickets.Some(w.Archived),
		CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, Version: strconv.FormatInt(w.Version, 10),
	}
}

// Identify reads the account, its organisation, scopes and projects.
func (Driver) Identify(ctx context.Context, a *connector.Access) (connector.Identity, error) {
	me, _, err := connector.Get[struct {
		Subject      string               `json:"subject"`
		Login        string               `json:"login"`
		Organisation connector.Resource   `json:"organisation"`
		Scopes       []string             `json:"scopes"`
		Projects     []connector.Resource `json:"projects"`
	}](ctx, a, connector.Request{Path: "/api/v1/me"})
	if err != nil {
		return connector.Identity{}, err
	}
	return connector.Identity{
		Account: connector.Account{Subject: me.Subject, Login: me.Login, Organisation: me.Organisation.Name},
		Scopes:  me.Scopes, Resources: me.Projects,
	}, nil
}

// Search asks for tickets only, of the given state, never archived ones; the
// text goes as text, without the provider's query language.
func (Driver) Search(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (connector.Page[tickets.Ticket], error) {
	query := url.Values{
		"q": {q.Text}, "project": q.Projects, "state": {q.State}, "type": {"ticket"}, "archived": {"exclude"},
		"limit": {strconv.Itoa(p.PageSize)},
	}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	var page connector.Page[tickets.Ticket]
	list, _, err := connector.Get[struct {
		Items      []wireTicket `json:"items"`
		NextCursor *string      `json:"next_cursor"`
		Total      *int         `json:"total"`
	}](ctx, a, connector.Request{Path: "/api/v1/tickets", Query: query})
	if err == nil && list.Items == nil {
		// An error in a success answer must not pass for an empty page.
		err = connector.Fail(connector.CodeProviderContract, "the list has no items")
	}
	if err != nil {
		return page, err
	}
	page.Fetched, page.Total = len(list.Items), list.Total
	page.Items = make([]tickets.Ticket, 0, len(list.Items))
	for _, w := range list.Items {
		if w.Type == "ticket" {
			page.Items = append(page.Items, w.ticket())
		}
	}
	if list.NextCursor != nil {
		page.Next = *list.NextCursor
	}
	return page, nil
}

// Get reads one ticket.
func (Driver) Get(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
	// What can't be one segment of a path is no id: it answers like any other
	// that does not exist, and is not asked for.
	if strings.ContainsAny(id, `/\%`) || strings.Trim(id, ".") == "" {
		return tickets.Ticket{}, connector.Fail(connector.CodeNotFound, "not an id")
	}
	w, _, err := connector.Get[wireTicket](ctx, a, connector.Request{Path: "/api/v1/tickets/" + url.PathEscape(id), Cacheable: true})
	switch {
	case err != nil:
	case w.ID != id:
		err = connector.Fail(connector.CodeProviderContract, "the answer is not the ticket that was asked for")
	case w.Type != "ticket":
		err = connector.Fail(connector.CodeNotFound, "not a ticket")
	}
	return w.ticket(), err
}

// PlanCreate writes the request. The operation id goes into external_ref, so
// that a list can find the ticket when the operation look-up can't.
func (Driver) PlanCreate(_ context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
	// Longer ids than the provider takes are refused before a person is asked.
	var faults []connector.Fault
	for i, e := range d.Evidence {
		if utf8.RuneCountInString(e) > maxEvidence {
			faults = append(faults, connector.Fault{Pointer: "/evidence/" + strconv.Itoa(i), Keyword: "maxLength"})
		}
	}
	if len(faults) > 0 {
		return connector.Request{}, &connector.Error{Code: connector.CodeInvalidInput, Faults: faults}
	}
	body, err := json.Marshal(struct {
		tickets.Draft
		ExternalRef connector.OperationID `json:"external_ref"`
	}{d, a.Operation()})
	return connector.Request{
		Method: http.MethodPost, Path: "/api/v1/tickets", ContentType: "application/json", Body: body,
		Notes: []string{"labels that the project does not know are dropped", "everyone who follows the project is notified"},
	}, err
}

// Created reads the 201 answer.
func (Driver) Created(r connector.Response) (tickets.Ticket, error) {
	w, err := connector.DecodeJSON[wireTicket](r)
	if err != nil {
		// The id matters more than the rest: with it the write is proven. It
		// has to come from a whole document, not from the part before the fault.
		partial, partialErr := connector.DecodeJSON[struct {
			ID string `json:"id"`
		}](r)
		if partialErr != nil {
			return tickets.Ticket{}, err
		}
		return tickets.Ticket{ID: partial.ID}, err
	}
	return w.ticket(), nil
}

// FindCreated asks the operation look-up, which is strongly consistent. An
// organisation without it has only a list, whose silence proves nothing.
func (Driver) FindCreated(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
	op, _, err := connector.Get[struct {
		Found    bool        `json:"found"`
		Complete bool        `json:"complete"`
		Ticket   *wireTicket `json:"ticket"`
	}](ctx, a, connector.Request{Path: "/api/v1/operations/" + url.PathEscape(string(id))})
	switch {
	case connector.CodeOf(err) == connector.CodeNotFound:
		return byReference(ctx, a, id, d)
	case err != nil:
		return tickets.Ticket{}, connector.CannotTell, err
	case op.Found && op.Ticket != nil:
		return op.Ticket.ticket(), connector.FoundYes, nil
	case !op.Found && op.Complete:
		// An organisation that ignores keys has none in its table, and would
		// deny a ticket that is there. The list must lack it as well; the search
		// by reference only spares the walk.
		if t, found, err := byReference(ctx, a, id, d); err != nil || found == connector.FoundYes {
			return t, found, err
		}
		return byListing(ctx, a, id, d)
	}
	return tickets.Ticket{}, connector.CannotTell, nil
}

const (
	listPages = 300 // of one project, 100 tickets each
	// skew is how far our clock and the organisation's may differ. A walk is as
	// long as what was made since then.
	skew = time.Minute
)

// byListing walks the project's list, newest first, back to well before the
// write left. The plain list has no index, so its silence is an absence; the
// search by reference has one, and only finds.
func byListing(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
	query := url.Values{"project": {d.Project}, "state": {"all"}, "type": {"all"}, "archived": {"include"}, "limit": {"100"}}
	seen := 0
	for range listPages {
		list, _, err := connector.Get[referenceList](ctx, a, connector.Request{Path: "/api/v1/tickets", Query: query})
		if err != nil {
			return tickets.Ticket{}, connector.CannotTell, err
		}
		for _, w := range list.Items {
			if w.ExternalRef == string(id) {
				return w.ticket(), connector.FoundYes, nil
			}
			if t := a.Dispatched(); !t.IsZero() && w.CreatedAt.Before(t.Add(-skew)) {
				return tickets.Ticket{}, connector.FoundNo, nil
			}
		}
		seen += len(list.Items)
		if list.NextCursor == nil {
			// The end, if the organisation counts no more than it showed.
			if list.Total == nil || *list.Total > seen {
				return tickets.Ticket{}, connector.CannotTell, nil
			}
			return tickets.Ticket{}, connector.FoundNo, nil
		}
		query.Set("cursor", *list.NextCursor)
	}
	return tickets.Ticket{}, connector.CannotTell, nil
}

type referenceList struct {
	Items []struct {
		wireTicket
		ExternalRef string `json:"external_ref"`
	} `json:"items"`
	NextCursor *string `json:"next_cursor"`
	Total      *int    `json:"total"`
}

func byReference(ctx context.Context, a *connector.Access, id connector.OperationID, d tickets.Draft) (tickets.Ticket, connector.Found, error) {
	list, _, err := connector.Get[referenceList](ctx, a, connector.Request{Path: "/api/v1/tickets", Query: url.Values{
		"external_ref": {string(id)}, "project": {d.Project}, "state": {"all"}, "archived": {"include"}}})
	if err != nil {
		return tickets.Ticket{}, connector.CannotTell, err
	}
	for _, w := range list.Items {
		// A filter that the provider ignored would return other tickets.
		if w.ExternalRef == string(id) {
			return w.ticket(), connector.FoundYes, nil
		}
	}
	return tickets.Ticket{}, connector.CannotTell, nil
}

// Classify knows the sandbox's rate limit in a 403 and its missing-scope answer.
func (Driver) Classify(q connector.Request, r connector.Response) *connector.Error {
	if r.Status != http.StatusForbidden && r.Status != http.StatusConflict {
		return nil
	}
	answer, err := connector.DecodeJSON[struct {
		Error   string `json:"error"`
		Message string `json:"message"`
		Scope   string `json:"scope"`
	}](r)
	if err != nil {
		return nil
	}
	refused := connector.DispositionNotApplied
	if q.Method == http.MethodGet || q.Method == http.MethodHead {
		refused = connector.DispositionNone // a read has nothing to apply
	}
	switch {
	case r.Status == http.StatusForbidden && strings.Contains(strings.ToLower(answer.Message), "rate limit"):
		e := connector.Fail(connector.CodeRateLimited, "the provider asks to wait")
		e.RetryAfter, e.Guessed = r.RetryAfter, r.RetryAfter == 0
		if e.Guessed {
			e.RetryAfter = time.Minute
		}
		e.Effect = refused
		return e
	case answer.Error == "insufficient_scope":
		e := connector.Fail(connector.CodeScopeRequired, "")
		e.Scopes = strings.Fields(answer.Scope)
		e.Effect = refused
		return e
	case answer.Error == "idempotency_key_reused":
		// Our key was used with other bytes: what happened to ours is not said.
		e := connector.Fail(connector.CodeOutcomeUnknown, "")
		e.Effect = connector.DispositionUnknown
		return e
	}
	return nil
}
