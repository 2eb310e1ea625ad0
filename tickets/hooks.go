package tickets

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// A Subscriber is a driver that can ask its provider to post events.
type Subscriber interface {
	Subscribing() Subscribing
	// Hooks lists every subscription that the account may see, in a project where
	// the provider has them per project.
	Hooks(ctx context.Context, a *connector.Access, project string) ([]Hook, error)
	// PlanHook turns a draft into the one request that would make a subscription.
	PlanHook(ctx context.Context, a *connector.Access, d HookDraft) (connector.Request, error)
	// HookMade reads a subscription out of the answer to that request.
	HookMade(r connector.Response) (Hook, error)
}

// Subscribing is how a provider's subscriptions are.
type Subscribing struct {
	// Scopes that a connection needs for them. They often allow much more, so a
	// connection for it is best made apart, or the subscription by hand.
	Scopes []string
	Scheme string // how it signs; a name of webhooks/signature
	// MakesKey says that the provider makes the signing key and tells it in the
	// answer, once. Otherwise it takes ours.
	MakesKey   bool
	PerProject bool
}

// A Hook is a subscription at the provider.
type Hook struct {
	ID      string `json:"id"`
	Project string `json:"project,omitempty"`
	Address string `json:"address"`
	// ExpiresAt is when the provider ends it; nil: never.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// SigningKey is in the result of the call that made the hook, if the provider
	// made it. A hook that was found again after a lost answer has none, and is
	// of no use.
	SigningKey string `json:"signing_key,omitempty"`
}

// A HookDraft is what is asked for.
type HookDraft struct {
	Project string `json:"project,omitempty"`
	// Address is where to post. It is also what the hook is found by, so no two
	// may have the same; that of a webhook endpoint is random.
	Address    string `json:"address"`
	SigningKey string `json:"signing_key,omitempty"`
}

// The operations of [NewHooks].
const (
	HooksTool      = "tickets.hooks"
	HookCreateTool = "tickets.hook_create"
)

// NewHooks puts a provider's subscriptions behind a connector of its own, for a
// runtime that no model is shown: one who could subscribe would choose where
// events go. The write passes approval and ledger as any other, so who approves
// reads the address and, where it is ours, the signing key. It answers false
// when the driver is no Subscriber.
func NewHooks(d Driver) (connector.Connector, bool) {
	s, ok := d.(Subscriber)
	c := New(d)
	if !ok {
		return c, false
	}
	how := s.Subscribing()
	c.Auth.Scopes = append(c.Auth.Scopes, how.Scopes...)
	c.Operations = append([]connector.Operation{
		connector.Read(connector.Spec{
			Name: HooksTool, Title: "List webhook subscriptions", Doc: "Lists where the provider posts events to.",
			Effect: connector.EffectRead, Sensitivity: connector.SensitivitySensitive, Scopes: how.Scopes,
		}, func(ctx context.Context, a *connector.Access, in hooksInput) (hookList, error) {
			if err := how.check(a, in.Project); err != nil {
				return hookList{}, err
			}
			all, err := s.Hooks(ctx, a, in.Project)
			return hookList{append([]Hook{}, all...)}, err
		}),
		connector.Write(connector.Spec{
			Name: HookCreateTool, Title: "Subscribe to events", Doc: "Has the provider post events to an address, until somebody removes the subscription there.",
			Effect: connector.EffectReversible, Sensitivity: connector.SensitivityRestricted, Scopes: how.Scopes,
		}, subscription(s, how, d.Facts())),
	}, upkeep(s, how, d.Facts())...)
	return c, true
}

type hooksInput struct {
	Project string `json:"project,omitempty"`
}

type hookList struct {
	Hooks []Hook `json:"hooks"`
}

func subscription(s Subscriber, how Subscribing, f Facts) connector.Steps[HookDraft, Hook] {
	return connector.Steps[HookDraft, Hook]{
		Plan: func(ctx context.Context, a *connector.Access, d HookDraft) (connector.Request, error) {
			if err := how.check(a, d.Project); err != nil {
				return connector.Request{}, err
			}
			if fault := how.fault(d); fault != "" {
				return connector.Request{}, &connector.Error{Code: connector.CodeInvalidInput, Faults: []connector.Fault{{Pointer: fault, Keyword: "format"}}}
			}
			r, err := s.PlanHook(ctx, a, d)
			where := ""
			if d.Project != "" {
				where = " of " + d.Project
			}
			account := a.Connection().Account
			r.Summary = fmt.Sprintf("Have %s post events%s to %s as %s", account.Organisation, where, d.Address, account.Login)
			if !how.MakesKey {
				r.Notes = append(r.Notes, "the signing key is a part of this payload, for who reads it here")
			}
			return r, err
		},
		Decode: s.HookMade,
		ID:     func(h Hook) string { return h.ID },
		Find: func(ctx context.Context, a *connector.Access, _ connector.OperationID, d HookDraft) (Hook, connector.Found, error) {
			all, err := s.Hooks(ctx, a, d.Project)
			if err != nil {
				return Hook{}, connector.CannotTell, err
			}
			for _, h := range all {
				if h.Address == d.Address {
					return h, connector.FoundYes, nil
				}
			}
			return Hook{}, connector.FoundNo, nil
		},
		Settle: f.Settle,
	}
}

// check holds a project to the grant, and to whether the provider wants one.
func (s Subscribing) check(a *connector.Access, project string) error {
	switch {
	case s.PerProject != (project != ""):
		return &connector.Error{Code: connector.CodeInvalidInput, Faults: []connector.Fault{{Pointer: "/project", Keyword: "required"}}}
	case project == "":
		return nil
	}
	_, err := a.Narrow([]string{project})
	return err
}

// fault is the pointer to what is wrong with a draft.
func (s Subscribing) fault(d HookDraft) string {
	u, err := url.Parse(d.Address)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.Fragment != "", u.String() != d.Address:
		return "/address"
	case s.MakesKey != (d.SigningKey == ""):
		return "/signing_key"
	}
	return ""
}
