package exposures

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// A Stage is where a story is played: one way to the tools, and what people and
// the provider do beside it.
type Stage struct {
	Exposure   Exposure
	Approve    func(context.Context, connector.ApprovalID) error
	Disconnect func(context.Context) error
}

// A Step is one call as its caller saw it, without what differs from one playing
// to the next: ids, times and cursors.
type Step struct {
	Tool, Status, Code, Effect string
	Complete, More, Replayed   bool
	Titles                     []string // of the tickets that came
	Data                       any      // of reads, decoded
	Proof                      string   // of a receipt
}

// A Story is one of the main job's.
type Story struct {
	Name string
	Play func(context.Context, *Player)
}

// Stories are the three of requirement TST5.
func Stories() []Story {
	return []Story{{"investigate", investigate}, {"approved creation", approvedCreation}, {"cut half way", cutHalfWay}}
}

// Player plays one story and keeps what was seen.
type Player struct {
	Stage
	Steps []Step
	Made  string // id of what the story created, by its receipt
	Err   error  // what kept the story from going on
	n     int
}

// call runs one tool. After an error it does nothing, so that a story reads
// straight through.
func (p *Player) call(ctx context.Context, tool string, arguments any) Answer {
	if p.Err != nil {
		return Answer{}
	}
	p.n++
	raw, err := json.Marshal(arguments)
	var a Answer
	if err == nil {
		a, err = p.Exposure.Call(ctx, connector.Call{ID: fmt.Sprintf("call-%s-%d", p.Exposure.Name(), p.n), Tool: tool, Arguments: raw})
	}
	if err != nil {
		p.Err = fmt.Errorf("%s: %w", tool, err)
		return Answer{}
	}
	s := Step{Tool: tool, Status: string(a.Status), Effect: a.Effect.Disposition, Complete: a.Coverage.Complete, More: a.NextCursor != nil,
		Replayed: a.Replayed, Proof: string(a.Receipt.Proof)}
	if a.Error.Code != 0 {
		s.Code = a.Error.Code.String()
	}
	for _, t := range ticketsOf(a) {
		s.Titles = append(s.Titles, t.Title)
	}
	if s.Effect == connector.DispositionNone.String() && len(a.Data) > 0 {
		p.Err = json.Unmarshal(a.Data, &s.Data)
	}
	p.Steps = append(p.Steps, s)
	return a
}

// ticketsOf are the tickets in an answer, one or a page of them.
func ticketsOf(a Answer) []tickets.Ticket {
	var page struct {
		Items []tickets.Ticket `json:"items"`
	}
	var one tickets.Ticket
	switch {
	case len(a.Data) == 0:
	case json.Unmarshal(a.Data, &page) == nil && page.Items != nil:
		return page.Items
	case json.Unmarshal(a.Data, &one) == nil:
		return []tickets.Ticket{one}
	}
	return nil
}

func search(query string, cursor *string) map[string]any {
	return map[string]any{"query": query, "page_size": 2, "cursor": cursor}
}

// investigate reads two pages and a ticket, and asks for one that is not there.
func investigate(ctx context.Context, p *Player) {
	first := p.call(ctx, "tickets.search", search("customer", nil))
	p.call(ctx, "tickets.search", search("customer", first.NextCursor))
	if found := ticketsOf(first); len(found) > 0 {
		p.call(ctx, "tickets.get", map[string]any{"id": found[0].ID})
	}
	p.call(ctx, "tickets.get", map[string]any{"id": "no-such-ticket"})
	p.call(ctx, "tickets.search", map[string]any{"query": "customer", "page_size": 2, "cursor": nil, "tenant": "globex"})
}

// Draft is what the second story creates.
var Draft = tickets.Draft{Project: "orders", Title: "Checkout times out since the last release",
	Body: "Three people wrote within an hour.", Severity: "high", Labels: []string{"bug"}}

// approvedCreation is refused until a person agrees, creates once, and is
// answered with the same receipt when it asks again.
func approvedCreation(ctx context.Context, p *Player) {
	asked := p.call(ctx, "tickets.create", Draft)
	if p.Err == nil {
		p.Err = p.Approve(ctx, asked.Pending.Approval)
	}
	p.Made = p.call(ctx, "tickets.create", Draft).Receipt.ExternalID
	again := p.call(ctx, "tickets.create", Draft)
	if p.Err == nil && again.Receipt.ExternalID != p.Made {
		p.Err = fmt.Errorf("asked again, the receipt names %q instead of %q", again.Receipt.ExternalID, p.Made)
	}
}

// cutHalfWay loses its connection between two pages.
func cutHalfWay(ctx context.Context, p *Player) {
	first := p.call(ctx, "tickets.search", search("customer", nil))
	if p.Err == nil {
		p.Err = p.Disconnect(ctx)
	}
	p.call(ctx, "tickets.search", search("customer", first.NextCursor))
	p.call(ctx, "tickets.create", Draft)
}
