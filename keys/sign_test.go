package keys_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/keys"
)

func TestSignatureBelongsToMessagePurposeAndKey(t *testing.T) {
	s, err := keys.NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.Sign("purpose/v1", []byte("a\nmessage"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Public().Verify("purpose/v1", []byte("a\nmessage"), sig); err != nil {
		t.Errorf("its own signature: %v", err)
	}
	short := sig[:len(sig)-1]
	flipped := append([]byte{}, sig...)
	flipped[10] ^= 1
	for name, err := range map[string]error{
		"another message":        s.Public().Verify("purpose/v1", []byte("a\nMessage"), sig),
		"another purpose":        s.Public().Verify("purpose/v2", []byte("a\nmessage"), sig),
		"a purpose with a line":  s.Public().Verify("purpose/v1\na", []byte("message"), sig),
		"another key":            other.Public().Verify("purpose/v1", []byte("a\nmessage"), sig),
		"no key":                 keys.PublicKey{}.Verify("purpose/v1", []byte("a\nmessage"), sig),
		"a short signature":      s.Public().Verify("purpose/v1", []byte("a\nmessage"), short),
		"a bit of the signature": s.Public().Verify("purpose/v1", []byte("a\nmessage"), flipped),
		"no signature":           s.Public().Verify("purpose/v1", []byte("a\nmessage"), nil),
	} {
		if !errors.Is(err, keys.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	parsed, err := keys.ParsePublicKey(s.Public().String())
	if err != nil || parsed.Verify("purpose/v1", []byte("a\nmessage"), sig) != nil || parsed.ID() != s.Public().ID() {
		t.Errorf("the key read back from its text does not verify (%v)", err)
	}
	if _, err := (&keys.Signer{}).Sign("purpose/v1", nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("a signer without a key: %v", err)
	}
	if _, err := s.Sign("two\nlines", nil); err == nil {
		t.Error("a purpose of two lines was signed")
	}
}

func TestSigningKeyFileIsMadeOnceAndGuarded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "signing.pem")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := keys.OpenSigner(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.Public().ID()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Errorf("several keys for one file: %v", ids)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "no PEM": "secret", "a public key": func() string {
			s, _ := keys.OpenSigner(path)
			return s.Public().String()
		}(),
	} {
		bad := filepath.Join(t.TempDir(), "bad.pem")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.OpenSigner(bad); err == nil {
			t.Errorf("%s was opened as a signing key", name)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenSigner(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a file that the group can read: %v", err)
	}
}

// Guarantee: CRE5
func TestSignerShowsNoKeyMaterial(t *testing.T) {
	s, err := keys.NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %x", s, s, s, s, s), string(raw)} {
		if strings.Count(text, "redacted") == 0 || len(text) > 200 {
			t.Errorf("a signer prints as %q", text)
		}
	}
}

func FuzzParsePublicKey(f *testing.F) {
	s, err := keys.NewSigner()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Public().String())
	f.Add("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := keys.ParsePublicKey(text)
		if err != nil {
			return
		}
		again, err := keys.ParsePublicKey(p.String())
		if err != nil || again.ID() != p.ID() {
			t.Errorf("%q does not survive its own text: %v", text, err)
		}
	})
}
