package cursors

import (
	"bytes"
	"encoding/base64"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

func ring(t testing.TB) *keys.Ring {
	t.Helper()
	secret, err := keys.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, secret)
}

func parse(t testing.TB, secret string) *keys.Ring {
	t.Helper()
	r, err := keys.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codec(t testing.TB, r Sealer) *Codec {
	t.Helper()
	c, err := New(Config{Keys: r})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func binding() connector.CursorBinding {
	return connector.CursorBinding{
		Connector: "tickets", Version: "1.0.0", Operation: "tickets.search",
		Tenant: "t1", Principal: "p1", Connection: "c1", Resources: []string{"P1", "P2"},
		Query: "0f3a", PageSize: 20, AuthzVersion: 7,
	}
}

func seal(t testing.TB, c *Codec, b connector.CursorBinding, position string) string {
	t.Helper()
	cursor, err := c.Seal(b, []byte(position))
	if err != nil {
		t.Fatalf("Seal: %v", err)
	}
	return cursor
}

type fataler interface {
	Helper()
	Errorf(string, ...any)
}

// refused checks that a cursor doesn't open, with the one and only error.
func refused(t fataler, c *Codec, b connector.CursorBinding, cursor, why string) {
	t.Helper()
	position, err := c.Open(b, cursor)
	if err == nil {
		t.Errorf("%s: opened to %q", why, position)
		return
	}
	if position != nil {
		t.Errorf("%s: refused, and still returned %q", why, position)
	}
	e, ok := err.(*connector.Error)
	if want := (connector.Error{Code: connector.CodeCursorInvalid}); !ok || !cmp.Equal(*e, want) {
		t.Errorf("%s: error %#v, want the one for all, %#v", why, err, want)
	}
}

// Guarantee: CUR1
func TestCursorOpensForTheSameCall(t *testing.T) {
	c := codec(t, ring(t))
	for _, position := range []string{"", "x", `{"c":"https://provider.example/next?p=2","s":20}`, strings.Repeat("\x00\xff", MaxPosition/2)} {
		cursor := seal(t, c, binding(), position)
		if !strings.HasPrefix(cursor, "c1_") || strings.Trim(cursor, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("cursor %q is not base64url behind its version", cursor)
		}
		if len(cursor) > 4096 {
			t.Errorf("a cursor of %d bytes doesn't fit the schema of its argument", len(cursor))
		}
		for range 2 { // opening uses nothing up
			got, err := c.Open(binding(), cursor)
			if err != nil || string(got) != position {
				t.Errorf("Open = %q, %v, want %q", got, err, position)
			}
		}
	}
}

// Guarantee: CUR1
func TestCursorShowsNothingOfItsPositionOrBinding(t *testing.T) {
	c := codec(t, ring(t))
	position := []byte(`{"c":"provider-cursor-0123456789","s":20}`)
	cursor, err := c.Seal(binding(), position)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(cursor, prefix))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"provider-cursor", "tickets", "0f3a"} {
		if bytes.Contains(raw, []byte(secret)) || strings.Contains(cursor, secret) {
			t.Errorf("the cursor shows %q", secret)
		}
	}
	if again := seal(t, c, binding(), string(position)); again == cursor {
		t.Error("the same position seals to the same text: an observer can tell pages apart")
	}
}

// changes has one entry for each field of a binding.
var changes = map[string]func(*connector.CursorBinding){
	"Connector":    func(b *connector.CursorBinding) { b.Connector += "x" },
	"Version":      func(b *connector.CursorBinding) { b.Version = "1.0.1" },
	"Operation":    func(b *connector.CursorBinding) { b.Operation = "tickets.list" },
	"Tenant":       func(b *connector.CursorBinding) { b.Tenant = "t2" },
	"Principal":    func(b *connector.CursorBinding) { b.Principal = "p2" },
	"Connection":   func(b *connector.CursorBinding) { b.Connection = "c2" },
	"Resources":    func(b *connector.CursorBinding) { b.Resources = []string{"P1"} },
	"Query":        func(b *connector.CursorBinding) { b.Query = "0f3b" },
	"PageSize":     func(b *connector.CursorBinding) { b.PageSize = 21 },
	"AuthzVersion": func(b *connector.CursorBinding) { b.AuthzVersion++ },
}

// Guarantee: CUR1
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

// A field that is added to the binding must be bound too.
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

// Guarantee: CUR3
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

// Guarantee: CUR1
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

// Guarantee: CUR1
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

// Guarantee: CUR1
func TestEveryFlippedBitOfTheSealedBytesIsRefused(t *testing.T) {
	c := codec(t, ring(t))
	cursor := seal(t, c, binding(), "position")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(cursor, prefix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			flipped := slices.Clone(raw)
			flipped[i] ^= 1 << bit
			refused(t, c, binding(), prefix+base64.RawURLEncoding.EncodeToString(flipped), "flipped bit")
		}
	}
}

