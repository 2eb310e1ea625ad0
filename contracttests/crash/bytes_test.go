package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// settled is a connected house on a new database.
func settled(t *testing.T) (*house, *sandbox.Server, place) {
	t.Helper()
	ctx := t.Context()
	org, err := sandbox.Start(ctx, sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	p := place{Data: t.TempDir(), Database: storetest.SQLite(t).URL, Provider: org.URL()}
	h, err := open(ctx, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	if err := h.connect(ctx, org); err != nil {
		t.Fatal(err)
	}
	return h, org, p
}

// TestOneByteChangedAfterApproval approves one payload under one intent and
// then calls with another: it must be refused and nothing sent, unless the two
// are the same JSON value.
//
// E2, E13; T15.
// Guarantee: TIX4
func TestOneByteChangedAfterApproval(t *testing.T) {
	t.Parallel()
	h, org, _ := settled(t)
	const approved = `{"project":"orders","title":"Caf\u00e9 prints 1","body":"a line","severity":"low","labels":["bug"],"evidence":["007"]}`
	const same, other, malformed = "the same write", "refused: CONFLICT", "refused: INVALID_INPUT"
	swap := func(old, new string) string {
		if !strings.Contains(approved, old) {
			t.Fatalf("the approved payload has no %q", old)
		}
		return strings.Replace(approved, old, new, 1)
	}
	for _, c := range []struct{ name, payload, want string }{
		{"the approved bytes", approved, same},
		{"project", swap(`"orders"`, `"web"`), other},
		{"title, one letter", swap(`prints 1`, `prints 2`), other},
		{"title, a space at its end", swap(`prints 1`, `prints 1 `), other},
		{"title, letter case", swap(`Caf`, `caf`), other},
		{"title, NFD for NFC", swap(`\u00e9`, `e\u0301`), other},
		{"title, an invisible character", swap(`prints 1`, `prints\u200b 1`), other},
		{"title, a homoglyph", swap(`prints`, `\u0440rints`), other},
		{"body, one letter", swap(`a line`, `a lime`), other},
		{"body, a line end", swap(`a line`, `a line\n`), other},
		{"body, CRLF for nothing", swap(`a line`, `a\r\nline`), other},
		{"severity", swap(`"low"`, `"high"`), other},
		{"labels, another", swap(`["bug"]`, `["p1"]`), other},
		{"labels, one more", swap(`["bug"]`, `["bug","p1"]`), other},
		{"labels, none", swap(`["bug"]`, `[]`), other},
		{"labels, left out", swap(`,"labels":["bug"]`, ``), other},
		{"evidence, 7 for 007", swap(`"007"`, `"7"`), other},
		{"evidence, a number", swap(`"007"`, `7`), malformed},
		{"a field more", swap(`"severity"`, `"priority":1,"severity"`), malformed},
		{"a key twice", swap(`"severity":"low"`, `"severity":"low","severity":"low"`), malformed},
		{"a key in capitals", swap(`"severity"`, `"Severity"`), malformed},
		{"not UTF-8", swap(`a line`, "a \xff line"), malformed},
		{"a lone surrogate", swap(`a line`, `a \ud800 line`), malformed},
		{"text behind the object", approved + `{}`, malformed},
		{"key order", `{"evidence":["007"],"labels":["bug"],"severity":"low","body":"a line","title":"Caf\u00e9 prints 1","project":"orders"}`, same},
		{"white space between tokens", strings.NewReplacer(`,"`, " ,\n\t\"", `:`, " : ").Replace(approved), same},
		{"another escape of the same letter", swap(`\u00e9`, `é`), same},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			intent := "intent " + c.name
			call := func(payload string) connector.Result {
				return h.runtime.Execute(ctx, caller, connector.Call{Tool: "tickets.create", Intent: intent, Arguments: json.RawMessage(payload)})
			}
			asked := call(approved)
			if asked.Pending == nil {
				t.Fatalf("proposal: %s %+v", asked.Status, asked.Error)
			}
			if err := h.approve(ctx, asked.Pending.Approval); err != nil {
				t.Fatal(err)
			}
			before := len(org.Ledger())
			r := call(c.payload)
			got := same
			if r.Error != nil {
				got = "refused: " + r.Error.Code.String()
			}
			sent := len(org.Ledger()) - before
			if got != c.want || (sent == 1) != (c.want == same) {
				t.Errorf("%s with %d tickets, want %s (%+v)", got, sent, c.want, r.Error)
			}
			// The refusal spoilt nothing: the approved bytes still go, once.
			if last := call(approved); last.Status != connector.StatusSuccess || len(org.Ledger()) != before+1 {
				t.Errorf("the approved payload afterwards: %s %+v, %d tickets", last.Status, last.Error, len(org.Ledger())-before)
			}
		})
	}
}

