package keys_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRing(tb testing.TB) *keys.Ring {
	tb.Helper()
	text, err := keys.Generate()
	if err != nil {
		tb.Fatal(err)
	}
	r, err := keys.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func seal(tb testing.TB, r *keys.Ring, plaintext string, context []byte) []byte {
	tb.Helper()
	sealed, err := r.Seal([]byte(plaintext), context)
	if err != nil {
		tb.Fatal(err)
	}
	return sealed
}

// Guarantee: CRE4
func TestSealedValueOpensOnlyWhereItBelongs(t *testing.T) {
	r := newRing(t)
	home := keys.Context("credentials", "tenant-1", "connection-1", "7")
	sealed := seal(t, r, "refresh token", home)
	if got, err := r.Open(sealed, home); err != nil || string(got) != "refresh token" {
		t.Fatalf("Open = %q, %v", got, err)
	}
	elsewhere := map[string][]byte{
		"other tenant":     keys.Context("credentials", "tenant-2", "connection-1", "7"),
		"other connection": keys.Context("credentials", "tenant-1", "connection-2", "7"),
		"other version":    keys.Context("credentials", "tenant-1", "connection-1", "8"),
		"other purpose":    keys.Context("cursors", "tenant-1", "connection-1", "7"),
		"moved border":     keys.Context("credentials", "tenant-1c", "onnection-1", "7"),
		"no context":       nil,
	}
	for name, context := range elsewhere {
		got, err := r.Open(sealed, context)
		if !errors.Is(err, keys.ErrIntegrity) || got != nil {
			t.Errorf("%s: Open = %q, %v, want ErrIntegrity", name, got, err)
		}
	}
}

// Guarantee: CRE4
func TestTamperedValueDoesNotOpen(t *testing.T) {
	r := newRing(t)
	context := keys.Context("test", "a")
	sealed := seal(t, r, "secret", context)
	other := newRing(t)

	_, wrongContext := r.Open(sealed, keys.Context("test", "b"))
	check := func(name string, changed []byte, want error) {
		t.Helper()
		got, err := r.Open(changed, context)
		if !errors.Is(err, want) || got != nil {
			t.Errorf("%s: Open = %q, %v, want %v", name, got, err, want)
		}
		if want == keys.ErrIntegrity && err.Error() != wrongContext.Error() {
			t.Errorf("%s: error text %q tells it from a wrong context, %q", name, err, wrongContext)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 0x40
		want := keys.ErrIntegrity
		if 1 <= i && i <= 4 {
			want = keys.ErrKeyUnavailable // the key id
		}
		check(fmt.Sprintf("byte %d flipped", i), changed, want)
	}
	for n := range sealed {
		check(fmt.Sprintf("cut to %d bytes", n), sealed[:n], keys.ErrIntegrity)
	}
	check("a byte more", append(bytes.Clone(sealed), 0), keys.ErrIntegrity)
	check("nil", nil, keys.ErrIntegrity)
	check("sealed by another ring", seal(t, other, "secret", context), keys.ErrKeyUnavailable)

	// The right id with another key's bytes is what a forger without a key has.
	forged := seal(t, other, "secret", context)
	copy(forged[:5], sealed[:5])
	check("another key under this id", forged, keys.ErrIntegrity)
}

func TestKeyIDIsThePrimary(t *testing.T) {
	r := newRing(t)
	id, ok := keys.KeyID(seal(t, r, "", nil))
	if !ok || id != r.Primary() {
		t.Errorf("KeyID = %d, %v, want %d", id, ok, r.Primary())
	}
	for _, b := range [][]byte{nil, {1}, make([]byte, 40), bytes.Repeat([]byte{1}, 32)} {
		if id, ok := keys.KeyID(b); ok {
			t.Errorf("KeyID(%v) = %d", b, id)
		}
	}
}

func TestSealHidesEqualValues(t *testing.T) {
	r := newRing(t)
	if bytes.Equal(seal(t, r, "same", nil), seal(t, r, "same", nil)) {
		t.Error("two seals of one value are equal")
	}
}

func TestContextIsInjective(t *testing.T) {
	parts := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune{0, 1, 2, 'a', 'b', 0x80}), 0, 4, -1), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		equal := cmp.Equal(append([]string{}, a...), append([]string{}, b...))
		if got := bytes.Equal(keys.Context(a...), keys.Context(b...)); got != equal {
			t.Fatalf("Context(%q) == Context(%q) is %v", a, b, got)
		}
	})
	long := strings.Repeat("x", 70000)
	if bytes.Equal(keys.Context(long, "y"), keys.Context(long+"y", "")) {
		t.Error("a long part is ambiguous")
	}
}

func TestRingShowsNoKeyMaterial(t *testing.T) {
	r := newRing(t)
	text, err := r.Export()
	if err != nil {
		t.Fatal(err)
	}
	var keyset struct {
		Key []struct{ KeyData struct{ Value string } }
	}
	if err := json.Unmarshal([]byte(text), &keyset); err != nil || len(keyset.Key) != 1 {
		t.Fatalf("exported text is no keyset of one key: %v", err)
	}
	material := keyset.Key[0].KeyData.Value
	if len(material) < 32 {
		t.Fatalf("material of %d characters can't be searched for", len(material))
	}

	type holder struct {
		Ring   *keys.Ring
		hidden *keys.Ring
	}
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range []any{r, holder{r, r}, &holder{r, r}, []*keys.Ring{r}, map[string]any{"r": r}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		log.Info("ring", "ring", v)
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	raw, err := base64.StdEncoding.DecodeString(material)
	if err != nil {
		t.Fatal(err)
	}
	secret := raw[len(raw)-32:]
	for _, canary := range []string{material, string(secret), fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprint(secret), "[]")} {
		if strings.Contains(out.String(), canary) {
			t.Errorf("output contains key material in the form %.8s...", canary)
		}
	}
	if !strings.Contains(out.String(), "keys.Ring[redacted]") {
		t.Errorf("nothing was redacted in %s", out.String())
	}
}

