package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// desk is a provider with its connector and everything else that a Runtime asks
// for; only the ledger and the audit log are the real ones.
type desk struct {
	mu     sync.Mutex
	notes  []deskNote
	answer func(connector.Response) (connector.Response, error) // after the write was applied
}

type deskInput struct {
	Title string `json:"title"`
}

type deskNote struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	op    connector.OperationID
}

func (d *desk) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true, Version: "p1"}, nil
}

func (d *desk) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

func (d *desk) Resolve(_ context.Context, c connector.Caller, provider string, scopes []string) (connector.Connection, error) {
	return connector.Connection{ID: "con_1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider, Scopes: scopes, AuthzVersion: 7,
		Account: connector.Account{Issuer: "https://id.example", Subject: "4711", Login: "alice@acme"}}, nil
}

func (d *desk) Current(context.Context, connector.Connection) error { return nil }

func (d *desk) Do(_ context.Context, _ connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	resp := connector.Response{Status: 200, FetchedAt: time.Now()}
	if class == connector.ClassRead {
		for _, n := range d.notes {
			if r.Query.Get("op") == string(n.op) {
				resp.Body, _ = json.Marshal(n)
				return resp, nil
			}
		}
		resp.Body = []byte(`{"id":"","title":""}`)
		return resp, nil
	}
	var in deskInput
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return connector.Response{}, err
	}
	n := deskNote{ID: fmt.Sprint("n", len(d.notes)+1), Title: in.Title, op: r.OperationID}
	d.notes = append(d.notes, n)
	resp.Status = 201
	resp.Body, _ = json.Marshal(n)
	if d.answer != nil {
		return d.answer(resp)
	}
	return resp, nil
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.notes)
}

func (d *desk) connector() connector.Connector {
	create := connector.Write(connector.Spec{
		Name: "desk.create", Title: "Create a note", Doc: "Creates one note.", Effect: connector.EffectCompensable,
		Sensitivity: connector.SensitivityInternal, Scopes: []string{"write"},
	}, connector.Steps[deskInput, deskNote]{
		Plan: func(_ context.Context, _ *connector.Access, in deskInput) (connector.Request, error) {
			body, err := json.Marshal(in)
			return connector.Request{Method: "POST", Path: "/notes", ContentType: "application/json", Body: body, Summary: "Create a note"}, err
		},
		Decode: connector.DecodeJSON[deskNote],
		ID:     func(n deskNote) string { return n.ID },
		Find: func(ctx context.Context, a *connector.Access, id connector.OperationID, _ deskInput) (deskNote, connector.Found, error) {
			n, _, err := connector.Get[deskNote](ctx, a, connector.Request{Path: "/notes", Query: map[string][]string{"op": {string(id)}}})
			if err != nil || n.ID == "" {
				return n, connector.FoundNo, err
			}
			return n, connector.FoundYes, nil
		},
		Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Operation-Id"},
	})
	return connector.Connector{
		ID: "desk", Version: "1.0.0", Owner: "tests", Provider: "desk", ProviderVersion: "1",
		Auth:     connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"write"}},
		Identify: func(context.Context, *connector.Access) (connector.Identity, error) { return connector.Identity{}, nil },
		Operations: []connector.Operation{
			create,
		},
	}
}

// office is two replicas of a host on one database.
type office struct {
	*bench
	desk  *desk
	hosts [2]*connector.Runtime
	audit *AuditLog
}

func newOffice(t *testing.T, b *bench) *office {
	t.Helper()
	o := &office{bench: b, desk: &desk{}, audit: newAudit(t, AuditConfig{DB: b.db})}
	for i := range o.hosts {
		r, err := connector.New(connector.Config{Connectors: []connector.Connector{o.desk.connector()}, Policy: o.desk, Consent: o.desk,
			Connections: o.desk, Transport: o.desk, Operations: b.replica(), Auditor: o.audit})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		o.hosts[i] = r
	}
	return o
}

func (o *office) call(host int) connector.Result {
	return o.hosts[host].Execute(o.t.Context(), connector.Caller{Tenant: acme, Principal: "alice"},
		connector.Call{Tool: "desk.create", Arguments: json.RawMessage(`{"title":"printer on fire"}`)})
}

