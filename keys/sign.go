package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// ErrSignature means that a signature does not belong to these bytes, this
// purpose and this key. It does not tell which.
var ErrSignature = errors.New("signature does not match")

// A Signer signs with one Ed25519 key (RFC 8032) that is used for nothing else:
// whoever can verify holds only the public half, which the sealing keys of a
// [Ring] have none of. It is safe for concurrent use. The zero Signer has no key.
type Signer struct {
	private ed25519.PrivateKey
	public  PublicKey
}

// A PublicKey verifies what its Signer signed. The zero PublicKey verifies nothing.
type PublicKey struct {
	key ed25519.PublicKey
}

// NewSigner makes a signer of a fresh key that is kept nowhere.
func NewSigner() (*Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, errors.New("keys: a signing key can't be made")
	}
	return newSigner(private), nil
}

func newSigner(private ed25519.PrivateKey) *Signer {
	return &Signer{private, PublicKey{private.Public().(ed25519.PublicKey)}}
}

// OpenSigner opens the signing key kept in a file (PKCS #8 in PEM), and makes
// one when there is none; two processes that do so at once get the same key.
// The file is refused when group or others can read it. To turn the key over,
// keep its public half for old signatures and move the file away.
func OpenSigner(path string) (*Signer, error) {
	if path == "" {
		return nil, errors.New("keys: no signing key file named")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	s, err := readSigner(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = createSigner(path)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return s, nil
}

func createSigner(path string) (*Signer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("lock the signing key file: %w", err)
	}
	defer unlock()
	s, err := readSigner(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err // another process was first
	}
	if s, err = NewSigner(); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(s.private)
	if err != nil {
		return nil, errors.New("the signing key can't be written")
	}
	// In its own name only when it is complete and on disk.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return nil, err
	}
	return s, syncDir(filepath.Dir(path))
}

func readSigner(path string) (*Signer, error) {
	text, _, err := readPrivate(path, "signing key file")
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("signing key file %s is not one private key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("signing key file %s holds no Ed25519 key", path)
	}
	return newSigner(private), nil
}

// Sign signs the purpose, a line feed, and the message. The purpose is a
// constant without a line feed that keeps signatures of two kinds of messages
// apart. The same message has the same signature. It fails for the zero Signer.
func (s *Signer) Sign(purpose string, message []byte) ([]byte, error) {
	if s == nil || s.private == nil {
		return nil, fmt.Errorf("keys: sign: %w", ErrKeyUnavailable)
	}
	if purpose == "" || strings.Contains(purpose, "\n") {
		return nil, errors.New("keys: sign: a purpose is one line")
	}
	return ed25519.Sign(s.private, signed(purpose, message)), nil
}

func signed(purpose string, message []byte) []byte {
	return append([]byte(purpose+"\n"), message...)
}

// Public returns what others need to verify.
func (s *Signer) Public() PublicKey {
	if s == nil {
		return PublicKey{}
	}
	return s.public
}

// Verify returns nil or ErrSignature.
func (p PublicKey) Verify(purpose string, message, signature []byte) error {
	if len(p.key) != ed25519.PublicKeySize || purpose == "" || strings.Contains(purpose, "\n") ||
		!ed25519.Verify(p.key, signed(purpose, message), signature) {
		return ErrSignature
	}
	return nil
}

// ID names the key: the first 16 hex digits of the SHA-256 of its 32 bytes. It
// helps to find the right key and proves nothing.
func (p PublicKey) ID() string {
	sum := sha256.Sum256(p.key)
	return hex.EncodeToString(sum[:8])
}

// String returns the key in PEM (SubjectPublicKeyInfo, RFC 8410), as other
// tools read it; the zero PublicKey is the empty string.
func (p PublicKey) String() string {
	if len(p.key) == 0 {
		return ""
	}
	der, err := x509.MarshalPKIXPublicKey(p.key)
	if err != nil {
		return ""
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// ParsePublicKey reads what PublicKey.String wrote.
func ParsePublicKey(text string) (PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return PublicKey{}, errors.New("keys: not one public key in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	key, ok := parsed.(ed25519.PublicKey)
	if err != nil || !ok {
		return PublicKey{}, errors.New("keys: not an Ed25519 public key")
	}
	return PublicKey{key}, nil
}

const redactedSigner = "keys.Signer[redacted]"

func (*Signer) String() string               { return redactedSigner }
func (*Signer) GoString() string             { return redactedSigner }
func (*Signer) Format(s fmt.State, _ rune)   { fmt.Fprint(s, redactedSigner) }
func (*Signer) LogValue() slog.Value         { return slog.StringValue(redactedSigner) }
func (*Signer) MarshalText() ([]byte, error) { return []byte(redactedSigner), nil }
func (*Signer) MarshalJSON() ([]byte, error) { return []byte(`"` + redactedSigner + `"`), nil }
