package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var update = flag.Bool("update", false, "rewrite golden files")

type ask struct {
	Key string `json:"key"`
}

type answer struct {
	Key    string  `json:"key"`
	Author *person `json:"author"`
}

type person struct {
	Login string `json:"login"`
}

// desk is a connector that Lint accepts.
func desk() connector.Connector {
	return connector.Connector{
		ID: "desk", Version: "1.4.0", Owner: "support-platform", Provider: "example_desk", ProviderVersion: "3",
		Auth:        connector.Auth{Kind: connector.AuthOAuth2Code, Scopes: []string{"desk:read", "desk:write"}},
		Excluded:    []string{"email", "private_note"},
		Limitations: []string{"search lags writes by up to a minute"},
		Identify: func(context.Context, *connector.Access) (connector.Identity, error) {
			return connector.Identity{}, errors.New("not connected in this test")
		},
		Operations: []connector.Operation{
			connector.Read(connector.Spec{
				Name: "desk.get", Title: "Get", Doc: "Reads one.", Scopes: []string{"desk:read"},
				Effect: connector.EffectRead, Sensitivity: connector.SensitivitySensitive,
			}, func(_ context.Context, _ *connector.Access, in ask) (answer, error) { return answer{Key: in.Key}, nil }),
			create("desk.create", connector.Dedupe{Kind: connector.DedupeHeader, Name: "Idempotency-Key"}, ""),
			create("desk.raise", connector.Dedupe{}, "use desk.create"),
		},
	}
}

func create(name string, dedupe connector.Dedupe, deprecated string) connector.Operation {
	return connector.Write(connector.Spec{
		Name: name, Title: "Create", Doc: "Creates one.", Scopes: []string{"desk:read", "desk:write"},
		Effect: connector.EffectCompensable, Sensitivity: connector.SensitivityInternal, Deprecated: deprecated,
	}, connector.Steps[ask, answer]{
		Plan: func(context.Context, *connector.Access, ask) (connector.Request, error) {
			return connector.Request{Method: "POST", Path: "/"}, nil
		},
		Decode: func(connector.Response) (answer, error) { return answer{}, nil },
		ID:     func(a answer) string { return a.Key },
		Find: func(context.Context, *connector.Access, connector.OperationID, ask) (answer, connector.Found, error) {
			return answer{}, connector.CannotTell, nil
		},
		Dedupe: dedupe,
	})
}

// Guarantee: CON1
func TestOfDescribesTheConnector(t *testing.T) {
	if err := connector.Lint(desk()); err != nil {
		t.Fatalf("the connector of this test does not load: %v", err)
	}
	got, err := json.MarshalIndent(Of(desk()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/desk.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

// Guarantee: CON1
func TestWhatOfWritesParseReads(t *testing.T) {
	want := Of(desk())
	want.EndpointProfile, want.Auth.CredentialStore = "desk-eu", "vault"
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(raw)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	var through Manifest
	if err := json.Unmarshal(raw, &through); err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	if diff := cmp.Diff(want, through); diff != "" {
		t.Errorf("json.Unmarshal (-want +got):\n%s", diff)
	}
}

// Guarantee: CON2
func TestUnclassifiedCapabilityDoesNotLoad(t *testing.T) {
	for _, change := range []func(*Capability){
		func(c *Capability) { c.Effect = 0 },
		func(c *Capability) { c.Effect = connector.EffectIrreversible + 1 },
		func(c *Capability) { c.Sensitivity = 0 },
		func(c *Capability) { c.Sensitivity = connector.SensitivityRestricted + 1 },
	} {
		m := Of(desk())
		change(&m.Capabilities[1])
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(raw)
		if err == nil {
			t.Errorf("Parse took an unclassified capability: %+v", got.Capabilities[1])
		}
		if diff := cmp.Diff(Manifest{}, got); diff != "" {
			t.Errorf("a refused manifest still has content:\n%s", diff)
		}
	}
}

// A connector that names a scope or limitation twice loads, so its manifest must.
func TestRepeatsInTheConnectorAreDropped(t *testing.T) {
	c := desk()
	c.Auth.Scopes = append(c.Auth.Scopes, "desk:read")
	c.Excluded = append(c.Excluded, "email")
	raw, err := json.Marshal(Of(c))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(raw); err != nil {
		t.Errorf("Parse: %v", err)
	}
}

func TestOfAnEmptyConnectorIsRefused(t *testing.T) {
	raw, err := json.Marshal(Of(connector.Connector{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(raw); err == nil {
		t.Error("Parse took the manifest of an empty connector")
	}
}