// TestStoredByteChangedAfterApproval changes what the database holds, behind
// the ledger's back. Nothing of it may be sent.
//
// E2.
// Guarantee: TIX4
func TestStoredByteChangedAfterApproval(t *testing.T) {
	h, org, _ := settled(t)
	ctx := t.Context()
	for column, change := range map[string]string{
		"plan":          "substr(plan, 1, length(plan) - 1) || x'00'",
		"arguments":     "substr(arguments, 1, length(arguments) - 1) || x'00'",
		"digest":        "'0' || substr(digest, 2) || '0'",
		"version":       "version || '0'",
		"authz_version": "authz_version + 1",
		"args_digest":   "args_digest || '0'",
	} {
		t.Run(column, func(t *testing.T) {
			title := "stored " + column
			asked := h.create(ctx, title)
			if asked.Pending == nil {
				t.Fatalf("proposal: %s %+v", asked.Status, asked.Error)
			}
			if err := h.approve(ctx, asked.Pending.Approval); err != nil {
				t.Fatal(err)
			}
			err := h.db.Update(ctx, func(tx *store.Tx) error {
				n, err := tx.Exec(ctx, `UPDATE operation SET `+column+` = CAST(`+change+` AS `+columnType(column)+`) WHERE id = ?`, asked.Effect.Operation)
				if err == nil && n != 1 {
					err = fmt.Errorf("%d rows changed", n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if r := h.create(ctx, title); r.Status == connector.StatusSuccess || org.Count(title) != 0 {
				t.Errorf("%s with %d tickets, want a refusal", r.Status, org.Count(title))
			}
		})
	}
}

func columnType(column string) string {
	switch column {
	case "plan", "arguments":
		return "BLOB"
	case "authz_version":
		return "INTEGER"
	}
	return "TEXT"
}

// same makes one call so many times at once and prints how each was answered.
func same(ctx context.Context, h *house, o order) error {
	answers := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range o.Same {
		wg.Go(func() {
			r := h.create(ctx, o.Title)
			answer := string(r.Status)
			switch {
			case r.Receipt != nil:
				answer = "receipt " + r.Receipt.ExternalID()
			case r.Error != nil:
				answer = r.Error.Code.String()
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// TestFiftyIdenticalCalls lets five processes with ten callers each propose one
// payload at once, and again after its approval.
//
// T01, T12; E9.
// Guarantee: TIX5
func TestFiftyIdenticalCalls(t *testing.T) {
	t.Parallel()
	h, org, p := settled(t)
	ctx := t.Context()
	// The winner's answer takes a while, so that the others meet it on its way.
	if err := org.SetBehaviour(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true},
		Effect: sandbox.Effect{Kind: "delay", When: "after", DelayMS: 300}}}}); err != nil {
		t.Fatal(err)
	}
	const title, processes, callers = "fifty at once", 5, 10
	rush := func() map[string]int {
		sum := map[string]int{}
		var wait []func()
		for range processes {
			cmd, out := start(t, order{place: p, Title: title, Same: callers})
			wait = append(wait, func() {
				err := cmd.Wait()
				answers := map[string]int{}
				if err == nil {
					err = json.Unmarshal(out.Bytes(), &answers)
				}
				if err != nil {
					t.Errorf("child: %v: %s", err, out)
				}
				for answer, n := range answers {
					sum[answer] += n
				}
			})
		}
		for _, w := range wait {
			w()
		}
		return sum
	}
	if sum := rush(); sum[connector.CodeApprovalRequired.String()] != processes*callers {
		t.Errorf("proposed at once: %v, want %d times APPROVAL_REQUIRED", sum, processes*callers)
	}
	asked := h.create(ctx, title)
	if asked.Pending == nil {
		t.Fatalf("after the rush: %s %+v", asked.Status, asked.Error)
	}
	if err := h.approve(ctx, asked.Pending.Approval); err != nil {
		t.Fatal(err)
	}
	sum := rush()
	if n := org.Hits("POST /api/v1/tickets"); n != 1 || org.Count(title) != 1 {
		t.Errorf("%d requests and %d tickets, want 1 and 1", n, org.Count(title))
	}
	for answer := range sum {
		if answer != connector.CodeOutcomeUnknown.String() && !strings.HasPrefix(answer, "receipt ") {
			t.Errorf("an answer that is neither the receipt nor in progress: %v", sum)
		}
	}
	if len(sum) > 2 || len(sum) == 0 {
		t.Errorf("answers %v, want one receipt and nothing else but in progress", sum)
	}
	if again := h.create(ctx, title); !again.Replayed || again.Receipt == nil {
		t.Errorf("the call afterwards: %s %+v", again.Status, again.Error)
	}
	fmt.Printf("figure: identical_calls %d  processes %d  posts %d  answers %v\n", 2*processes*callers, processes, org.Hits("POST /api/v1/tickets"), sum)
}

type counted struct {
	Count int     `json:"count"`
	Share float64 `json:"share"`
}

// TestNumberFormAfterApproval is the table for numbers, which a ticket has
// none of: 5, 5.0 and 5e0 are one value, and another value is another write.
//
// E2.
// Guarantee: TIX4
func TestNumberFormAfterApproval(t *testing.T) {
	h, org, _ := settled(t)
	ctx := t.Context()
	type made struct {
		ID string `json:"id"`
	}
	counter := connector.Write(connector.Spec{Name: "counts.create", Title: "Count", Doc: "Notes a count.",
		Effect: connector.EffectCompensable, Sensitivity: connector.SensitivityInternal, Scopes: []string{"tickets:write"},
	}, connector.Steps[counted, made]{
		Plan: func(_ context.Context, _ *connector.Access, in counted) (connector.Request, error) {
			body, err := json.Marshal(map[string]string{"project": "orders", "title": fmt.Sprintf("count %d %v", in.Count, in.Share), "severity": "low"})
			return connector.Request{Method: "POST", Path: "/api/v1/tickets", ContentType: "application/json", Body: body, Summary: "Note a count"}, err
		},
		Decode: func(r connector.Response) (m made, err error) { return m, json.Unmarshal(r.Body, &m) },
		ID:     func(m made) string { return m.ID },
		Find: func(context.Context, *connector.Access, connector.OperationID, counted) (made, connector.Found, error) {
			return made{}, connector.CannotTell, nil
		},
		Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Idempotency-Key"},
	})
	r, err := connector.New(connector.Config{
		Connectors: []connector.Connector{{ID: "counts", Version: "1.0.0", Owner: "tests", Provider: "sandbox", ProviderVersion: "1",
			Auth:       connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"tickets:write"}},
			Identify:   func(context.Context, *connector.Access) (connector.Identity, error) { return connector.Identity{}, nil },
			Operations: []connector.Operation{counter}}},
		Policy: host.Local{}, Consent: host.Local{}, Connections: h.credentials, Transport: h.transport, Operations: h.ledger, Auditor: h.audit,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const approved = `{"count":5,"share":0.25}`
	for _, c := range []struct {
		name, payload string
		same          bool
	}{
		{"with a fraction of nothing", `{"count":5.0,"share":0.25}`, true},
		{"with an exponent", `{"count":5e0,"share":2.5e-1}`, true},
		{"trailing zeros", `{"count":5,"share":0.2500}`, true},
		{"another integer", `{"count":6,"share":0.25}`, false},
		{"the last digit", `{"count":5,"share":0.250000000000001}`, false},
		{"the other sign", `{"count":5,"share":-0.25}`, false},
		{"text", `{"count":"5","share":0.25}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := func(payload string) connector.Result {
				return r.Execute(ctx, caller, connector.Call{Tool: "counts.create", Intent: c.name, Arguments: json.RawMessage(payload)})
			}
			asked := call(approved)
			if asked.Pending == nil {
				t.Fatalf("proposal: %s %+v", asked.Status, asked.Error)
			}
			if err := h.approve(ctx, asked.Pending.Approval); err != nil {
				t.Fatal(err)
			}
			before := len(org.Ledger())
			got := call(c.payload)
			if sent := len(org.Ledger()) - before; (got.Status == connector.StatusSuccess) != c.same || (sent == 1) != c.same {
				t.Errorf("%s %+v with %d tickets, want the same write: %v", got.Status, got.Error, sent, c.same)
			}
		})
	}
}
