package tickets_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// subscriber is alice with a connection that may subscribe, in front of a runtime
// of its own for that.
func subscriber(t *testing.T) *person {
	t.Helper()
	org, err := sandbox.Start(t.Context(), sandbox.Config{Seed: 1})
	must(t, err)
	t.Cleanup(func() { org.Close() })
	d := &desk{t: t, org: org, data: t.TempDir()}
	d.host, err = host.Open(t.Context(), host.Config{Data: d.data, Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL()), Rate: 1000,
			Scopes: []string{"tickets:read", "profile:read", "webhooks:manage", "offline_access"}}}})
	must(t, err)
	t.Cleanup(func() { d.host.Close() })
	d.runtime, _ = d.host.Runtime("sandbox")
	p := d.connect("alice")

	ring, err := keys.OpenFile(filepath.Join(d.data, "keys.json"))
	must(t, err)
	codec, err := cursors.New(cursors.Config{Keys: ring})
	must(t, err)
	profile := transport.Loopback("sandbox", org.URL())
	profile.Limits.Rate = 1000
	tr, err := transport.New(transport.Config{Profiles: transport.Static{"sandbox": profile}, Credentials: d.host.Credentials})
	must(t, err)
	t.Cleanup(tr.Close)
	c, ok := tickets.NewHooks(sandboxorg.Driver{})
	if !ok {
		t.Fatal("the sandbox has no subscriptions")
	}
	d.runtime, err = connector.New(connector.Config{Connectors: []connector.Connector{c}, Policy: host.Local{}, Consent: host.Local{},
		Connections: d.host.Credentials, Transport: tr, Cursors: codec, Operations: d.host.Ledger, Auditor: noAudit{}})
	must(t, err)
	t.Cleanup(d.runtime.Close)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *person) hooks() []tickets.Hook {
	p.t.Helper()
	out, r := connector.Do[map[string]string, struct{ Hooks []tickets.Hook }](p.t.Context(), p.runtime, p.caller, tickets.HooksTool, map[string]string{})
	p.expect("list", r, connector.StatusSuccess, 0, connector.DispositionNone)
	return out.Hooks
}

func (p *person) subscribe(d tickets.HookDraft) (tickets.Hook, connector.Result) {
	p.t.Helper()
	return connector.Do[tickets.HookDraft, tickets.Hook](p.t.Context(), p.runtime, p.caller, tickets.HookCreateTool, d)
}

// approvedHook proposes a subscription and has a person approve it.
func (p *person) approvedHook(d tickets.HookDraft) *connector.Pending {
	p.t.Helper()
	_, r := p.subscribe(d)
	p.expect("proposal", r, connector.StatusError, connector.CodeApprovalRequired, connector.DispositionNone)
	_, err := p.host.Ledger.Approve(p.t.Context(), p.caller.Tenant, string(r.Pending.Approval), "maria")
	must(p.t, err)
	return r.Pending
}

// A subscription is a write like any other: approved, made once, found again by
// its address. What it then delivers is signed with the key of the answer.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	p := subscriber(t)
	type delivery struct {
		header http.Header
		body   []byte
	}
	arrived := make(chan delivery, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		arrived <- delivery{r.Header, body}
	}))
	defer receiver.Close()
	draft := tickets.HookDraft{Address: receiver.URL + "/webhooks/abc"}

	if pending := p.approvedHook(draft); pending.Body != `{"url":"`+draft.Address+`"}` {
		t.Errorf("to be approved: %s", pending.Body)
	}
	if len(p.hooks()) != 0 {
		t.Error("a subscription is there before it was approved and called")
	}
	made, r := p.subscribe(draft)
	p.expect("made", r, connector.StatusSuccess, 0, connector.DispositionApplied)
	if made.ID == "" || made.SigningKey == "" || made.Address != draft.Address {
		t.Errorf("made %+v", made)
	}
	if again, r := p.subscribe(draft); !r.Replayed || again != made {
		t.Errorf("again: %+v, replayed %v", again, r.Replayed)
	}
	// A list never has the key.
	if diff := cmp.Diff([]tickets.Hook{{ID: made.ID, Address: made.Address}}, p.hooks()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ticket, err := p.org.AddTicket(sandbox.Seed{Project: new("web")})
	must(t, err)
	got := <-arrived
	scheme, _ := signature.Lookup(sandboxorg.Driver{}.Subscribing().Scheme)
	v, err := signature.Verify(scheme, []signature.Secret{{Text: made.SigningKey}}, got.header, got.body, time.Now())
	must(t, err)
	changed, _, err := tickets.Decode(sandboxorg.Driver{}, p.connection, v.EventType, v.Payload)
	must(t, err)
	if diff := cmp.Diff([]tickets.Changed{{ID: ticket.ID, Project: "web"}}, changed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A lost answer is settled by the address, whichever way it went, and the hook
// that is found has no key.
func TestSubscribeLostAnswer(t *testing.T) {
	t.Parallel()
	p := subscriber(t)
	onHook := sandbox.Match{Method: "POST", Path: "/api/v1/webhooks", Exact: true}
	for when, want := range map[string]connector.OperationState{"after": connector.StateApplied, "before": connector.StateUnknown} {
		draft := tickets.HookDraft{Address: "http://127.0.0.1:1/webhooks/" + when}
		p.approvedHook(draft)
		p.misbehave(rule(onHook, sandbox.Effect{Kind: "status", When: when, Status: 500}))
		_, r := p.subscribe(draft)
		p.expect("lost "+when, r, connector.StatusUnknown, connector.CodeOutcomeUnknown, connector.DispositionUnknown)
		p.misbehave()
		if rec := p.settle(r.Effect.Operation); rec.State != want {
			t.Errorf("lost %s: settled as %s (%s), want %s", when, rec.State, rec.Reason, want)
		}
	}
	hooks := p.hooks()
	if len(hooks) != 1 || hooks[0].SigningKey != "" {
		t.Errorf("subscriptions %+v", hooks)
	}
}

// Refused before a person is asked, and never at the provider.
func TestSubscribeRefused(t *testing.T) {
	t.Parallel()
	p := subscriber(t)
	for pointer, drafts := range map[string][]tickets.HookDraft{
		"/address": {{Address: "ftp://host/x"}, {Address: "/webhooks/x"}, {Address: "https://user:pass@host/x"}, {Address: "https://host/x#y"},
			{Address: " https://host/x"}, {Address: "https:///x"}},
		"/signing_key": {{Address: "https://host/x", SigningKey: "ours, though theirs is asked for"}},
		"/project":     {{Address: "https://host/x", Project: "web"}},
	} {
		for _, d := range drafts {
			_, r := p.subscribe(d)
			p.expect(d.Address, r, connector.StatusError, connector.CodeInvalidInput, connector.DispositionNone)
			if r.Error == nil || len(r.Error.Faults) != 1 || r.Error.Faults[0].Pointer != pointer {
				t.Errorf("%+v: faults %v, want %s", d, r.Error, pointer)
			}
		}
	}
	if n := p.org.Hits("POST /api/v1/webhooks"); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestHooksConnectors(t *testing.T) {
	t.Parallel()
	for _, d := range []tickets.Driver{sandboxorg.Driver{}, gitea.Driver{}} {
		c, ok := tickets.NewHooks(d)
		if err := connector.Lint(c); err != nil || !ok {
			t.Errorf("%s: %v", d.Facts().Provider, err)
		}
	}
	if _, ok := tickets.NewHooks(struct{ tickets.Driver }{sandboxorg.Driver{}}); ok {
		t.Error("a driver without subscriptions has some")
	}
}
