package cursors

import (
	"testing"
)

func TestAnyReplicaOpensWhatAnotherSealed(t *testing.T) {
	first := ring(t)
	secret, err := first.Export()
	if err != nil {
		t.Fatal(err)
	}
	cursor := seal(t, codec(t, first), binding(), "p")
	second := codec(t, parse(t, secret)) // shares nothing with the first but the key
	if got, err := second.Open(binding(), cursor); err != nil || string(got) != "p" {
		t.Errorf("Open at the other replica = %q, %v", got, err)
	}
	refused(t, codec(t, ring(t)), binding(), cursor, "another installation's ring")
}

func TestCursorsOutliveARotationWithOverlap(t *testing.T) {
	r := ring(t)
	c := codec(t, r)
	old := r.Primary()
	before := seal(t, c, binding(), "before")
	id, err := r.Add()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Promote(id); err != nil {
		t.Fatal(err)
	}
	after := seal(t, c, binding(), "after")
	for cursor, want := range map[string]string{before: "before", after: "after"} {
		if got, err := c.Open(binding(), cursor); err != nil || string(got) != want {
			t.Errorf("Open = %q, %v, want %q", got, err, want)
		}
	}
	if err := r.Disable(old); err != nil {
		t.Fatal(err)
	}
	refused(t, c, binding(), before, "key disabled")
	if _, err := c.Open(binding(), after); err != nil {
		t.Errorf("a cursor of the new key died with the old one: %v", err)
	}
	if err := r.Destroy(old); err != nil {
		t.Fatal(err)
	}
	refused(t, c, binding(), before, "key destroyed")
}
