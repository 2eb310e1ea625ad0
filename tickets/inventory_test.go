package tickets_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// inventory is the runtime for background work over the same services.
func (d *desk) inventory() *connector.Runtime {
	d.t.Helper()
	ring, err := keys.OpenFile(filepath.Join(d.data, "keys.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		d.t.Fatal(err)
	}
	profile := transport.Loopback("sandbox", d.org.URL())
	profile.Limits.Rate = 1000
	tr, err := transport.New(transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: d.host.Credentials})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(tr.Close)
	lister, ok := tickets.NewInventory(sandboxorg.Driver{})
	if !ok {
		d.t.Fatal("the sandbox can't be swept")
	}
	r, err := connector.New(connector.Config{Connectors: []connector.Connector{lister}, Policy: host.Local{}, Consent: host.Local{},
		Connections: d.host.Credentials, Transport: tr, Cursors: codec, Auditor: noAudit{}})
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// A sweep sees every ticket of the grant, closed and archived ones too, and
// nothing else; the ordinary runtime does not know the operation.
// Guarantee: HOO5
func TestInventory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.connect("alice", "web")
	r := d.inventory()
	before, err := d.org.AddTicket(sandbox.Seed{Project: new("web")})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []tickets.Entry
	for _, k := range d.org.Tickets() {
		if k.Project.ID == "web" && k.Type == "ticket" {
			want = append(want, tickets.Entry{ID: k.ID, Project: "web", Version: "1"})
		}
	}
	list := func(since time.Time) (all []tickets.Entry, clock time.Time) {
		for cursor := ""; ; {
			page, err := tickets.List(t.Context(), r, p.caller, since, cursor)
			if err != nil {
				t.Fatal(err)
			}
			all, clock = append(all, page.Entries...), page.Clock
			if cursor = page.Next; cursor == "" {
				return all, clock
			}
		}
	}
	byID := func(a, b tickets.Entry) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	}
	got, clock := list(time.Time{})
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("everything (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(got, func(e tickets.Entry) bool { return e.ID == "WEB-3" }) ||
		!slices.ContainsFunc(got, func(e tickets.Entry) bool { return e.ID == "WEB-4" }) {
		t.Error("the archived or the closed ticket is missing")
	}
	if clock.IsZero() {
		t.Error("the provider's clock is unknown")
	}
	if recent, _ := list(before.UpdatedAt); len(recent) == 0 || len(recent) >= len(got) {
		t.Errorf("%d of %d tickets changed since the last one was made", len(recent), len(got))
	}
	if res := p.call(tickets.InventoryTool, map[string]any{"since": time.Time{}, "cursor": ""}); code(res) != connector.CodeUnknownTool {
		t.Errorf("the ordinary runtime answers %v", code(res))
	}
}

// The refetch is the ordinary read: same rights, same neutral refusal.
// Guarantee: HOO6
func TestFetchIsAuthorizedLikeACall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	p := d.connect("alice", "web")
	got, err := tickets.Fetch(t.Context(), d.runtime, p.caller, "WEB-4")
	if n, coarse := got.Order(); err != nil || got.Project != "web" || n != 1 || coarse {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := tickets.Fetch(t.Context(), d.runtime, p.caller, "SEC-1"); connector.CodeOf(err) != connector.CodeNotFound {
		t.Errorf("a ticket outside the grant: %v", err)
	}
	if _, err := tickets.Fetch(t.Context(), d.runtime, connector.Caller{Tenant: "acme", Principal: "mallory"}, "WEB-4"); connector.CodeOf(err) != connector.CodeConnectionRequired {
		t.Errorf("somebody without a connection: %v", err)
	}
}

type decoder struct {
	sandboxorg.Driver
	changed []tickets.Changed
}

func (d decoder) DecodeEvent(string, []byte) ([]tickets.Changed, error) { return d.changed, nil }

// W23: what lies outside the connection is counted and left out; what can't be
// an id never reaches a database or a path.
// Guarantee: HOO6
func TestDecodeHoldsEventsToTheConnection(t *testing.T) {
	t.Parallel()
	c := connector.Connection{Resources: []string{"web"}}
	in, out := tickets.Changed{ID: "1", Project: "web"}, tickets.Changed{ID: "2", Project: "secret"}
	got, outside, err := tickets.Decode(decoder{changed: []tickets.Changed{in, out, out}}, c, "", nil)
	if diff := cmp.Diff([]tickets.Changed{in}, got); diff != "" || outside != 2 || err != nil {
		t.Errorf("outside %d, %v (-want +got):\n%s", outside, err, diff)
	}
	for _, bad := range []tickets.Changed{{ID: "a\x00b", Project: "web"}, {ID: "\xff", Project: "web"}, {ID: string(make([]byte, 301)), Project: "web"}, {ID: "1"}} {
		if got, _, err := tickets.Decode(decoder{changed: []tickets.Changed{in, bad}}, c, "", nil); !errors.Is(err, tickets.ErrEvent) || got != nil {
			t.Errorf("%q: %v, %v", bad.ID, got, err)
		}
	}
	if got, outside, err := tickets.Decode(struct{ tickets.Driver }{sandboxorg.Driver{}}, c, "", []byte("{")); got != nil || outside != 0 || err != nil {
		t.Errorf("a driver without events: %v, %d, %v", got, outside, err)
	}
}

func TestOrderWithoutANumberIsTheTime(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	if n, coarse := (tickets.Ticket{Version: at.Format(time.RFC3339), UpdatedAt: at}).Order(); n != at.UnixMilli() || !coarse {
		t.Errorf("%d, %v", n, coarse)
	}
}
