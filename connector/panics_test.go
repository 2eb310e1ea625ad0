package connector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// What an author's code may carry in its hands when it fails.
const carried = "Bearer tok-4711 at /srv/app/desk.go postgres://user:pw@db/x"

func quiet(t *testing.T, r connector.Result) {
	t.Helper()
	if leaks(text(t, r), "tok-4711", "/srv/app", "postgres://", "goroutine", ".go:", "panic") {
		t.Errorf("result carries what it must not: %s", text(t, r))
	}
}

// correlated checks an INTERNAL answer: the log has the cause, the caller and
// the auditor have the id to find it by.
func correlated(t *testing.T, h *harness, r connector.Result, cause string) {
	t.Helper()
	if code(r) != "INTERNAL" || r.Error.Correlation == "" {
		t.Fatalf("result = %s, want INTERNAL with a correlation id", text(t, r))
	}
	quiet(t, r)
	log := h.log.String()
	if !strings.Contains(log, r.Error.Correlation) || !strings.Contains(log, cause) {
		t.Errorf("the operator's log lacks %s or %q: %s", r.Error.Correlation, cause, log)
	}
	if a := h.auditor.last(); a.Correlation != r.Error.Correlation || leaks(text(t, a), "tok-4711") {
		t.Errorf("audit record = %+v, want correlation %s and no values", a, r.Error.Correlation)
	}
}

// Guarantee: RUN5
func TestPanicBeforeAnyEffectIsInternal(t *testing.T) {
	t.Parallel()
	type values struct{ token string }
	for name, value := range map[string]any{"text": carried, "error": errors.New(carried), "struct": values{carried}} {
		for _, c := range []struct {
			where, tool, arguments string
			set                    func(*toy)
		}{
			{"read", "desk.get", `{"id":"n1"}`, func(y *toy) {
				y.get = func(context.Context, *connector.Access, getIn) (note, error) { panic(value) }
			}},
			{"list", "desk.search", `{"query":"x","page_size":5,"cursor":null}`, func(y *toy) {
				y.search = func(context.Context, *connector.Access, searchIn, connector.Position) (connector.Page[note], error) {
					panic(value)
				}
			}},
			{"plan", "desk.create", draft, func(y *toy) {
				y.steps.Plan = func(context.Context, *connector.Access, createIn) (connector.Request, error) { panic(value) }
			}},
			{"classify in a read", "desk.get", `{"id":"n1"}`, func(y *toy) {
				y.classify = func(connector.Request, connector.Response) *connector.Error { panic(value) }
			}},
		} {
			t.Run(c.where+" "+name, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t)
				c.set(h.toy)
				r := h.call(c.tool, c.arguments)
				correlated(t, h, r, "panic of type")
				if leaks(h.log.String(), "tok-4711") {
					t.Errorf("the log has the panic's value: %s", h.log)
				}
				if r.Effect.Disposition != connector.DispositionNone || len(h.provider.writes()) != 0 {
					t.Errorf("effect = %s with %d writes, want none", r.Effect.Disposition, len(h.provider.writes()))
				}
			})
		}
	}
}

// Guarantee: RUN5, RUN9, TIX5
func TestPanicAfterDispatchIsNeverNotApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		where string
		set   func(*toy)
		want  connector.Disposition
	}{
		{"decode", func(y *toy) { y.steps.Decode = func(connector.Response) (note, error) { panic(carried) } }, connector.DispositionUnknown},
		{"id", func(y *toy) { y.steps.ID = func(note) string { panic(carried) } }, connector.DispositionUnknown},
		{"verify", func(y *toy) {
			y.steps.Verify = func(context.Context, *connector.Access, note, createIn) ([]connector.Change, error) { panic(carried) }
		}, connector.DispositionApplied},
	} {
		t.Run(c.where, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			c.set(h.toy)
			r := h.create(draft)
			if r.Effect.Disposition != c.want || r.Effect.Operation == "" {
				t.Errorf("result = %s, want effect %s", text(t, r), c.want)
			}
			quiet(t, r)
			h.call("desk.create", draft)
			if n := len(h.provider.writes()); n != 1 {
				t.Errorf("sent %d times, want 1", n)
			}
		})
	}
}

