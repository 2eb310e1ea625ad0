package tickets

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A Renewer is a Subscriber whose provider ends subscriptions after a time.
type Renewer interface {
	// PlanRenewal is the one request that gives a subscription a new life. Its
	// answer is read by HookMade.
	PlanRenewal(ctx context.Context, a *connector.Access, project, id string) (connector.Request, error)
}

// A FailureLister is a Subscriber whose provider lists the deliveries that it gave
// up. What it lists was read by us: nobody signed it.
type FailureLister interface {
	// FailedDeliveries returns a page of them after a position of the driver's own;
	// empty: from the oldest that the provider has.
	FailedDeliveries(ctx context.Context, a *connector.Access, project, id, after string) (Failures, error)
}

// Failures is one page.
type Failures struct {
	Deliveries []FailedDelivery `json:"deliveries"`
	After      string           `json:"after"` // the position behind them
	More       bool             `json:"more"`
}

// A FailedDelivery is what was to be posted, and under which id.
type FailedDelivery struct {
	ID        string `json:"id"`
	EventType string `json:"event_type,omitempty"`
	Payload   string `json:"payload"` // foreign text
}

// A Renewal asks for more time. ExpiresAt is the end that the subscription has
// before: it is renewed when it has a later one.
type Renewal struct {
	Project   string    `json:"project,omitempty"`
	ID        string    `json:"id"`
	ExpiresAt time.Time `json:"expires_at"`
}

// More operations of [NewHooks], where the provider has what they need.
const (
	HookRenewTool    = "tickets.hook_renew"
	HookFailuresTool = "tickets.hook_failures"
)

// upkeep is what a driver can do for subscriptions beside making them.
func upkeep(s Subscriber, how Subscribing, f Facts) []connector.Operation {
	var all []connector.Operation
	if r, ok := s.(Renewer); ok {
		all = append(all, connector.Write(connector.Spec{
			Name: HookRenewTool, Title: "Renew a subscription", Doc: "Has the provider go on posting events to the same address after a subscription's end.",
			Effect: connector.EffectReversible, Sensitivity: connector.SensitivityRestricted, Scopes: how.Scopes,
		}, renewal(r, s, how, f)))
	}
	if l, ok := s.(FailureLister); ok {
		all = append(all, connector.Read(connector.Spec{
			Name: HookFailuresTool, Title: "List failed deliveries", Doc: "Lists the deliveries of a subscription that the provider gave up, for background work.",
			Effect: connector.EffectRead, Sensitivity: connector.SensitivityRestricted, Scopes: how.Scopes,
		}, func(ctx context.Context, a *connector.Access, in failuresInput) (Failures, error) {
			if err := how.check(a, in.Project); err != nil {
				return Failures{}, err
			}
			page, err := l.FailedDeliveries(ctx, a, in.Project, in.ID, in.After)
			all := page.Deliveries
			page.Deliveries = []FailedDelivery{}
			for _, d := range all {
				if plainName(d.ID) && (d.EventType == "" || plainName(d.EventType)) {
					page.Deliveries = append(page.Deliveries, d)
				} else {
					a.Missing(connector.Missing{What: "failed deliveries", Reason: "unread_field"})
				}
			}
			return page, err
		}))
	}
	return all
}

func renewal(r Renewer, s Subscriber, how Subscribing, f Facts) connector.Steps[Renewal, Hook] {
	return connector.Steps[Renewal, Hook]{
		Plan: func(ctx context.Context, a *connector.Access, in Renewal) (connector.Request, error) {
			if err := how.check(a, in.Project); err != nil {
				return connector.Request{}, err
			}
			request, err := r.PlanRenewal(ctx, a, in.Project, in.ID)
			account := a.Connection().Account
			request.Summary = fmt.Sprintf("Have %s go on posting events by subscription %s as %s", account.Organisation, in.ID, account.Login)
			request.Notes = append(request.Notes, "the subscription ends "+in.ExpiresAt.UTC().Format(time.RFC3339)+" otherwise")
			return request, err
		},
		Decode: s.HookMade,
		ID:     func(h Hook) string { return h.ID },
		Find: func(ctx context.Context, a *connector.Access, _ connector.OperationID, in Renewal) (Hook, connector.Found, error) {
			all, err := s.Hooks(ctx, a, in.Project)
			if err != nil {
				return Hook{}, connector.CannotTell, err
			}
			for _, h := range all {
				if h.ID == in.ID && (h.ExpiresAt == nil || h.ExpiresAt.After(in.ExpiresAt)) {
					return h, connector.FoundYes, nil
				}
			}
			return Hook{}, connector.FoundNo, nil
		},
		Settle: f.Settle,
	}
}

type failuresInput struct {
	Project string `json:"project,omitempty"`
	ID      string `json:"id"`
	After   string `json:"after"`
}

// ListHooks runs in a runtime that [NewHooks] is mounted in.
func ListHooks(ctx context.Context, r *connector.Runtime, caller connector.Caller, project string) ([]Hook, error) {
	list, err := do[hookList](ctx, r, caller, HooksTool, hooksInput{project})
	return list.Hooks, err
}

// ListFailures runs in a runtime that [NewHooks] is mounted in.
func ListFailures(ctx context.Context, r *connector.Runtime, caller connector.Caller, project, id, after string) (Failures, error) {
	return do[Failures](ctx, r, caller, HookFailuresTool, failuresInput{project, id, after})
}

// MakeHook proposes a subscription under an intent, or goes on with the one that
// was proposed under it before.
func MakeHook(ctx context.Context, r *connector.Runtime, caller connector.Caller, intent string, d HookDraft) (Hook, connector.Result) {
	return writeHook(ctx, r, caller, HookCreateTool, intent, d)
}

// RenewHook proposes a renewal as MakeHook does a subscription.
func RenewHook(ctx context.Context, r *connector.Runtime, caller connector.Caller, intent string, in Renewal) (Hook, connector.Result) {
	return writeHook(ctx, r, caller, HookRenewTool, intent, in)
}

func writeHook(ctx context.Context, r *connector.Runtime, caller connector.Caller, tool, intent string, in any) (h Hook, result connector.Result) {
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err) // strings and a time
	}
	result = r.Execute(ctx, caller, connector.Call{Tool: tool, Intent: intent, Arguments: raw})
	if len(result.Data) > 0 {
		_ = json.Unmarshal(result.Data, &h) // our own output; without it there is no hook
	}
	return h, result
}
