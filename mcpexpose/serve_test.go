package mcpexpose

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func toolNames(t testing.TB, s *mcp.ClientSession) []string {
	t.Helper()
	r, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
	}
	return names
}

var eras = []string{modern, legacy}

const (
	searchAll = `{"query":"customer","page_size":5,"cursor":null}`
	draft     = `{"project":"orders","title":"Printer on fire","body":"Room 4.","severity":"high"}`
)

// Guarantee: MCP1, MCP3, MCP5, MCP8
func TestToolsInBothEras(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			s := h.client(alice, era, nil)
			if diff := cmp.Diff([]string{"desk.tickets.create", "desk.tickets.get", "desk.tickets.search"}, toolNames(t, s)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			list, _ := s.ListTools(t.Context(), nil)
			for _, tool := range list.Tools {
				a := tool.Annotations
				if reads := tool.Name != "desk.tickets.create"; a.ReadOnlyHint != reads || !a.IdempotentHint || a.DestructiveHint == nil || *a.DestructiveHint {
					t.Errorf("%s: annotations %+v", tool.Name, a)
				}
			}
			if era == modern && (list.GetCacheScope() != "private" || list.GetTTLMs() > 60_000) {
				t.Errorf("the list may be cached %s for %d ms", list.GetCacheScope(), list.GetTTLMs())
			}
			e, r, err := call(t, s, "desk.tickets.search", searchAll)
			if err != nil || e.Status != "success" && e.Status != "partial" || e.Tool != "desk.tickets.search" || e.NextCursor == nil || r.IsError {
				t.Fatalf("search: %+v, %v", e, err)
			}
			var data struct {
				Items []struct {
					ID string `json:"id"`
				} `json:"items"`
			}
			if json.Unmarshal(e.Data, &data) != nil || len(data.Items) != 5 || !strings.Contains(textOf(r), data.Items[0].ID) {
				t.Errorf("data %s beside the text %q", e.Data, textOf(r))
			}
			if bad, r, err := call(t, s, "desk.tickets.search", `{"query":5}`); err != nil || bad.code() != "INVALID_INPUT" || !r.IsError {
				t.Errorf("bad arguments: %+v, %v", bad, err)
			}
			if absent, r, err := call(t, s, "desk.tickets.get", `{"id":"no-such"}`); err != nil || absent.code() != "NOT_FOUND" || !r.IsError {
				t.Errorf("an absent ticket: %+v, %v", absent, err)
			}
		})
	}
}

// Guarantee: MCP3, MCP4
func TestHiddenAndUnknownToolsAnswerAlike(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	for _, era := range eras {
		h.gates.forbid("alice", "tickets.create", true)
		s := h.client(alice, era, nil)
		if names := toolNames(t, s); slices.Contains(names, "desk.tickets.create") {
			t.Errorf("%s: the list shows a forbidden tool", era)
		}
		requests := len(h.org.Requests())
		_, _, hidden := call(t, s, "desk.tickets.create", draft)
		_, _, unknown := call(t, s, "desk.tickets.drop", draft)
		if hidden == nil || unknown == nil || strings.ReplaceAll(hidden.Error(), "create", "drop") != unknown.Error() {
			t.Errorf("%s: hidden %v, unknown %v", era, hidden, unknown)
		}
		if n := len(h.org.Requests()) - requests; n != 0 {
			t.Errorf("%s: %d requests reached the provider", era, n)
		}
		// What was listed while it was allowed is refused as soon as it is not.
		h.gates.forbid("alice", "tickets.create", false)
		open := h.client(alice, era, nil)
		toolNames(t, open)
		h.gates.forbid("alice", "tickets.create", true)
		e, _, err := call(t, open, "desk.tickets.create", draft)
		if err == nil && e.code() != "PERMISSION_DENIED" {
			t.Errorf("%s: a tool that was forbidden after it was listed: %+v", era, e)
		}
		h.gates.forbid("alice", "tickets.create", false)
	}
	if h.org.Total() != 0 && h.org.Count("Printer on fire") != 0 {
		t.Error("something was written")
	}
}

