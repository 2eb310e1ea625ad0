package connector

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// canonical writes raw in the form of RFC 8785, in which the order of keys and
// white space no longer matter and nothing else is lost.
func canonical(raw []byte) ([]byte, error) {
	v := jsontext.Value(append([]byte(nil), raw...))
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return v, nil
}

// digestJSON is the SHA-256 of the canonical form, in hex.
func digestJSON(raw []byte) (string, error) {
	c, err := canonical(raw)
	if err != nil {
		return "", err
	}
	return digestBytes(c), nil
}

func digestBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// payloadDigest is what an approval covers: who would send which bytes where.
// The digest and the stored request are compared again just before dispatch.
func payloadDigest(p Proposal) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"connector": p.Connector, "operation": p.Tool, "version": p.Version, "provider": p.Provider,
		"tenant": p.Tenant, "principal": p.Principal, "connection": p.Connection, "account": p.Account,
		"method": p.Request.Method, "path": p.Request.Path, "query": p.Request.Query.Encode(),
		"content_type": p.Request.ContentType, "body": digestBytes(p.Request.Body),
		"profile": p.Request.Profile, "dedupe_header": p.Request.DedupeHeader, "operation_id": p.Request.OperationID,
		"resource_version": p.Request.ResourceVersion,
	})
	if err != nil {
		return "", err
	}
	return digestJSON(raw)
}

// newID makes an unguessable, paste-friendly id: 80 random bits in lower-case
// base32 behind a prefix that says what it names.
func newID(prefix string) string {
	var b [10]byte
	rand.Read(b[:])
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}
