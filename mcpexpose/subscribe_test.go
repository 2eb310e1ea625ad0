package mcpexpose

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/notices"
)

// following is a house whose tickets are resources that can be subscribed to. What
// changes at the organisation is noticed when apply says so.
func following(t *testing.T) *house {
	t.Helper()
	var h *house
	h = newHouse(t, func(c *Config) {
		c.Mounts[0].Objects = &Objects{Kind: "tickets", Tool: "tickets.get", Argument: "id",
			Watch: func(ctx context.Context, caller connector.Caller) (Watcher, error) {
				w, err := h.host.Watch(ctx, caller, "sandbox", notices.Now)
				if err != nil {
					return nil, err
				}
				return watching{w}, nil
			}}
	})
	return h
}

type watching struct{ *notices.Watcher }

func (w watching) Next(ctx context.Context) (string, error) {
	n, err := w.Watcher.Next(ctx)
	return n.ID, err
}

// follow has the mirror take everything that a caller's connection sees.
func (h *house) follow(c connector.Caller) connector.Connection {
	h.t.Helper()
	conn, err := h.host.Credentials.Resolve(context.Background(), c, "sandbox", nil)
	if err == nil {
		err = h.host.Follow(context.Background(), conn)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.apply()
	return conn
}

// apply does what the inbox's worker does, until nothing is due.
func (h *house) apply() {
	h.t.Helper()
	ctx := context.Background()
	for {
		leases, err := h.host.Webhooks.Inbox().Claim(ctx, 8)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			if err := h.host.Mirror.Apply(ctx, l); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

func (h *house) change(conn connector.Connection, id string) {
	h.t.Helper()
	body := "changed at " + time.Now().String()
	if _, err := h.org.ChangeTicket(id, sandbox.Seed{Body: &body}); err != nil {
		h.t.Fatal(err)
	}
	err := h.host.DB.Update(context.Background(), func(tx *store.Tx) error {
		return h.host.Webhooks.Inbox().Mark(context.Background(), tx, []inbox.Mark{{Lane: mirror.ObjectLane(conn, id)}})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.apply()
}

func (h *house) ticket(project, title string) (id, uri string) {
	h.t.Helper()
	made, err := h.org.AddTicket(sandbox.Seed{Project: &project, Title: &title})
	if err != nil {
		h.t.Fatal(err)
	}
	return made.ID, "drawbridge://tickets/desk/" + made.ID
}

// hearing is a client of one era that notes which resources it was told of.
func (h *house) hearing(c connector.Caller, version string) (*mcp.ClientSession, chan string) {
	h.t.Helper()
	told := make(chan string, 1000)
	transport := &http.Transport{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { told <- r.Params.URI },
	}).Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: h.web.URL, HTTPClient: &http.Client{Transport: as{c, transport}}, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	return session, told
}

// subscribe returns when the server tells of changes; the newer era's client does not
// wait for that.
func (h *house) subscribe(s *mcp.ClientSession, uri string) {
	h.t.Helper()
	before := h.watched()
	if err := s.Subscribe(context.Background(), &mcp.SubscribeParams{URI: uri}); err != nil {
		h.t.Fatal(err)
	}
	h.until("the subscription is open", func() bool { return h.watched() > before })
}

func (h *house) unsubscribe(s *mcp.ClientSession, uri string) {
	h.t.Helper()
	before := h.watched()
	if err := s.Unsubscribe(context.Background(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
		h.t.Fatal(err)
	}
	h.until("the subscription is over", func() bool { return h.watched() < before })
}

// watched counts the resources of acknowledged subscriptions.
func (h *house) watched() (n int) {
	h.server.streams.mu.Lock()
	defer h.server.streams.mu.Unlock()
	for st := range h.server.streams.open {
		select {
		case <-st.ready:
		default:
			continue
		}
		st.mu.Lock()
		for _, f := range st.mounts {
			n += len(f.uris)
		}
		st.mu.Unlock()
	}
	return n
}

func (h *house) until(what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("never: %s", what)
		}
	}
}

// hears has to be told of one resource, before any other.
func (h *house) hears(told chan string, uri string) {
	h.t.Helper()
	select {
	case got := <-told:
		if got != uri {
			h.t.Fatalf("told of %s, want %s", got, uri)
		}
	case <-time.After(20 * time.Second):
		h.t.Fatalf("never told of %s", uri)
	}
}

func eachEra(t *testing.T, fn func(t *testing.T, version string)) {
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) { t.Parallel(); fn(t, version) })
	}
}

// What the mirror notices under somebody's connection reaches who subscribed to it in
// their name, and nobody else, although all of them share one server of the SDK.
// Guarantee: MCP8
func TestSubscribersHearOfTheirOwn(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, version string) {
		h := following(t)
		one, oneURI := h.ticket("orders", "one")
		two, twoURI := h.ticket("orders", "two")
		h.connect(alice)
		h.connect(bob)
		as, bs := h.follow(alice), h.follow(bob)
		a, toldA := h.hearing(alice, version)
		b, toldB := h.hearing(bob, version)
		h.subscribe(a, oneURI)
		h.subscribe(a, twoURI)
		h.subscribe(b, oneURI)
		h.change(as, one)
		h.hears(toldA, oneURI)
		h.change(as, two)
		h.hears(toldA, twoURI)
		if len(toldB) > 0 {
			t.Errorf("bob was told of what was noticed for alice: %s", <-toldB)
		}
		h.change(bs, one)
		h.hears(toldB, oneURI)

		h.unsubscribe(a, oneURI)
		h.change(as, one)
		h.change(as, two)
		h.hears(toldA, twoURI)
	})
}

