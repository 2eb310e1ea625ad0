package broken

import (
	"bytes"
	"context"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// fixed are answers of the sandbox organisation, and one call for each.
func fixed() []kit.Case {
	const ticket = `{"id":"9007199254741995","project":{"id":"web","name":"Web shop"},"title":"printer jam","body":"third floor","state":"open","status":"triage",
		"severity":"low","labels":[],"archived":false,"evidence":[],"author":{"id":"acct-bob","login":"bob"},"external_ref":"OPERATION",
		"created_at":"2026-12-01T05:04:22.931Z","updated_at":"2026-12-01T05:04:22.931Z","version":1}`
	return []kit.Case{
		{Name: "search", Tool: "tickets.search", Arguments: map[string]string{"query": "printer", "state": "all"}, Resources: []string{"web"},
			Answers: []kit.Answer{{Body: `{"items":[` + ticket + `],"next_cursor":null,"total":1}`}}},
		{Name: "get", Tool: "tickets.get", Arguments: map[string]string{"id": "9007199254741995"}, Resources: []string{"web"}, Answers: []kit.Answer{{Body: ticket}}},
		{Name: "create", Tool: "tickets.create", Arguments: tickets.Draft{Project: "web", Title: "printer jam", Body: "third floor", Severity: "low"},
			Resources: []string{"web"}, Answers: []kit.Answer{{Status: 201, Body: ticket}, {Body: ticket}}},
	}
}

// definitions lie, or say too little, in the connector's value.
func definitions() []Connector {
	spec := func(change func(*connector.Spec)) func(*kit.Subject) {
		return func(s *kit.Subject) { reading(s, change, guarded) }
	}
	return []Connector{
		edited("A1", "has no version", func(s *kit.Subject) { s.Connector.Version = "" }),
		edited("A1", "lets a model choose the tenant", spec(func(o *connector.Spec) {
			o.Input = bytes.Replace(o.Input, []byte(`"properties": {`), []byte(`"properties": {"tenant_id": {"type": "string"},`), 1)
		})),
		edited("A1", "needs a scope that it never asks for", spec(func(o *connector.Spec) { o.Scopes = []string{"tickets:admin"} })),
		edited("A1", "names no scope for a read", spec(func(o *connector.Spec) { o.Scopes = nil })),
		edited("A1", "leaves the sensitivity open", spec(func(o *connector.Spec) { o.Sensitivity = 0 })),
		edited("A1", "declares a field that it excludes", spec(func(o *connector.Spec) {
			o.Output = bytes.Replace(o.Output, []byte(`"properties": {`), []byte(`"properties": {"private_notes": {"type": "string"},`), 1)
		})),
		edited("A1", "creates without a way to look up", func(s *kit.Subject) {
			s.Connector.Operations[2] = connector.Write(s.Connector.Operations[2].Spec(), connector.Steps[byID, byID]{
				Plan: func(context.Context, *connector.Access, byID) (connector.Request, error) {
					return connector.Request{}, nil
				},
				Decode: connector.DecodeJSON[byID], ID: func(b byID) string { return b.ID },
			})
		}),
		edited("A2", "has a schema that fills a model's window", spec(func(o *connector.Spec) {
			o.Output = bytes.Replace(o.Output, []byte(`"The provider's own word."`), []byte(`"`+strings.Repeat("The provider's own word. ", 3000)+`"`), 1)
		})),
		edited("A3", "changed its surface behind the lock file's back", func(s *kit.Subject) {
			s.LockFile = "testdata/connector.lock.json"
			reading(s, func(o *connector.Spec) { o.Doc = "Reads any ticket." }, guarded)
		}),
		{Name: "stopped telling the approver who is notified, and left the files as they were", Check: "A7", Subject: func() kit.Subject {
			s := subject(&driver{plan: func(ctx context.Context, a *connector.Access, d tickets.Draft) (connector.Request, error) {
				r, err := honest.PlanCreate(ctx, a, d)
				r.Notes = nil
				return r, err
			}})
			s.Fixed = fixed()
			return s
		}},
		edited("A4", "calls a write easier to undo than it is", func(s *kit.Subject) { s.Undo = connector.EffectIrreversible }),
	}
}
