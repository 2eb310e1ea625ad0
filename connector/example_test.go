package connector_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
)

type greetIn struct {
	Name string `json:"name"`
}

type greeting struct {
	Text string `json:"text"`
}

// A connector with one read, its services in one small type, and two calls.
func Example() {
	greet := connector.Read(connector.Spec{
		Name: "hello.greet", Title: "Greeting", Doc: "Greets somebody by name.",
		Effect: connector.EffectRead, Sensitivity: connector.SensitivityPublic, Scopes: []string{"greet"},
	}, func(ctx context.Context, a *connector.Access, in greetIn) (greeting, error) {
		g, _, err := connector.Get[greeting](ctx, a, connector.Request{Path: "/greetings/" + in.Name})
		return g, err
	})
	host := exampleHost{}
	runtime, err := connector.New(connector.Config{
		Connectors: []connector.Connector{{
			ID: "hello", Version: "1.0.0", Owner: "docs", Provider: "hello", ProviderVersion: "v1",
			Auth:       connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"greet"}},
			Operations: []connector.Operation{greet},
			Identify: func(context.Context, *connector.Access) (connector.Identity, error) {
				return connector.Identity{}, nil
			},
		}},
		Policy: host, Consent: host, Connections: host, Transport: host, Auditor: host,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	caller := connector.Caller{Tenant: "acme", Principal: "alice"}

	result := runtime.Execute(context.Background(), caller, connector.Call{
		ID: "call-1", Tool: "hello.greet", Arguments: []byte(`{"name":"Ada"}`),
	})
	fmt.Println(result.Status, string(result.Data))

	result = runtime.Execute(context.Background(), caller, connector.Call{
		ID: "call-2", Tool: "hello.greet", Arguments: []byte(`{"name":5,"tenant":"other"}`),
	})
	fmt.Println(result.Status, result.Error.Code, result.Error.Faults)

	typed, _ := connector.Do[greetIn, greeting](context.Background(), runtime, caller, "hello.greet", greetIn{"Ada"})
	fmt.Println(typed.Text)

	// Output:
	// success {"text":"hello, Ada"}
	// error INVALID_INPUT [{/name type} {/tenant additionalProperties}]
	// hello, Ada
}

type exampleHost struct{}

func (exampleHost) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true}, nil
}

func (exampleHost) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}

func (exampleHost) Resolve(_ context.Context, c connector.Caller, provider string, _ []string) (connector.Connection, error) {
	return connector.Connection{ID: "con-1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider}, nil
}

func (exampleHost) Current(context.Context, connector.Connection) error { return nil }

func (exampleHost) Do(context.Context, connector.Connection, connector.Class, connector.Request) (connector.Response, error) {
	return connector.Response{Status: http.StatusOK, Body: []byte(`{"text":"hello, Ada"}`)}, nil
}

func (exampleHost) Record(context.Context, connector.AuditRecord) error { return nil }
