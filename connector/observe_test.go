package connector_test

import (
	"context"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

type observer struct{ seen []connector.Observed }

func (o *observer) Begin(ctx context.Context, _ string) (context.Context, func(connector.Observed)) {
	return ctx, func(got connector.Observed) { o.seen = append(o.seen, got) }
}

// Whether a deprecated tool can go is read from the count of its use.
//
// Guarantee: CON8
func TestUseOfADeprecatedToolIsObserved(t *testing.T) {
	h := newHarness(t)
	seen := &observer{}
	h.config.Observer = seen
	type in struct{}
	type out struct{}
	old := h.toy.connector(h.stages)
	old.ID = "old"
	old.Operations = []connector.Operation{connector.Read(connector.Spec{
		Name: "old.get", Title: "Old", Doc: "Is going away.", Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal,
		Scopes: []string{"notes"}, Deprecated: "use desk.get",
	}, func(context.Context, *connector.Access, in) (out, error) { return out{}, nil })}
	config := h.config
	config.Connectors = []connector.Connector{old}
	rt, err := connector.New(config)
	if err != nil {
		t.Fatal(err)
	}
	rt.Execute(t.Context(), alice, connector.Call{Tool: "old.get", Arguments: []byte(`{}`)})
	h.call("desk.get", `{"id":"1"}`)
	if len(seen.seen) != 2 || !seen.seen[0].Deprecated || seen.seen[1].Deprecated {
		t.Errorf("%+v", seen.seen)
	}
}