// Guarantee: RUN5
func TestPanicInIdentifyIsInternal(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.toy.identify = func(context.Context, *connector.Access) (connector.Identity, error) { panic(carried) }
	_, err := h.runtime().Identify(t.Context(), h.conn)
	if connector.CodeOf(err) != connector.CodeInternal || leaks(err.Error(), "tok-4711") {
		t.Errorf("Identify = %v, want INTERNAL without the panic's value", err)
	}
}

// Guarantee: RUN5
func TestPanicInAServiceIsInternal(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.config.Policy = panicking{}
	correlated(t, h, h.call("desk.get", `{"id":"n1"}`), "panic of type")
	if n := h.seen()["handler"]; n != 0 {
		t.Errorf("the handler ran %d times, want 0", n)
	}
}

type panicking struct{}

func (panicking) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	panic(carried)
}

// Guarantee: RUN5
func TestUnexpectedErrorKeepsItsCauseForTheOperator(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"plain":                 errors.New(carried),
		"wrapped":               fmt.Errorf("reading: %w", errors.New(carried)),
		"coded, with a message": &connector.Error{Code: connector.CodeInternal, Message: carried},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) { return note{}, err }
			correlated(t, h, h.call("desk.get", `{"id":"n1"}`), "tok-4711")
		})
	}
	t.Run("cause behind another code", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) {
			return note{}, fmt.Errorf("again: %w", &connector.Error{Code: connector.CodeUnavailable, Err: errors.New(carried)})
		}
		r := h.call("desk.get", `{"id":"n1"}`)
		quiet(t, r)
		if code(r) != "UNAVAILABLE" || r.Error.Correlation != "" {
			t.Errorf("result = %s, want UNAVAILABLE without a correlation id", text(t, r))
		}
	})
	t.Run("typed nil", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.toy.get = func(context.Context, *connector.Access, getIn) (note, error) {
			var none *connector.Error
			return note{"n1", "one"}, none
		}
		if r := h.call("desk.get", `{"id":"n1"}`); code(r) != "INTERNAL" || r.Data != nil {
			t.Errorf("result = %s, want INTERNAL without data", text(t, r))
		}
	})
}

// Guarantee: RUN7
func TestAuditThatFailsChangesNoResult(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.auditor.err = errors.New("audit disk full")
	r := h.create(draft)
	if r.Status != connector.StatusSuccess || leaks(text(t, r), "audit disk full") {
		t.Errorf("result = %s, want success", text(t, r))
	}
	if !strings.Contains(h.log.String(), "audit record not written") {
		t.Error("the operator's log does not say that the audit record is missing")
	}
}

// Guarantee: RUN3, RUN4
// Case: G4
func TestParallelResultsAreMatchedByCallIDAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const calls = 40
	for i := range calls {
		h.provider.seed(fmt.Sprintf("title of %d", i+1))
	}
	results := make(chan connector.Result, calls)
	for i := range calls {
		go func() {
			results <- h.execute(context.Background(), connector.Call{
				ID: fmt.Sprintf("call-%d", i+1), Step: fmt.Sprintf("step-%d", i%3), Tool: "desk.get",
				Arguments: fmt.Appendf(nil, `{"id":"n%d"}`, i+1),
			})
		}()
	}
	seen := map[string]bool{}
	for range calls {
		r := <-results
		n := strings.TrimPrefix(r.CallID, "call-")
		want := fmt.Sprintf(`{"id":"n%s","title":"title of %s"}`, n, n)
		if string(r.Data) != want || seen[n] || r.Tool != "desk.get" || !strings.HasPrefix(r.Step, "step-") {
			t.Errorf("%s answered %s, want %s once", r.CallID, r.Data, want)
		}
		seen[n] = true
	}
	first, second := h.call("desk.get", `{"id":"n1"}`), h.call("desk.get", `{"id":"n1"}`)
	if first.CallID == "" || first.CallID == second.CallID {
		t.Errorf("calls without an id were given %q and %q, want two ids", first.CallID, second.CallID)
	}
}
