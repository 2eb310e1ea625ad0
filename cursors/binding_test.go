package cursors

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var changes = map[string]func(*connector.CursorBinding){
	"Connector":    func(b *connector.CursorBinding) { b.Connector += "x" },
	"Version":      func(b *connector.CursorBinding) { b.Version = "1.0.1" },
	"Operation":    func(b *connector.CursorBinding) { b.Operation = "tickets.list" },
	"Tenant":       func(b *connector.CursorBinding) { b.Tenant = "t2" },
	"Principal":    func(b *connector.CursorBinding) { b.Principal = "p2" },
	"Connection":   func(b *connector.CursorBinding) { b.Connection = "c2" },
	"Resources":    func(b *connector.CursorBinding) { b.Resources = []string{"P1"} },
	"Query":        func(b *connector.CursorBinding) { b.Query = "0f3b" },
	"PageSize":     func(b *connector.CursorBinding) { b.PageSize++ },
	"AuthzVersion": func(b *connector.CursorBinding) { b.AuthzVersion++ },
}

func TestT27CursorOfAnotherQuestionIsRefused(t *testing.T) {
	c := codec(t, ring(t))
	cursor := seal(t, c, binding(), "p")
	for field, change := range changes {
		other := binding()
		change(&other)
		refused(t, c, other, cursor, field)
	}
	refused(t, c, connector.CursorBinding{}, cursor, "no binding at all")
}

func TestEveryFieldOfTheBindingIsBound(t *testing.T) {
	for field, change := range changes {
		a, b := binding(), binding()
		change(&b)
		if cmp.Equal(a, b) {
			t.Errorf("the change of %s changes nothing", field)
		}
	}
	for field := range reflect.TypeFor[connector.CursorBinding]().Fields() {
		if changes[field.Name] == nil {
			t.Errorf("no test changes the field %s", field.Name)
		}
	}
}

func TestNarrowedOrRevokedAuthorizationKillsCursors(t *testing.T) {
	c := codec(t, ring(t))
	cursor := seal(t, c, binding(), "p")
	narrowed := binding()
	narrowed.Resources = []string{"P1"} // even if nobody counted the version up
	refused(t, c, narrowed, cursor, "narrowed")
	renewed := binding()
	renewed.AuthzVersion++ // revoked and connected again, with the same rights
	refused(t, c, renewed, cursor, "revoked and renewed")
	older := binding()
	older.AuthzVersion--
	refused(t, c, older, cursor, "an older version")
}

func anyBinding(t *rapid.T, label string) connector.CursorBinding {
	// Few letters, and the ones that could serve as separators: what a naive
	// concatenation would confuse comes up often.
	word := rapid.StringMatching(`[ab|,:\x00\n]{1,3}`)
	return connector.CursorBinding{
		Connector: word.Draw(t, label), Version: word.Draw(t, label), Operation: word.Draw(t, label),
		Tenant: connector.TenantID(word.Draw(t, label)), Principal: connector.PrincipalID(word.Draw(t, label)),
		Connection: connector.ConnectionID(word.Draw(t, label)), Query: word.Draw(t, label),
		Resources: rapid.SliceOfN(word, 0, 3).Draw(t, label),
		PageSize:  rapid.IntRange(1, 50).Draw(t, label), AuthzVersion: rapid.Int64().Draw(t, label),
	}
}

func TestBindingsShareAssociatedDataOnlyIfTheyAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyBinding(t, "a"), anyBinding(t, "b")
		// Move text over one border between neighbours: the concatenation stays.
		if rapid.Bool().Draw(t, "shift") {
			b = a
			b.Connector, b.Version = a.Connector+a.Version[:1], a.Version[1:]
		}
		same := func(r []string) []string { return slices.Compact(slices.Sorted(slices.Values(r))) }
		x, y := a, b
		x.Resources, y.Resources = same(a.Resources), same(b.Resources)
		if got, want := bytes.Equal(associated(a), associated(b)), cmp.Equal(x, y); got != want {
			t.Fatalf("associated data equal: %v, bindings equal: %v\n%+v\n%+v", got, want, a, b)
		}
	})
}

func TestAnySingleChangeIsRefused(t *testing.T) {
	c := codec(t, ring(t))
	names := slices.Sorted(maps.Keys(changes))
	rapid.Check(t, func(t *rapid.T) {
		b := anyBinding(t, "binding")
		position := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "position")
		cursor, err := c.Seal(b, position)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Open(b, cursor); err != nil || !bytes.Equal(got, position) {
			t.Fatalf("Open = %x, %v, want %x", got, err, position)
		}
		shuffled := b
		shuffled.Resources = append(slices.Clone(b.Resources), b.Resources...)
		slices.Reverse(shuffled.Resources)
		if _, err := c.Open(shuffled, cursor); err != nil {
			t.Fatalf("the order of resources matters: %v", err)
		}
		field := rapid.SampledFrom(names).Draw(t, "field")
		other := b
		changes[field](&other)
		refused(t, c, other, cursor, field)

		at := rapid.IntRange(0, len(cursor)-1).Draw(t, "at")
		flip := rapid.ByteRange(1, 255).Draw(t, "flip")
		flipped := []byte(cursor)
		flipped[at] ^= flip
		refused(t, c, b, string(flipped), "flipped byte")
		refused(t, c, b, cursor[:at], "truncated")
		refused(t, c, b, cursor[at+1:], "cut at the front")
		refused(t, c, b, cursor[:at]+cursor[at+1:], "a byte left out")
		extra := rapid.StringMatching(`[A-Za-z0-9_\-=\n\r .]{1,4}`).Draw(t, "extra")
		refused(t, c, b, cursor+extra, "extended")
		refused(t, c, b, extra+cursor, "extended at the front")
		refused(t, c, b, cursor[:at]+"\n"+cursor[at:], "a line break inside")
	})
}

func TestSealLeavesTheBindingAlone(t *testing.T) {
	c := codec(t, ring(t))
	b := binding()
	b.Resources = []string{"b", "a", "b"}
	seal(t, c, b, "p")
	if diff := cmp.Diff([]string{"b", "a", "b"}, b.Resources); diff != "" {
		t.Errorf("the caller's resources changed:\n%s", diff)
	}
}
