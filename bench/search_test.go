package bench

import (
	"net/url"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// wirePage has every field that the driver reads.
type wirePage struct {
	Items []struct {
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
	} `json:"items"`
	NextCursor *string `json:"next_cursor"`
	Total      *int    `json:"total"`
}

// BenchmarkSearchPage is one page of 20 tickets through the whole runtime
// (schemas, policy, connection from the database, guarded transport, output
// schema, status check, audit) against a plain client that decodes the same
// page strictly. Aim: at most 1.15 times.
func BenchmarkSearchPage(b *testing.B) {
	s := setup(b)
	// What sandboxorg sends, so that both ask for the same bytes.
	query := url.Values{"q": {"customer"}, "project": {"ops", "orders", "secret", "web"}, "state": {"open"}, "type": {"ticket"},
		"archived": {"exclude"}, "limit": {"20"}}
	query["project"] = s.projects(b)
	address := s.url + "/api/v1/tickets?" + query.Encode()
	arguments := []byte(`{"query":"customer","page_size":20,"cursor":null}`)
	floor := func() {
		resp, err := get(s.client, address, s.token)
		must(b, err)
		body, err := drain(resp)
		must(b, err)
		var page wirePage
		must(b, jsonv2.Unmarshal(body, &page))
		if len(page.Items) != 20 {
			b.Fatalf("%d items, status %d", len(page.Items), resp.StatusCode)
		}
	}
	ours := func() {
		r := s.runtime.Execute(b.Context(), s.caller, connector.Call{Tool: "tickets.search", Arguments: arguments})
		mustBe(b, r, connector.StatusSuccess)
	}
	pair(b, floor, ours)
}

func (s *bench) projects(b *testing.B) []string {
	b.Helper()
	views, err := s.host.Credentials.List(b.Context(), s.caller)
	must(b, err)
	return views[0].Connection.Resources
}
