package broken

import (
	"context"
	"net/http"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// wire takes odd answers for good ones.
func wire() []Connector {
	return []Connector{
		by("C4", "takes a list that was cut off for an empty one", func() *driver {
			return &driver{search: emptyWhen(func(r connector.Response) bool {
				return r.Status == http.StatusOK && !html(r)
			})}
		}),
		by("C5", "takes a sign-in page for an empty list", func() *driver {
			return &driver{search: emptyWhen(html)}
		}),
		by("C7", "calls a rate limit an outage", func() *driver {
			return &driver{classify: func(_ connector.Request, r connector.Response) *connector.Error {
				if r.Status == 429 {
					return connector.Fail(connector.CodeUnavailable, "")
				}
				return nil
			}}
		}),
		by("C7", "forgets how long it was asked to wait", func() *driver {
			return &driver{classify: func(_ connector.Request, r connector.Response) *connector.Error {
				if r.Status == 429 {
					return connector.Fail(connector.CodeRateLimited, "")
				}
				return nil
			}}
		}),
		by("B6", "passes on what the provider wrote into its refusal", func() *driver {
			return &driver{classify: func(_ connector.Request, r connector.Response) *connector.Error {
				if r.Status == 400 {
					return connector.Fail(connector.CodeInvalidInput, "the provider says: %s", r.Body)
				}
				return nil
			}}
		}),
		by("G3", "goes on when its caller has gone", func() *driver {
			return &driver{get: func(ctx context.Context, a *connector.Access, id string) (tickets.Ticket, error) {
				return honest.Get(context.WithoutCancel(ctx), a, id)
			}}
		}),
	}
}

func html(r connector.Response) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "text/html")
}

// emptyWhen asks once more when a search has failed, and takes some failures of
// the transport for an answer.
func emptyWhen(takes func(connector.Response) bool) searching {
	return func(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (page, error) {
		out, err := honest.Search(ctx, a, q, p)
		if err == nil {
			return out, nil
		}
		if r, again := a.Get(ctx, connector.Request{Path: "/api/v1/tickets"}); again != nil && takes(r) {
			return page{}, nil
		}
		return out, err
	}
}
