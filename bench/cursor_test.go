package bench

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// BenchmarkCursor is sealing and opening one cursor with all its bindings,
// against the bare AES-256-GCM of the standard library on the same position.
func BenchmarkCursor(b *testing.B) {
	ring, err := keys.OpenFile(filepath.Join(b.TempDir(), "keys.json"))
	must(b, err)
	codec, err := cursors.New(cursors.Config{Keys: ring})
	must(b, err)
	binding := connector.CursorBinding{Connector: "tickets", Version: "0.1.0", Operation: "tickets.search", Tenant: "acme",
		Principal: "alice", Connection: "con_1", Resources: []string{"orders", "web"}, Query: "0123456789abcdef", PageSize: 20, AuthzVersion: 3}
	position := []byte(`{"c":"eyJpZCI6IldFQi0xMDUyIn0","s":20}`)
	block, err := aes.NewCipher(make([]byte, 32))
	must(b, err)
	gcm, err := cipher.NewGCM(block)
	must(b, err)
	floor := func() {
		nonce := make([]byte, gcm.NonceSize())
		rand.Read(nonce)
		_, err := gcm.Open(nil, nonce, gcm.Seal(nil, nonce, position, nil), nil)
		must(b, err)
	}
	ours := func() {
		cursor, err := codec.Seal(binding, position)
		must(b, err)
		_, err = codec.Open(binding, cursor)
		must(b, err)
	}
	pair(b, floor, ours)
}
