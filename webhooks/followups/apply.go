package followups

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// kind begins the kinds of our lanes; the follow-up's name ends them.
const kind = "followup:"

// Takes says whether a lane is one of a follow-up.
func Takes(l inbox.Lane) bool { return strings.HasPrefix(l.Kind, kind) }

// Schedule marks the lanes of what follows a change, in its transaction; it is for
// mirror.Config.OnChange.
func (s *Service) Schedule(ctx context.Context, tx *store.Tx, c mirror.Change) error {
	if c.ID == "" {
		return nil
	}
	var marks []inbox.Mark
	for _, f := range s.c.FollowUps {
		if f = s.named[f.Name]; f.Provider == c.Provider && slices.Contains(f.On, c.Type) {
			marks = append(marks, inbox.Mark{Lane: inbox.Lane{Tenant: c.Tenant, Provider: c.Provider, Connection: c.Connection, Kind: kind + f.Name, Object: c.ID}})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	return s.c.Inbox.Mark(ctx, tx, marks)
}

// Apply makes the read of a lane that it Takes; it is for inbox.WorkerConfig. A lane
// of a follow-up that is not registered any more, or of a connection that has ended,
// ends with nothing.
func (s *Service) Apply(ctx context.Context, l inbox.Lease) error {
	f, ok := s.named[strings.TrimPrefix(l.Kind, kind)]
	if !ok || f.Provider != l.Provider {
		return s.end(ctx, l, nil)
	}
	if err := s.check(f); err != nil {
		return err
	}
	tenant, id := connector.TenantID(l.Tenant), connector.ConnectionID(l.Connection)
	conn, err := s.c.Connection(ctx, tenant, id)
	if err != nil {
		if _, ended, _ := s.c.Ended(ctx, tenant, id); ended {
			return s.end(ctx, l, nil)
		}
		return pause(err)
	}
	arguments, err := f.arguments(l.Object)
	if err != nil {
		return err
	}
	result := s.c.Providers[f.Provider].Runtime.Execute(ctx, connector.Caller{Tenant: conn.Tenant, Principal: conn.Principal, Connection: conn.ID},
		connector.Call{Tool: f.Operation, Arguments: arguments, Step: kind + f.Name})
	if result.Error != nil {
		switch e := result.Error; e.Code {
		case connector.CodeNotFound, connector.CodeMoved, connector.CodeGone:
		default:
			return pause(&connector.Error{Code: e.Code, Message: e.Message, RetryAfter: time.Duration(e.RetryAfter * float64(time.Second))})
		}
	}
	return s.end(ctx, l, func(tx *store.Tx) error {
		return f.Done(ctx, tx, Done{FollowUp: f.Name, Connection: conn, ID: l.Object, Result: result})
	})
}

// end ends the lane's lease, with what is to be stored or nothing.
func (s *Service) end(ctx context.Context, l inbox.Lease, keep func(*store.Tx) error) error {
	return s.c.DB.UpdateFor(ctx, store.Tenant(l.Tenant), func(tx *store.Tx) error {
		if keep != nil {
			if err := keep(tx); err != nil {
				return err
			}
		}
		return s.c.Inbox.Complete(ctx, tx, l)
	})
}

// pause says of some refusals that they concern the whole connection. One by policy
// or for a missing scope does not: others of its lanes may be let through.
func pause(err error) error {
	switch e := connector.AsError(err); e.Code {
	case connector.CodeConnectionRequired, connector.CodeRateLimited, connector.CodeOverloaded:
		return &inbox.Pause{Reason: mirror.Reason(err), For: e.RetryAfter}
	}
	return err
}