func TestZeroRingHasNoKey(t *testing.T) {
	var r keys.Ring
	if _, err := r.Seal(nil, nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Seal: %v", err)
	}
	if _, err := r.Open(seal(t, newRing(t), "x", nil), nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Open: %v", err)
	}
	if _, err := r.Add(); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Add: %v", err)
	}
	if _, err := r.Export(); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Export: %v", err)
	}
	if r.Primary() != 0 || r.Keys() != nil || r.Reload() != nil {
		t.Error("the zero ring has something")
	}
}

func TestParse(t *testing.T) {
	text, err := keys.Generate()
	if err != nil {
		t.Fatal(err)
	}
	sealed := seal(t, must(t, text), "x", nil)
	for name, form := range map[string]string{
		"spaces": "\n " + text + "\n",
		"base64": base64.StdEncoding.EncodeToString([]byte(text)),
	} {
		if got, err := must(t, form).Open(sealed, nil); err != nil || string(got) != "x" {
			t.Errorf("%s: Open = %q, %v", name, got, err)
		}
	}

	const canary = "c2VjcmV0LWNhbmFyeQ"
	bad := map[string]string{
		"empty":            "",
		"not a keyset":     canary,
		"bad base64":       canary + "!",
		"no keys":          `{"primaryKeyId":1}`,
		"cut":              text[:len(text)/2],
		"unknown field":    strings.Replace(text, `{`, `{"x":"`+canary+`",`, 1),
		"no such primary":  strings.Replace(text, `"primaryKeyId":`, `"primaryKeyId":9`, 1),
		"prefix RAW":       strings.Replace(text, `"TINK"`, `"RAW"`, 1),
		"prefix LEGACY":    strings.Replace(text, `"TINK"`, `"CRUNCHY"`, 1),
		"disabled primary": strings.Replace(text, `"ENABLED"`, `"DISABLED"`, 1),
		"other key type":   strings.Replace(text, `AesGcmKey`, `AesGcmSivKey`, 1),
		"128 bits":         strings.Replace(text, between(text, `"value":"`, `"`), "GhAAAQIDBAUGBwgJCgsMDQ4P", 1),
		"too long":         text + strings.Repeat(" ", 1<<17) + "x",
	}
	for name, in := range bad {
		if in == text {
			t.Errorf("%s: the replacement changed nothing", name)
		}
		r, err := keys.Parse(in)
		if err == nil || r != nil {
			t.Errorf("%s: parsed", name)
			continue
		}
		if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "value") {
			t.Errorf("%s: error echoes its input: %v", name, err)
		}
	}
}

func must(tb testing.TB, text string) *keys.Ring {
	tb.Helper()
	r, err := keys.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// A ring of the key 00 01 02 ... and what it once sealed. They must never need
// to change: databases are full of such values.
const (
	oldRing = `{"primaryKeyId":305419896,"key":[{"keyData":{"typeUrl":"type.googleapis.com/google.crypto.tink.AesGcmKey",
"value":"GiAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHw==","keyMaterialType":"SYMMETRIC"},"status":"ENABLED","keyId":305419896,"outputPrefixType":"TINK"}]}`
	oldSealed = "0112345678f77c0674214cc5599d77d019c281e5abbdd8b13f708005bf528e5784a43df83318e40dbcd4"
)

func TestOldValuesStayReadable(t *testing.T) {
	sealed, err := hex.DecodeString(oldSealed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := must(t, oldRing).Open(sealed, keys.Context("fuzz")); err != nil || string(got) != "plaintext" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if id, ok := keys.KeyID(sealed); !ok || id != 0x12345678 {
		t.Errorf("KeyID = %#x, %v", id, ok)
	}
	if got, want := keys.Context("a", "", strings.Repeat("b", 128)), "\x01a\x00\x80\x01"+strings.Repeat("b", 128); string(got) != want {
		t.Errorf("Context = %q, want %q", got, want)
	}
}

func FuzzOpen(f *testing.F) {
	r := must(f, oldRing)
	context := keys.Context("fuzz")
	sealed, err := hex.DecodeString(oldSealed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(sealed[:33])
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Add(append(bytes.Clone(sealed[:5]), make([]byte, 28)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := r.Open(b, context)
		if bytes.Equal(b, sealed) != (err == nil) {
			t.Fatalf("Open = %q, %v", got, err)
		}
		if err != nil && !errors.Is(err, keys.ErrIntegrity) && !errors.Is(err, keys.ErrKeyUnavailable) {
			t.Fatalf("error of no kind: %v", err)
		}
	})
}

func FuzzParse(f *testing.F) {
	text, err := keys.Generate()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(base64.StdEncoding.EncodeToString([]byte(text)))
	f.Add(`{"primaryKeyId":1,"key":[{}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		r, err := keys.Parse(s)
		if err != nil {
			return
		}
		if got, err := r.Open(seal(t, r, "x", nil), nil); err != nil || string(got) != "x" {
			t.Fatalf("accepted a ring that can't open: %q, %v", got, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	r, plaintext, context := newRing(b), make([]byte, 2048), keys.Context("credentials", "tenant", "connection", "1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Seal(plaintext, context); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	r, context := newRing(b), keys.Context("credentials", "tenant", "connection", "1")
	sealed := seal(b, r, strings.Repeat("x", 2048), context)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(sealed, context); err != nil {
			b.Fatal(err)
		}
	}
}
