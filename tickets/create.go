package tickets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func creator(d Driver, f Facts) connector.Steps[Draft, Ticket] {
	return connector.Steps[Draft, Ticket]{
		Plan: func(ctx context.Context, a *connector.Access, draft Draft) (connector.Request, error) {
			if _, err := a.Narrow([]string{draft.Project}); err != nil {
				return connector.Request{}, err
			}
			// The pattern can't know all white space, and a title of nothing that
			// a person sees would be stored as an empty one.
			if seen, _ := visible(draft.Title); strings.TrimSpace(seen) == "" {
				return connector.Request{}, &connector.Error{Code: connector.CodeInvalidInput,
					Faults: []connector.Fault{{Pointer: "/title", Keyword: "pattern"}}}
			}
			// Line ends are settled before anything is digested or shown.
			draft.Body = lines(draft.Body)
			r, err := d.PlanCreate(ctx, a, draft)
			if r.Summary == "" {
				account := a.Connection().Account
				r.Summary = fmt.Sprintf("Create a ticket in %s at %s as %s", draft.Project, account.Organisation, account.Login)
			}
			return r, err
		},
		Decode: func(r connector.Response) (Ticket, error) {
			t, err := d.Created(r)
			t.normalise()
			return t, err
		},
		ID: func(t Ticket) string { return t.ID },
		Find: func(ctx context.Context, a *connector.Access, id connector.OperationID, draft Draft) (Ticket, connector.Found, error) {
			t, found, err := d.FindCreated(ctx, a, id, draft)
			if err != nil || found != connector.FoundYes {
				return Ticket{}, found, err
			}
			if !a.Allowed(t.Project) {
				return Ticket{}, connector.CannotTell, nil
			}
			t.normalise()
			return t, found, nil
		},
		Verify: func(ctx context.Context, a *connector.Access, made Ticket, draft Draft) ([]connector.Change, error) {
			stored, err := d.Get(ctx, a, made.ID)
			if err != nil {
				return nil, err
			}
			return compare(draft, stored), nil
		},
		Dedupe: f.Dedupe,
		Settle: f.Settle,
	}
}

// compare lists the fields of a draft that the provider stored otherwise. It
// looks at the stored text before cleaning, so that nothing hides behind it.
func compare(d Draft, t Ticket) []connector.Change {
	var changes []connector.Change
	differs := func(pointer string, same bool, sent, stored string) {
		if !same {
			changes = append(changes, connector.Change{Pointer: pointer, Sent: sent, Stored: stored})
		}
	}
	severity, _ := t.Severity.Get()
	differs("/project", d.Project == t.Project, d.Project, t.Project)
	differs("/title", sameText(d.Title, t.Title), d.Title, t.Title)
	differs("/body", sameText(d.Body, t.Body), d.Body, t.Body)
	differs("/severity", d.Severity == severity, d.Severity, severity)
	differs("/labels", sameSet(d.Labels, t.Labels), strings.Join(d.Labels, ", "), strings.Join(t.Labels, ", "))
	differs("/evidence", sameSet(d.Evidence, t.Evidence), strings.Join(d.Evidence, ", "), strings.Join(t.Evidence, ", "))
	return changes
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