// Guarantee: MCP4
func TestAPolicyThatCannotBeAskedShutsTheDoor(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	s := h.client(alice, modern, nil)
	h.gates.mu.Lock()
	h.gates.broken = true
	h.gates.mu.Unlock()
	_, _, err := call(t, s, "desk.tickets.search", searchAll)
	if err == nil || strings.Contains(err.Error(), "dsn") {
		t.Errorf("with a broken policy: %v", err)
	}
}

// Guarantee: MCP6, TIX4
func TestAWriteIsApprovedInTheCourseOfACall(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	visits := 0
	s := h.client(alice, modern, func(url string) string {
		visits++
		id := url[strings.LastIndex(url, "/")+1:]
		if _, err := h.host.Ledger.Approve(t.Context(), "acme", id, "alice"); err != nil {
			t.Error(err)
		}
		return "accept"
	})
	e, r, err := call(t, s, "desk.tickets.create", draft)
	if err != nil || e.Status != "success" || e.Effect.Disposition != "applied" || len(e.Receipt) == 0 || visits != 1 {
		t.Fatalf("create: %+v, %v after %d visits", e, err, visits)
	}
	if n := h.org.Count("Printer on fire"); n != 1 {
		t.Errorf("%d tickets, want 1", n)
	}
	if strings.Contains(textOf(r), "bridge.example") {
		t.Error("the link is in the text")
	}
	again, _, err := call(t, s, "desk.tickets.create", draft)
	if err != nil || !again.Replayed || h.org.Count("Printer on fire") != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// A person who says yes at the client and does nothing on the page has done nothing.
//
// Guarantee: MCP6
func TestOpeningALinkProvesNothing(t *testing.T) {
	h := newHouse(t)
	h.connect(alice)
	visits := 0
	s := h.client(alice, modern, func(string) string {
		if visits++; visits > 2 {
			return "decline"
		}
		return "accept"
	})
	e, _, err := call(t, s, "desk.tickets.create", draft)
	if err != nil || e.code() != "APPROVAL_REQUIRED" || visits != 3 || h.org.Count("Printer on fire") != 0 {
		t.Errorf("%+v, %v after %d visits, %d tickets", e, err, visits, h.org.Count("Printer on fire"))
	}
}

// Guarantee: MCP6
func TestAnAccountIsConnectedInTheCourseOfACall(t *testing.T) {
	h := newHouse(t)
	s := h.client(alice, modern, func(url string) string {
		if url != "https://bridge.example/connect?t=opaque" {
			t.Errorf("the link is %s", url)
		}
		h.connect(alice)
		return "accept"
	})
	if e, _, err := call(t, s, "desk.tickets.search", searchAll); err != nil || e.Error != nil {
		t.Errorf("search: %+v, %v", e, err)
	}
	if diff := cmp.Diff([]string{"connect alice sandbox []"}, h.pages.asked); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// Guarantee: MCP6
func TestClientsThatOpenNoLinksGetACode(t *testing.T) {
	h := newHouse(t)
	for _, era := range eras {
		s := h.client(alice, era, nil)
		e, r, err := call(t, s, "desk.tickets.search", searchAll)
		if err != nil || e.code() != "CONNECTION_REQUIRED" || !r.IsError {
			t.Errorf("%s: %+v, %v", era, e, err)
		}
		raw, _ := json.Marshal(r)
		if strings.Contains(string(raw), "bridge.example") {
			t.Errorf("%s: the link is in the result: %s", era, raw)
		}
	}
	if len(h.pages.asked) != 0 {
		t.Errorf("links were made for nobody: %v", h.pages.asked)
	}
}

// The older era has an error for it. Its client opens the link and calls again.
//
// Guarantee: MCP6
func TestTheOlderEraAsksByError(t *testing.T) {
	h := newHouse(t)
	s := h.client(alice, legacy, func(string) string { return "accept" })
	_, _, err := call(t, s, "desk.tickets.search", searchAll)
	if err == nil || !strings.Contains(err.Error(), "URL") && !strings.Contains(err.Error(), "elicitation") {
		t.Errorf("%v, want the protocol's error for a URL that must be opened", err)
	}
	if len(h.pages.asked) == 0 {
		t.Error("no link was made")
	}
	h.connect(alice)
	if e, _, err := call(t, s, "desk.tickets.search", searchAll); err != nil || e.Error != nil {
		t.Errorf("once the account is connected: %+v, %v", e, err)
	}
}
