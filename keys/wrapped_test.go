package keys_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/drawbridge-dev/drawbridge/keys"
)

// ringKMS wraps with a ring of its own, and can be away.
type ringKMS struct {
	ring *keys.Ring
	away bool
}

func (k *ringKMS) Wrap(_ context.Context, plain []byte) ([]byte, error) {
	if k.away {
		return nil, errors.New("away")
	}
	return k.ring.Seal(plain, keys.Context("kms"))
}

func (k *ringKMS) Unwrap(_ context.Context, wrapped []byte) ([]byte, error) {
	return k.ring.Open(wrapped, keys.Context("kms"))
}

// Guarantee: CRE4 (a ring moves between file, text and KMS without losing a value)
func TestCopyToMovesARingAndOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	text, err := keys.Generate()
	if err != nil {
		t.Fatal(err)
	}
	other, err := keys.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	kms := &ringKMS{ring: other}
	ring, err := keys.OpenFile(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	place := keys.Context("a place")
	sealed, err := ring.Seal([]byte("hello"), place)
	if err != nil {
		t.Fatal(err)
	}
	plain, wrapped := filepath.Join(dir, "new", "plain"), filepath.Join(dir, "new", "wrapped")
	kms.away = true
	if err := ring.CopyTo(wrapped, kms); err == nil {
		t.Error("copied without the KMS")
	}
	kms.away = false
	for path, k := range map[string]keys.KMS{plain: nil, wrapped: kms} {
		if err := ring.CopyTo(path, k); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if (k != nil) == bytes.Contains(before, []byte("primaryKeyId")) {
			t.Errorf("%s is not what it should be: %.20q", path, before)
		}
		if err := other.CopyTo(path, k); err == nil {
			t.Errorf("%s was written over", path)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s has changed (%v)", path, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		open := keys.OpenFile
		if k != nil {
			open = func(path string) (*keys.Ring, error) { return keys.OpenWrapped(path, k) }
		}
		moved, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := moved.Open(sealed, place); string(got) != "hello" || err != nil {
			t.Errorf("%s opens %q, %v", path, got, err)
		}
	}
	// Through a link the file behind it would be replaced.
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Skip(err)
	}
	if err := ring.CopyTo(link, nil); err == nil {
		t.Error("a link was replaced")
	}
	if err := new(keys.Ring).CopyTo(filepath.Join(dir, "empty"), nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("a ring without keys: %v", err)
	}
}
