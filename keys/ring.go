package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

var (
	// ErrKeyUnavailable means that the key is not in the ring or is disabled,
	// or that the ring's file can't be read. Nothing is known to be damaged:
	// keep the value and try again when the keys are back.
	ErrKeyUnavailable = errors.New("encryption key is not available")

	// ErrIntegrity means that the key is there and the value does not open
	// with it: it was changed, cut, or belongs to another context. Its text
	// does not tell which.
	ErrIntegrity = errors.New("sealed value failed its integrity check")
	// ErrInUse means that stored values are still sealed with a key that was
	// to be destroyed.
	ErrInUse = errors.New("values are still sealed with the key")
)

// Ring seals and opens. It is safe for concurrent use. The zero Ring has no
// key. No formatting, logging or encoding of a Ring shows key material.
type Ring struct {
	path    string // empty for a ring that was parsed
	kms     KMS    // has wrapped what is in the file; nil: it is plain
	current atomic.Pointer[keySet]

	// changing serialises what replaces current. Between processes the lock
	// file beside path does the same.
	changing sync.Mutex
}

// Seal encrypts plaintext under the primary key and binds it to context, which
// is not part of the result. A nil plaintext or context is like an empty one.
// The result is 33 bytes longer than plaintext and different each time.
//
// A file ring first looks whether its file was replaced. A process that kept
// sealing with a key that was retired elsewhere would lose data, so Seal fails
// with ErrKeyUnavailable when the file is gone or can't be read.
func (r *Ring) Seal(plaintext, context []byte) ([]byte, error) {
	if err := r.refresh(); err != nil {
		return nil, err
	}
	set := r.current.Load()
	if set == nil {
		return nil, fmt.Errorf("keys: seal: %w", ErrKeyUnavailable)
	}
	sealed, err := set.aead.Encrypt(plaintext, context)
	if err != nil {
		// The library's text is about sizes and the random source only, but
		// it is not ours to promise.
		return nil, errors.New("keys: seal failed")
	}
	return sealed, nil
}

// Open decrypts what Seal returned for the same context. The error matches
// ErrKeyUnavailable or ErrIntegrity. When the key id is unknown a file ring
// reads its file again first, in case another process has added a key.
func (r *Ring) Open(ciphertext, context []byte) ([]byte, error) {
	id, ok := KeyID(ciphertext)
	if !ok {
		return nil, ErrIntegrity
	}
	set := r.current.Load()
	if !set.canOpen(id) {
		if err := r.refresh(); err != nil {
			return nil, err
		}
		if set = r.current.Load(); !set.canOpen(id) {
			return nil, fmt.Errorf("keys: key %d: %w", id, ErrKeyUnavailable)
		}
	}
	plaintext, err := set.aead.Decrypt(ciphertext, context)
	if err != nil {
		return nil, ErrIntegrity
	}
	return plaintext, nil
}

// KeyID reads from a sealed value the id of the key it was sealed with. It
// answers false when the bytes can't be a sealed value. The id is not
// authenticated before Open.
func KeyID(ciphertext []byte) (uint32, bool) {
	// Tink's prefix: a version byte, the id in big endian; then 12 bytes of
	// nonce and 16 of tag.
	const overhead = 5 + 12 + 16
	if len(ciphertext) < overhead || ciphertext[0] != 1 {
		return 0, false
	}
	return binary.BigEndian.Uint32(ciphertext[1:5]), true
}

// Context encodes a list of names for Seal and Open. Different lists give
// different bytes: ("a", "bc") is not ("ab", "c"). Start with a constant that
// names the purpose, so that values of two packages can't be swapped.
func Context(parts ...string) []byte {
	size := 0
	for _, p := range parts {
		size += binary.MaxVarintLen16 + len(p)
	}
	b := make([]byte, 0, size)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

// Primary returns the id of the key that Seal uses, as of the last read of the
// file. It is zero only for the zero Ring.
func (r *Ring) Primary() uint32 {
	if set := r.current.Load(); set != nil {
		return set.primary
	}
	return 0
}

// Keys lists the keys, oldest first.
func (r *Ring) Keys() []KeyInfo {
	if set := r.current.Load(); set != nil {
		return append([]KeyInfo(nil), set.infos...)
	}
	return nil
}

const redacted = "keys.Ring[redacted]"

func (*Ring) String() string               { return redacted }
func (*Ring) GoString() string             { return redacted }
func (*Ring) Format(s fmt.State, _ rune)   { fmt.Fprint(s, redacted) }
func (*Ring) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (*Ring) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (*Ring) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// refresh reads the file again if it is another one than was read last.
func (r *Ring) refresh() error {
	set := r.current.Load()
	if r.path == "" || set == nil {
		return nil
	}
	info, err := os.Stat(r.path)
	if err != nil {
		return fmt.Errorf("keys: the key file can't be read: %w", ErrKeyUnavailable)
	}
	if set.isFrom(info) {
		return nil
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.current.Load().isFrom(info) {
		return nil // another goroutine has read it meanwhile
	}
	return r.load()
}

// Reload reads a file ring's keys again. After an error the ring keeps what it
// had. A parsed ring has nothing to reload.
func (r *Ring) Reload() error {
	if r.path == "" {
		return nil
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.load()
}

// load requires changing to be held.
func (r *Ring) load() error {
	set, err := readFile(r.path, r.kms)
	if err != nil {
		return fmt.Errorf("keys: %w: %w", ErrKeyUnavailable, err)
	}
	r.current.Store(set)
	return nil
}
