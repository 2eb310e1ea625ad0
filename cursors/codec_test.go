package cursors

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

// Guarantee: CUR1

// A field that is added to the binding must be bound too.

// Guarantee: CUR3

// Guarantee: CUR1

// Guarantee: CUR1

// Guarantee: CUR1

// Guarantee: CUR1

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

// Guarantee: CUR2

// counting stands for a ring and counts what is asked of it.

type counting struct{ opens int }

func (*counting) Seal([]byte, []byte) ([]byte, error) { return nil, keys.ErrKeyUnavailable }

func (c *counting) Open([]byte, []byte) ([]byte, error) {
	c.opens++
	return []byte("short"), nil
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