// The time that a server allows for a request ends no stream that the request opened.
func TestAStreamOutlivesTheTimeForItsRequest(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, version string) {
		h := following(t)
		short := httptest.NewUnstartedServer(h.web.Config.Handler)
		short.Config.ReadTimeout = 300 * time.Millisecond
		short.Start()
		t.Cleanup(short.Close)
		h.web = short
		one, uri := h.ticket("orders", "one")
		h.connect(alice)
		conn := h.follow(alice)
		client, told := h.hearing(alice, version)
		h.subscribe(client, uri)
		time.Sleep(3 * short.Config.ReadTimeout)
		h.change(conn, one)
		h.hears(told, uri)
	})
}

// A connection that is cut ends its subscriptions and no others.
// Guarantee: MCP4
func TestCutConnectionEndsSubscriptions(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, version string) {
		h := following(t)
		_, uri := h.ticket("orders", "one")
		h.connect(alice)
		h.connect(bob)
		conn := h.follow(alice)
		bobs := h.follow(bob)
		a, toldA := h.hearing(alice, version)
		b, toldB := h.hearing(bob, version)
		h.subscribe(a, uri)
		h.subscribe(b, uri)
		if _, err := h.host.Credentials.Disconnect(t.Context(), alice, conn.ID, "the test cuts it"); err != nil {
			t.Fatal(err)
		}
		h.until("alice's subscription ends", func() bool { return h.watched() == 1 })
		if version == legacy { // the one sign of the end that this era has
			h.hears(toldA, uri)
		}
		if _, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "CONNECTION_REQUIRED") {
			t.Errorf("read: %v", err)
		}
		h.change(bobs, uri[strings.LastIndex(uri, "/")+1:])
		h.hears(toldB, uri)
		if len(toldA) > 0 {
			t.Errorf("alice was told of %s", <-toldA)
		}
	})
}

// What can't be read can't be subscribed to, and nothing tells why.
func TestHiddenResourcesCantBeSubscribedTo(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, version string) {
		h := following(t)
		_, hidden := h.ticket("secret", "hidden")
		h.connect(alice)
		h.follow(alice)
		b, _ := h.hearing(alice, version)
		for _, uri := range []string{hidden, "drawbridge://tickets/desk/NONE-1", "drawbridge://tickets/other/1", "drawbridge://tickets/desk/", "test://x"} {
			err := b.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri})
			if version == legacy && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), uri, ""), "not found")) {
				t.Errorf("%s: %v", uri, err)
			}
			if _, err := b.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("read %s: %v", uri, err)
			}
		}
		if n := h.watched(); n != 0 {
			t.Errorf("%d resources are watched", n)
		}
	})
}

// A resource is the tool's answer, for who may call the tool now.
func TestTicketsAreResources(t *testing.T) {
	t.Parallel()
	eachEra(t, func(t *testing.T, version string) {
		h := following(t)
		title := "a printer"
		id, uri := h.ticket("orders", title)
		h.connect(alice)
		s := h.client(alice, version, nil)
		r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ ID, Title string }
		if err := json.Unmarshal([]byte(r.Contents[0].Text), &got); err != nil || got.ID != id || got.Title != title {
			t.Errorf("%+v, %v", got, err)
		}
		templates := func() (n int) {
			list, err := s.ListResourceTemplates(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.ResourceTemplates {
				if strings.HasPrefix(r.URITemplate, "drawbridge://tickets/") {
					n++
				}
			}
			return n
		}
		if n := templates(); n != 1 {
			t.Errorf("%d templates of tickets", n)
		}
		h.gates.forbid("alice", "tickets.get", true)
		s = h.client(alice, version, nil) // the newer era's client keeps what it has read for a while
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("%v", err)
		}
	})
}

// Characters that hide are written out, and the document is the same.
func TestSpell(t *testing.T) {
	t.Parallel()
	const hidden = "a\u202e b\U000e0041 c\u007f"
	raw, _ := json.Marshal(hidden)
	got := spell(string(raw))
	var back string
	if err := json.Unmarshal([]byte(got), &back); err != nil || back != hidden || strings.IndexFunc(got, hides) >= 0 {
		t.Errorf("%s, %q, %v", got, back, err)
	}
}

// told by hand: a watcher that a test speaks through.
type spoken chan string

func (s spoken) Next(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case id, ok := <-s:
		if !ok {
			return "", errors.New("over")
		}
		return id, nil
	}
}

func (spoken) Close() {}

// Who lost the details is told of all that they subscribed to.
func TestLostDetailsAreEveryResource(t *testing.T) {
	t.Parallel()
	h := following(t)
	said := make(spoken)
	h.server.Mounts[0].Objects.Watch = func(context.Context, connector.Caller) (Watcher, error) { return said, nil }
	_, one := h.ticket("orders", "one")
	_, two := h.ticket("orders", "two")
	h.connect(alice)
	s, told := h.hearing(alice, legacy)
	h.subscribe(s, one)
	h.subscribe(s, two)
	said <- ""
	got := map[string]bool{<-told: true, <-told: true}
	if !got[one] || !got[two] {
		t.Errorf("told of %v", got)
	}
}

// One caller has so many streams and no more, and a server that stops has none.
func TestOpenSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	h := following(t)
	_, uri := h.ticket("orders", "one")
	h.connect(alice)
	h.follow(alice)
	for range maxStreams {
		s, _ := h.hearing(alice, legacy)
		h.subscribe(s, uri)
	}
	s, _ := h.hearing(alice, legacy)
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "OVERLOADED") {
		t.Errorf("one more: %v", err)
	}
	h.server.EndSubscriptions()
	h.until("all are over", func() bool { return h.watched() == 0 })
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err == nil {
		t.Error("a server that stops began a subscription")
	}
}
