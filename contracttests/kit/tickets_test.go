package kit_test

import (
	"net/http"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/tickets"
	giteadriver "github.com/drawbridge-dev/drawbridge/tickets/gitea"
)

// Answers as the sandbox organisation gave them.
var (
	sandboxTicket = `{"id":"9007199254741995","project":{"id":"web","name":"Web shop"},"type":"ticket","title":"printer jam","body":"third floor","state":"open",
		"status":"triage","severity":"medium","labels":["hardware"],"archived":false,"evidence":[],"author":{"id":"acct-bob","login":"bob","name":"Bob Brandt"},
		"external_ref":"","created_at":"2026-12-01T05:04:22.931Z","updated_at":"2026-12-01T05:05:00Z","version":2,"url":"https://org.example/tickets/9007199254741995",
		"requester_email":"requester@mail.example","requester_phone":"+1-555-0100","private_notes":"call back before ten"}`
	sandboxMade = `{"id":"9007199254741997","project":{"id":"web","name":"Web shop"},"type":"ticket","title":"printer new","body":"fourth floor","state":"open",
		"status":"triage","severity":"low","labels":[],"archived":false,"evidence":[],"author":{"id":"acct-bob","login":"bob","name":"Bob Brandt"},
		"external_ref":"OPERATION","created_at":"2026-12-01T05:04:22.985Z","updated_at":"2026-12-01T05:04:22.985Z","version":1,
		"url":"https://org.example/tickets/9007199254741997","requester_email":"requester@mail.example","private_notes":"call back before ten"}`
)

type args map[string]any

func sandboxFixed() []kit.Case {
	draft := tickets.Draft{Project: "web", Title: "printer new", Body: "fourth floor", Severity: "low"}
	search := args{"query": "printer", "state": "all"}
	return []kit.Case{
		{Name: "search two pages", Tool: "tickets.search", Arguments: search, Resources: []string{"web"}, Answers: []kit.Answer{
			{Body: `{"items":[` + sandboxTicket + `],"next_cursor":"cDEgbXg0","total":2}`}, {Body: `{"items":[` + sandboxMade + `],"next_cursor":null,"total":2}`}}},
		{Name: "search rate limit", Tool: "tickets.search", Arguments: search, Resources: []string{"web"}, Answers: []kit.Answer{
			{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"17"}}, Body: `{"error":"rate_limited"}`}}},
		{Name: "search without items", Tool: "tickets.search", Arguments: search, Resources: []string{"web"}, Answers: []kit.Answer{{Body: `{}`}}},
		{Name: "get", Tool: "tickets.get", Arguments: args{"id": "9007199254741995"}, Resources: []string{"web"}, Answers: []kit.Answer{{Body: sandboxTicket}}},
		{Name: "get outside of the grant", Tool: "tickets.get", Arguments: args{"id": "9007199254741995"}, Resources: []string{"orders"}, Answers: []kit.Answer{{Body: sandboxTicket}}},
		{Name: "get with a scope missing", Tool: "tickets.get", Arguments: args{"id": "1"}, Answers: []kit.Answer{
			{Status: http.StatusForbidden, Body: `{"error":"insufficient_scope","scope":"tickets:read"}`}}},
		{Name: "create", Tool: "tickets.create", Arguments: draft, Resources: []string{"web"}, Answers: []kit.Answer{
			{Status: http.StatusCreated, Body: sandboxMade}, {Body: sandboxMade}}},
		{Name: "create refused", Tool: "tickets.create", Arguments: draft, Resources: []string{"web"}, Answers: []kit.Answer{
			{Status: http.StatusUnprocessableEntity, Body: `{"error":"invalid"}`}}},
	}
}

// Answers in the shapes that contracttests/gitea has seen a Gitea 1.26 answer in.
const giteaIssue = `{"id":1001,"number":7,"user":{"id":2,"login":"ana","email":"ana@mail.example"},"title":"printer jam","body":"third floor","labels":[{"id":100,"name":"hardware"}],
	"state":"open","pull_request":null,"created_at":"2026-05-07T15:00:30+03:00","updated_at":"2026-05-07T15:00:30+03:00","content_version":0,
	"repository":{"id":1,"name":"desk","owner":"ana","full_name":"ana/desk"}}`

func giteaFixed() []kit.Case {
	one := []string{"ana/desk"}
	list := http.Header{"X-Total-Count": {"1"}}
	return []kit.Case{
		{Name: "search", Tool: "tickets.search", Arguments: args{"query": "printer", "state": "all"}, Resources: one, Answers: []kit.Answer{{Header: list, Body: `[` + giteaIssue + `]`}}},
		{Name: "search null", Tool: "tickets.search", Arguments: args{"query": "printer", "state": "all"}, Resources: one, Answers: []kit.Answer{{Header: list, Body: `null`}}},
		{Name: "get", Tool: "tickets.get", Arguments: args{"id": "ana/desk#7"}, Resources: one, Answers: []kit.Answer{{Body: giteaIssue}}},
		{Name: "get absent", Tool: "tickets.get", Arguments: args{"id": "ana/desk#8"}, Resources: one, Answers: []kit.Answer{
			{Status: http.StatusNotFound, Body: `{"errors":null,"message":"not found"}`}}},
		{Name: "create", Tool: "tickets.create", Arguments: tickets.Draft{Project: "ana/desk", Title: "printer jam", Body: "third floor", Severity: "low"}, Resources: one, Answers: []kit.Answer{
			{Status: http.StatusCreated, Body: giteaIssue}, {Body: giteaIssue}}},
	}
}

// What the Gitea driver asks for and returns, where no Gitea is.
// Guarantee: TST1
func TestGiteaTicketDriverFixed(t *testing.T) {
	t.Parallel()
	s := kit.Tickets(tickets.New(giteadriver.Driver{}), nil)
	s.Fixed, s.FixedDir = giteaFixed(), "testdata/gitea"
	kit.Run(t, s)
}
