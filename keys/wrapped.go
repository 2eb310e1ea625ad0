package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A KMS keeps a key that never leaves it and wraps others with that. Errors must
// hold no key material. keys/vault has one. A KMS is safe for concurrent use.
type KMS interface {
	Wrap(ctx context.Context, plaintext []byte) (wrapped []byte, err error)
	Unwrap(ctx context.Context, wrapped []byte) (plaintext []byte, err error)
}

// kmsPatience bounds one question to a KMS. Seal and Open ask only when the
// file has changed.
const kmsPatience = 10 * time.Second

// OpenWrapped is OpenFile with a file that the KMS has wrapped: the keys are
// plain in memory only. The KMS is asked when the ring is opened, when another
// process has changed the file, and for each change of the ring; sealing and
// opening go on while it is away. A file that is not wrapped does not open.
//
// Ring.CopyTo moves a ring that lies elsewhere.
func OpenWrapped(path string, kms KMS) (*Ring, error) {
	if kms == nil {
		return nil, fmt.Errorf("keys: no key management service")
	}
	return open(path, kms)
}

// CopyTo writes the ring to a file that is not there yet, wrapped by the KMS unless
// that is nil, and readable for its owner only. The ring itself stays where it was.
func (r *Ring) CopyTo(path string, kms KMS) error {
	set := r.current.Load()
	if set == nil {
		return fmt.Errorf("keys: copy: %w", ErrKeyUnavailable)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("keys: lock the key file: %w", err)
	}
	defer unlock()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %s is there already, and may be all that opens something", path)
	}
	if err := set.save(path, kms); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}

func wrap(kms KMS, text []byte) ([]byte, error) {
	if kms == nil {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), kmsPatience)
	defer cancel()
	wrapped, err := kms.Wrap(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("wrap the keys: %w", err)
	}
	return wrapped, nil
}

func unwrap(kms KMS, text []byte) ([]byte, error) {
	if kms == nil {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), kmsPatience)
	defer cancel()
	plain, err := kms.Unwrap(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("unwrap the keys: %w", err)
	}
	return plain, nil
}
