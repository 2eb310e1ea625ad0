package tickets_test

import (
	"crypto/sha256"
	"encoding/hex"
)

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
