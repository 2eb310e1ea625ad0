package keys

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/aead/aesgcm"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Status tells what a key of the ring may be used for.
type Status string

const (
	Enabled  Status = "enabled"  // opens; also seals if it is the primary
	Disabled Status = "disabled" // kept, but neither seals nor opens
)

// KeyInfo describes a key without its material.
type KeyInfo struct {
	ID      uint32 `json:"id"`
	Status  Status `json:"status"`
	Primary bool   `json:"primary"`
}

// keySet is one state of the ring. It never changes.
type keySet struct {
	handle  *keyset.Handle
	aead    tink.AEAD
	infos   []KeyInfo
	primary uint32
	enabled map[uint32]bool
	file    fs.FileInfo // of the file it was read from, nil if none
}

// The ring is read whole into memory and listed in full; nobody needs more.
const (
	maxKeys = 64
	maxText = 64 << 10
)

func (s *keySet) canOpen(id uint32) bool { return s != nil && s.enabled[id] }

// isFrom relies on files being replaced, never rewritten in place. Time and
// size are compared too because a freed inode number can come back.
func (s *keySet) isFrom(info fs.FileInfo) bool {
	return s.file != nil && os.SameFile(s.file, info) &&
		s.file.ModTime().Equal(info.ModTime()) && s.file.Size() == info.Size()
}

// newKeySet accepts only keys that keep the promises of this package: an id in
// front of what they seal, and 256 bits.
func newKeySet(handle *keyset.Handle) (*keySet, error) {
	s := &keySet{handle: handle, enabled: make(map[uint32]bool)}
	if handle.Len() > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	ids := make(map[uint32]bool)
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, errors.New("malformed keyset")
		}
		params, ok := entry.Key().Parameters().(*aesgcm.Parameters)
		if !ok || params.KeySizeInBytes() != 32 || params.Variant() != aesgcm.VariantTink {
			return nil, fmt.Errorf("key %d is not an AES-256-GCM key with Tink's prefix", entry.KeyID())
		}
		if ids[entry.KeyID()] {
			return nil, fmt.Errorf("key %d is there twice", entry.KeyID())
		}
		ids[entry.KeyID()] = true
		info := KeyInfo{ID: entry.KeyID(), Primary: entry.IsPrimary()}
		switch entry.KeyStatus() {
		case keyset.Enabled:
			info.Status = Enabled
			s.enabled[info.ID] = true
		case keyset.Disabled:
			info.Status = Disabled
		default:
			return nil, fmt.Errorf("key %d has an unknown status", info.ID)
		}
		if info.Primary {
			s.primary = info.ID
		}
		s.infos = append(s.infos, info)
	}
	if !s.enabled[s.primary] {
		return nil, errors.New("keyset has no enabled primary key")
	}
	var err error
	if s.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("keyset can't be used for sealing")
	}
	return s, nil
}

// generate makes a ring of one fresh key.
func generate() (*keySet, error) {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, errors.New("a key can't be made")
	}
	return newKeySet(handle)
}

// Generate returns the text of a new ring with one key, for Parse. The text is
// the secret itself.
func Generate() (string, error) {
	set, err := generate()
	if err != nil {
		return "", fmt.Errorf("keys: %w", err)
	}
	text, err := set.text()
	return string(text), err
}

// Parse makes a ring from the text of a Tink keyset in JSON, or from that in
// standard base64, as environment secrets often are. Errors do not echo it.
// Changes to the ring stay in memory; Export gives the text to keep.
func Parse(secret string) (*Ring, error) {
	text := []byte(strings.TrimSpace(secret))
	if len(text) > 0 && text[0] != '{' {
		decoded, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil {
			return nil, errors.New("keys: the key text is neither a keyset nor base64")
		}
		text = decoded
	}
	set, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	r := new(Ring)
	r.current.Store(set)
	return r, nil
}

func parse(text []byte) (*keySet, error) {
	if len(text) > maxText {
		return nil, errors.New("key text is too long")
	}
	text, checks, err := splitChecks(text)
	if err != nil {
		return nil, err
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		// The library's error quotes its input.
		return nil, errors.New("malformed keyset")
	}
	s, err := newKeySet(handle)
	if err != nil {
		return nil, err
	}
	return s, s.verify(checks)
}

func (s *keySet) text() ([]byte, error) {
	var b bytes.Buffer
	if err := insecurecleartextkeyset.Write(s.handle, keyset.NewJSONWriter(&b)); err != nil {
		return nil, errors.New("keys: the keyset can't be written")
	}
	return s.withChecks(b.Bytes())
}

// Export returns the secret text of the ring, for a backup or to replace an
// environment secret after a change. It fails for the zero Ring.
func (r *Ring) Export() (string, error) {
	set := r.current.Load()
	if set == nil {
		return "", fmt.Errorf("keys: export: %w", ErrKeyUnavailable)
	}
	text, err := set.text()
	return string(text), err
}