// Guarantee: CUR1
func TestThereIsOneTextPerCursor(t *testing.T) {
	c := codec(t, ring(t))
	raw := func(cursor string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(cursor, prefix))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, position := range []string{"", "a", "ab"} { // all remainders of three
		cursor := seal(t, c, binding(), position)
		sealed := raw(cursor)
		padded := base64.URLEncoding.EncodeToString(sealed)
		if strings.HasSuffix(padded, "=") {
			refused(t, c, binding(), prefix+padded, "padded")
		}
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		for _, last := range alphabet {
			other := cursor[:len(cursor)-1] + string(last)
			if other != cursor {
				refused(t, c, binding(), other, "other last letter")
			}
		}
		refused(t, c, binding(), strings.TrimPrefix(cursor, prefix), "no prefix")
		refused(t, c, binding(), "c2_"+strings.TrimPrefix(cursor, prefix), "another format")
		refused(t, c, binding(), "C1_"+strings.TrimPrefix(cursor, prefix), "prefix in capitals")
	}
	refused(t, c, binding(), "", "empty")
	refused(t, c, binding(), prefix, "prefix only")
}

// Guarantee: CUR1
func TestT27ExpiredCursorIsRefused(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: time.Hour, 90 * time.Second: 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c, err := New(Config{Keys: ring(t), TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			cursor := seal(t, c, binding(), "p")
			time.Sleep(want - time.Millisecond)
			if _, err := c.Open(binding(), cursor); err != nil {
				t.Errorf("1 ms before expiry: %v", err)
			}
			time.Sleep(time.Millisecond)
			refused(t, c, binding(), cursor, "1 ms later")
			time.Sleep(7 * 24 * time.Hour)
			refused(t, c, binding(), cursor, "a week later")
		})
	}
}

// Guarantee: CUR2
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

// Guarantee: CUR2
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

// counting stands for a ring and counts what is asked of it.
type counting struct{ opens int }

func (*counting) Seal([]byte, []byte) ([]byte, error) { return nil, keys.ErrKeyUnavailable }

func (c *counting) Open([]byte, []byte) ([]byte, error) {
	c.opens++
	return []byte("short"), nil
}

func TestTooLongOrMalformedIsRefusedBeforeTheRingIsAsked(t *testing.T) {
	r := &counting{}
	c := codec(t, r)
	for _, cursor := range []string{prefix + strings.Repeat("A", maxText), strings.Repeat("A", 1<<20), "AAAA", prefix + "AA=A", prefix + "A", prefix + "AA\nAA"} {
		refused(t, c, binding(), cursor, "malformed")
	}
	if r.opens != 0 {
		t.Errorf("the ring was asked %d times, want 0", r.opens)
	}
	refused(t, c, binding(), prefix+"AAAA", "a plaintext too short for an expiry")
	if r.opens != 1 {
		t.Errorf("the ring was asked %d times, want 1", r.opens)
	}
}

func TestSealRefusesWhatTheAuthorGotWrong(t *testing.T) {
	c := codec(t, ring(t))
	internal := func(b connector.CursorBinding, position []byte, why string) {
		t.Helper()
		cursor, err := c.Seal(b, position)
		if cursor != "" || connector.CodeOf(err) != connector.CodeInternal {
			t.Errorf("%s: Seal = %q, %v, want INTERNAL", why, cursor, err)
		}
	}
	internal(binding(), make([]byte, MaxPosition+1), "long position")
	for field, forget := range map[string]func(*connector.CursorBinding){
		"connector": func(b *connector.CursorBinding) { b.Connector = "" }, "version": func(b *connector.CursorBinding) { b.Version = "" },
		"operation": func(b *connector.CursorBinding) { b.Operation = "" }, "tenant": func(b *connector.CursorBinding) { b.Tenant = "" },
		"principal": func(b *connector.CursorBinding) { b.Principal = "" }, "connection": func(b *connector.CursorBinding) { b.Connection = "" },
		"query": func(b *connector.CursorBinding) { b.Query = "" }, "page size": func(b *connector.CursorBinding) { b.PageSize = 0 },
	} {
		b := binding()
		forget(&b)
		internal(b, nil, "no "+field)
	}
	c = codec(t, &counting{})
	internal(binding(), nil, "ring without a key")
	if _, err := c.Seal(binding(), nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Seal hides why from the operator: %v", err)
	}
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

func TestNewChecksItsConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no keys":      {},
		"negative TTL": {Keys: ring(t), TTL: -time.Second},
		"endless TTL":  {Keys: ring(t), TTL: maxTTL + 1},
	} {
		if codec, err := New(c); err == nil || codec != nil {
			t.Errorf("%s: New = %v, %v, want an error", name, codec, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := codec(t, ring(t))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			b := binding()
			b.AuthzVersion = int64(i)
			cursor, err := c.Seal(b, []byte{byte(i)})
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := c.Open(b, cursor); err != nil || !bytes.Equal(got, []byte{byte(i)}) {
				t.Errorf("Open = %x, %v", got, err)
			}
		})
	}
	all.Wait()
}

func FuzzOpen(f *testing.F) {
	c := codec(f, ring(f))
	good := seal(f, c, binding(), "p")
	f.Add(prefix)
	f.Add(good[:len(good)-1])
	f.Add(good + "\n")
	f.Add("c1_AA==")
	f.Fuzz(func(t *testing.T, cursor string) {
		if cursor != good { // nobody but Seal makes a cursor
			refused(t, c, binding(), cursor, "foreign text")
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	c := codec(b, ring(b))
	position := []byte(`{"c":"eyJvZmZzZXQiOjEyMzQ1Nn0","s":20}`)
	b.ReportAllocs()
	for b.Loop() {
		cursor, err := c.Seal(binding(), position)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Open(binding(), cursor); err != nil {
			b.Fatal(err)
		}
	}
}
