package exposures

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/mcpexpose"
	"github.com/drawbridge-dev/drawbridge/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is one installation that all ways lead to.
type house struct {
	t       *testing.T
	org     *sandbox.Server
	host    *host.Host
	runtime *connector.Runtime
	server  *mcpexpose.Server
}

func newHouse(t *testing.T) *house {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	h := &house{t: t, org: org}
	h.host, err = host.Open(context.Background(), host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{},
		Migrations: []store.Migrations{mcpexpose.Migrations()},
		Instances:  []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.host.Close(); err != nil {
			t.Error(err)
		}
	})
	h.runtime, _ = h.host.Runtime("sandbox")
	h.server, err = mcpexpose.New(mcpexpose.Config{Mounts: []mcpexpose.Mount{{Name: strings.TrimSuffix(mount, "."), Provider: "sandbox", Runtime: h.runtime}},
		DB: h.host.DB, Keys: h.host.Keys})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var names = []string{"direct", "openai", "anthropic", "MCP"}

// ways are all exposures of one caller, by names.
func (h *house) ways(caller connector.Caller) []Exposure {
	return append(Here(h.runtime, caller), newMCP(h.t, h.server, caller))
}

// connect signs a principal in to alice's account.
func (h *house) connect(caller connector.Caller) connector.ConnectionID {
	h.t.Helper()
	users := h.org.Users()
	alice := users[slices.IndexFunc(users, func(u sandbox.User) bool { return u.Login == "alice" })]
	const browser = "the browser of the stories"
	begun, err := h.host.Credentials.Begin(h.t.Context(), caller, credentials.BeginRequest{Provider: "sandbox",
		RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		h.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	back, err := sandbox.Login(h.t.Context(), client, begun.URL, "alice", alice.Password, true)
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := h.host.Credentials.Finish(h.t.Context(), caller, browser, back.Query(), h.runtime.Identify)
	if err != nil {
		h.t.Fatal(err)
	}
	return c.ID
}

// books are what the provider knows: its writes, and requests for tickets.
func (h *house) books() (writes []sandbox.Write, asked int) {
	for _, r := range h.org.Requests() {
		if strings.HasPrefix(r.Path, "/api/v1/tickets") {
			asked++
		}
	}
	return h.org.Ledger(), asked
}

// want is what each story comes to, without the tickets that were there before.
var want = map[string][]Step{
	"investigate": {
		{Tool: "tickets.search", Status: "success", Effect: "none", More: true},
		{Tool: "tickets.search", Status: "success", Effect: "none", More: true},
		{Tool: "tickets.get", Status: "success", Effect: "none", Complete: true},
		{Tool: "tickets.get", Status: "error", Code: "NOT_FOUND", Effect: "none"},
		{Tool: "tickets.search", Status: "error", Code: "INVALID_INPUT", Effect: "none"},
	},
	"approved creation": {
		{Tool: "tickets.create", Status: "error", Code: "APPROVAL_REQUIRED", Effect: "none"},
		{Tool: "tickets.create", Status: "success", Effect: "applied", Complete: true, Titles: []string{Draft.Title}, Proof: "verified"},
		{Tool: "tickets.create", Status: "success", Effect: "applied", Complete: true, Replayed: true, Titles: []string{Draft.Title}, Proof: "verified"},
	},
	"cut half way": {
		{Tool: "tickets.search", Status: "success", Effect: "none", More: true},
		{Tool: "tickets.search", Status: "error", Code: "CONNECTION_REQUIRED", Effect: "none"},
		{Tool: "tickets.create", Status: "error", Code: "CONNECTION_REQUIRED", Effect: "none"},
	},
}

// The three stories come to the same by every way, in what callers see and in
// the provider's own books.
//
// Guarantee: TST5, RUN8
func TestStoriesComeToTheSameByEveryWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, story := range Stories() {
		seen := map[string][]Step{}
		for i, name := range names {
			caller := connector.Caller{Tenant: "acme", Principal: connector.PrincipalID(story.Name + string(rune('a'+i)))}
			way := h.ways(caller)[i]
			if way.Name() != name {
				t.Fatalf("way %d is %s, want %s", i, way.Name(), name)
			}
			connection := h.connect(caller)
			writes, _ := h.books()
			before := len(writes)
			var askedAtCut int
			p := &Player{Stage: Stage{Exposure: way,
				Approve: func(ctx context.Context, id connector.ApprovalID) error {
					_, err := h.host.Ledger.Approve(ctx, caller.Tenant, string(id), "maria")
					return err
				},
				Disconnect: func(ctx context.Context) error {
					_, err := h.host.Credentials.Disconnect(ctx, caller, connection, "story")
					_, askedAtCut = h.books()
					return err
				}}}
			story.Play(t.Context(), p)
			if p.Err != nil {
				t.Errorf("%s by %s: %v", story.Name, way.Name(), p.Err)
			}
			writes, asked := h.books()
			if askedAtCut != 0 && asked != askedAtCut {
				t.Errorf("%s by %s: after the cut the provider was asked %d times", story.Name, way.Name(), asked-askedAtCut)
			}
			h.judge(story.Name+" by "+way.Name(), p, writes[before:])
			seen[way.Name()] = p.Steps
		}
		for name, steps := range seen {
			if diff := cmp.Diff(seen["direct"], steps); diff != "" {
				t.Errorf("%s: %s differs (-direct +%s):\n%s", story.Name, name, name, diff)
			}
		}
		shown := slices.Clone(seen["direct"])
		for i := range shown {
			if shown[i].Status == "success" && len(shown[i].Titles) == 0 {
				t.Errorf("%s: step %d found nothing", story.Name, i)
			}
			if shown[i].Effect == "none" { // the sandbox's own tickets
				shown[i].Titles, shown[i].Data = nil, nil
			}
		}
		if diff := cmp.Diff(want[story.Name], shown); diff != "" {
			t.Errorf("%s (-want +got):\n%s", story.Name, diff)
		}
	}
}

// judge compares a story with the provider's writes while it was played.
func (h *house) judge(what string, p *Player, writes []sandbox.Write) {
	h.t.Helper()
	if p.Made == "" {
		if len(writes) != 0 {
			h.t.Errorf("%s: the provider has %d writes, want none", what, len(writes))
		}
		return
	}
	if len(writes) != 1 || writes[0].Kind != "create" || writes[0].TicketID != p.Made || writes[0].Title != Draft.Title {
		h.t.Errorf("%s: the provider has %d writes for ticket %s: %+v", what, len(writes), p.Made, writes)
	}
}

// A model is shown the same tools by every way. A way may add to a description
// that a person must approve, where there is no other place for it.
//
// Guarantee: RUN8
func TestToolsAreTheSameByEveryWay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	caller := connector.Caller{Tenant: "acme", Principal: "alice"}
	definitions, err := h.runtime.Tools(t.Context(), caller)
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range h.ways(caller) {
		tools, err := way.Tools(t.Context())
		if err != nil || len(tools) != len(definitions) {
			t.Errorf("%s shows %d tools, error %v", way.Name(), len(tools), err)
			continue
		}
		for _, d := range definitions {
			i := slices.IndexFunc(tools, func(shown Tool) bool { return shown.Name == d.Name })
			if i < 0 {
				t.Errorf("%s does not show %s", way.Name(), d.Name)
				continue
			}
			var schema any
			if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(schema, tools[i].Input); diff != "" {
				t.Errorf("%s: the input of %s (-defined +shown):\n%s", way.Name(), d.Name, diff)
			}
			added, found := strings.CutPrefix(tools[i].Description, d.Description)
			if !found || added != "" && (!d.Approval || !strings.Contains(added, "must approve")) {
				t.Errorf("%s describes %s as %q", way.Name(), d.Name, tools[i].Description)
			}
		}
	}
}
