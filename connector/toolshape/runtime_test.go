package toolshape

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// host lets everything through and has one connection; what is tested here is
// what the shapes bring to a real runtime.
type host struct{}

func (host) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true, Version: "1"}, nil
}
func (host) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}
func (host) Resolve(_ context.Context, c connector.Caller, provider string, scopes []string) (connector.Connection, error) {
	return connector.Connection{ID: "con_1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider, Scopes: scopes, AuthzVersion: 1}, nil
}
func (host) Current(context.Context, connector.Connection) error { return nil }
func (host) Record(context.Context, connector.AuditRecord) error { return nil }
func (host) Do(context.Context, connector.Connection, connector.Class, connector.Request) (connector.Response, error) {
	return connector.Response{}, errors.New("nothing is sent in this test")
}

type echo struct {
	Word string `json:"word"`
}

func runtime(t *testing.T, handled *atomic.Int32) *connector.Runtime {
	t.Helper()
	r, err := connector.New(connector.Config{
		Policy: host{}, Consent: host{}, Connections: host{}, Transport: host{}, Auditor: host{},
		Connectors: []connector.Connector{{
			ID: "demo", Version: "1.0.0", Owner: "tests", Provider: "demo", ProviderVersion: "1",
			Auth: connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"read"}},
			Identify: func(context.Context, *connector.Access) (connector.Identity, error) {
				return connector.Identity{}, nil
			},
			Operations: []connector.Operation{connector.Read(connector.Spec{
				Name: "demo.echo", Title: "Echo", Doc: "Repeats a word.", Scopes: []string{"read"},
				Effect: connector.EffectRead, Sensitivity: connector.SensitivityPublic,
			}, func(_ context.Context, _ *connector.Access, in echo) (echo, error) {
				handled.Add(1)
				return in, nil
			})},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// Guarantee: RUN8
func TestEachShapeThroughARealRuntime(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			var handled atomic.Int32
			r := runtime(t, &handled)
			caller := connector.Caller{Tenant: "t", Principal: "p"}
			visible, err := r.Tools(t.Context(), caller)
			if err != nil {
				t.Fatal(err)
			}
			tools, err := s.Tools(visible)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(tools), `"demo-echo"`) {
				t.Fatalf("the tool isn't shown: %s", tools)
			}
			malformed := `"{\"word\":"` // to Anthropic's clients, a string is what is left of it
			if s != Anthropic {
				malformed = `{"word":`
			}
			calls, err := s.Calls(say(t, s,
				proposal{"c1", "demo-echo", `{"word":"hi"}`},
				proposal{"c2", "demo-echo", malformed},
				proposal{"c3", "demo-echo", `[]`},
				proposal{"c4", "demo-echo", `{"word":"a","intent":"mine"}`},
				proposal{"c5", "demo-echo", `{"word":"a","word":"b"}`},
				proposal{"c6", "demo.echo", `{"word":"a"}`},
				proposal{"c7", "demo_echo", `{"word":"a"}`},
				proposal{"c1", "demo-echo", `{"word":"again"}`},
			))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var results []connector.Result
			for _, c := range calls {
				result := r.Execute(t.Context(), caller, c)
				line := result.CallID + " " + string(result.Status)
				if result.Error != nil {
					line += " " + result.Error.Code.String()
				}
				got, results = append(got, line), append(results, result)
			}
			want := []string{
				"c1 success",
				"c2 error INVALID_INPUT",
				"c3 error INVALID_INPUT",
				"c4 error INVALID_INPUT",
				"c5 error INVALID_INPUT",
				"c6 error UNKNOWN_TOOL",
				"c7 error UNKNOWN_TOOL",
				"c1 error DUPLICATE_CALL",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if n := handled.Load(); n != 1 {
				t.Errorf("the handler ran %d times, want 1", n)
			}
			answers, err := s.Results(results)
			if err != nil {
				t.Fatal(err)
			}
			var list []any
			if err := json.Unmarshal(answers, &list); err != nil || len(list) != len(calls) {
				t.Errorf("%d answers for %d calls, %v", len(list), len(calls), err)
			}
		})
	}
}
