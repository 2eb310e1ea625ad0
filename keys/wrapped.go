package keys

import (
	"context"
	"fmt"
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
// A ring that lies in a plain file moves by writing what Wrap makes of Export
// to a new file, for its owner only.
func OpenWrapped(path string, kms KMS) (*Ring, error) {
	if kms == nil {
		return nil, fmt.Errorf("keys: no key management service")
	}
	return open(path, kms)
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