// Guarantee: TIX4, TIX5, RUN7
func TestE9ConcurrentCallsOfTwoHostsMakeOneNote(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		o := newOffice(t, b)
		first := o.call(0)
		if first.Error == nil || first.Error.Code != connector.CodeApprovalRequired || o.desk.count() != 0 {
			t.Fatalf("the first call answers %+v, %d notes", first.Error, o.desk.count())
		}
		if _, err := b.Approve(t.Context(), acme, string(first.Error.Approval), "bob"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				r := o.call(i % 2)
				switch {
				case r.Status == connector.StatusSuccess:
				case r.Error != nil && r.Error.Code == connector.CodeOutcomeUnknown:
				default:
					t.Errorf("call %d: %s %+v", i, r.Status, r.Error)
				}
				if r.Effect.Operation != first.Effect.Operation {
					t.Errorf("call %d is operation %s, want %s", i, r.Effect.Operation, first.Effect.Operation)
				}
			})
		}
		wg.Wait()
		if n := o.desk.count(); n != 1 {
			t.Errorf("the provider holds %d notes, want 1", n)
		}
		replay := o.call(1)
		if replay.Status != connector.StatusSuccess || !replay.Replayed || replay.Receipt.ExternalID() != "n1" {
			t.Errorf("replay = %s %+v", replay.Status, replay.Error)
		}
		records, err := o.audit.List(t.Context(), acme, AuditFilter{Operation: first.Effect.Operation})
		if err != nil || len(records) != 22 {
			t.Errorf("%d audit records of the operation (%v), want 22", len(records), err)
		}
	})
}

// Guarantee: TIX5
func TestE5LostAnswerIsSettledByAnotherHost(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		o := newOffice(t, b)
		o.desk.answer = func(connector.Response) (connector.Response, error) {
			return connector.Response{}, &connector.Error{Code: connector.CodeUnavailable, Effect: connector.DispositionUnknown}
		}
		first := o.call(0)
		if _, err := b.Approve(t.Context(), acme, string(first.Error.Approval), "bob"); err != nil {
			t.Fatal(err)
		}
		lost := o.call(0)
		if lost.Status != connector.StatusUnknown || lost.Error.Code != connector.CodeOutcomeUnknown {
			t.Fatalf("lost = %s %+v", lost.Status, lost.Error)
		}
		if again := o.call(1); again.Status != connector.StatusUnknown {
			t.Errorf("the same call again = %s, want unknown", again.Status)
		}
		b.pass(2 * time.Second)
		for _, id := range b.due() {
			if _, err := o.hosts[1].Settle(t.Context(), acme, id); err != nil {
				t.Errorf("settle: %v", err)
			}
		}
		replay := o.call(0)
		if replay.Status != connector.StatusSuccess || replay.Receipt.How() != "look_up" || replay.Receipt.ExternalID() != "n1" {
			t.Errorf("replay = %s %+v", replay.Status, replay.Error)
		}
		if n := o.desk.count(); n != 1 {
			t.Errorf("the provider holds %d notes, want 1", n)
		}
	})
}

// deaf is an auditor of a process that dies before it could be asked.
type deaf struct{}

func (deaf) Record(context.Context, connector.AuditRecord) error {
	return connector.Fail(connector.CodeUnavailable, "the process is dead")
}

// A crash behind the commit of an outcome leaves its audit record: it is in the
// same transaction.
//
// Guarantee: RUN7
func TestOutcomeAndAuditRecordAreOneCommit(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		o := newOffice(t, b)
		r, err := connector.New(connector.Config{Connectors: []connector.Connector{o.desk.connector()}, Policy: o.desk, Consent: o.desk,
			Connections: o.desk, Transport: o.desk, Operations: b.replica(), Auditor: deaf{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		o.hosts[0] = r
		refuse := func(connector.Response) (connector.Response, error) { return connector.Response{Status: 422}, nil }
		lose := func(connector.Response) (connector.Response, error) {
			return connector.Response{}, &connector.Error{Code: connector.CodeUnavailable, Effect: connector.DispositionUnknown}
		}
		want := []string{}
		for i, answer := range []func(connector.Response) (connector.Response, error){nil, refuse, lose} {
			o.desk.answer = answer
			call := connector.Call{Tool: "desk.create", Arguments: fmt.Appendf(nil, `{"title":"note %d"}`, i)}
			caller := connector.Caller{Tenant: acme, Principal: "alice"}
			asked := r.Execute(t.Context(), caller, call)
			if _, err := b.Approve(t.Context(), acme, string(asked.Error.Approval), "bob"); err != nil {
				t.Fatal(err)
			}
			ended := r.Execute(t.Context(), caller, call)
			for _, r := range []connector.Result{asked, ended} {
				code := ""
				if r.Error != nil {
					code = r.Error.Code.String()
				}
				want = append(want, fmt.Sprint(r.CallID, " ", r.Status, " ", code, " ", r.Effect.Operation))
			}
		}
		var got []string
		entries, err := o.audit.After(t.Context(), acme, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			got = append(got, fmt.Sprint(e.Record.CallID, " ", e.Record.Status, " ", e.Record.Code, " ", e.Record.Operation))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("audit records (-want +got):\n%s", diff)
		}
		if head, err := o.audit.Verify(t.Context(), acme); err != nil || head.Seq != int64(len(want)) {
			t.Errorf("chain of %d records: %v", head.Seq, err)
		}
	})
}
