package cursors

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

const (
	// MaxPosition is the longest position that Seal takes, in bytes.
	MaxPosition = 2 << 10

	// maxText fits the input schema that the runtime gives to the cursor
	// argument. Nothing longer is decoded, let alone decrypted.
	maxText = 4 << 10

	// prefix names the format. It is also in the associated data, so that a text
	// of one format can't be presented as another.
	prefix = "c1_"

	defaultTTL = time.Hour
	// The providers' own positions live a week at most.
	maxTTL = 7 * 24 * time.Hour
)

// A Sealer encrypts and authenticates with associated data. It must be safe for
// concurrent use. A *keys.Ring is one.
type Sealer interface {
	Seal(plaintext, context []byte) ([]byte, error)
	Open(ciphertext, context []byte) ([]byte, error)
}

// Config is what a Codec is made of.
type Config struct {
	Keys Sealer        // required
	TTL  time.Duration // how long a cursor lives; zero: 1 hour; at most 7 days
}

// A Codec seals and opens cursors. It is safe for concurrent use.
type Codec struct {
	keys Sealer
	ttl  time.Duration
}

var _ connector.Cursors = (*Codec)(nil)

// New checks the configuration.
func New(c Config) (*Codec, error) {
	switch {
	case c.Keys == nil:
		return nil, errors.New("cursors: Keys is missing")
	case c.TTL < 0 || c.TTL > maxTTL:
		return nil, fmt.Errorf("cursors: TTL is %v, want at most %v", c.TTL, maxTTL)
	case c.TTL == 0:
		c.TTL = defaultTTL
	}
	return &Codec{c.Keys, c.TTL}, nil
}

// Seal makes a cursor of a position. An error is INTERNAL and means that the
// connector's author or the host has something to fix: a position longer than
// [MaxPosition], a binding with an empty part, or a ring that can't seal.
func (c *Codec) Seal(b connector.CursorBinding, position []byte) (string, error) {
	if len(position) > MaxPosition {
		return "", connector.Fail(connector.CodeInternal,
			"the page position has %d bytes, over the limit of %d", len(position), MaxPosition)
	}
	if part := unbound(b); part != "" {
		return "", connector.Fail(connector.CodeInternal, "the page position is not bound to a %s", part)
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(c.ttl).UnixMilli()))
	sealed, err := c.keys.Seal(append(plain, position...), associated(b))
	if err != nil {
		return "", &connector.Error{
			Code: connector.CodeInternal, Message: "the page position could not be sealed", Err: err,
		}
	}
	text := prefix + base64.RawURLEncoding.EncodeToString(sealed)
	if len(text) > maxText {
		return "", connector.Fail(connector.CodeInternal,
			"the sealed page position has %d bytes, over the limit of %d", len(text), maxText)
	}
	return text, nil
}

// Open returns the position of a cursor that was sealed for the same binding
// and lives. Anything else is CURSOR_INVALID, always the same one.
func (c *Codec) Open(b connector.CursorBinding, cursor string) ([]byte, error) {
	if len(cursor) > maxText {
		return nil, invalid()
	}
	encoded, ok := strings.CutPrefix(cursor, prefix)
	if !ok {
		return nil, invalid()
	}
	sealed, err := base64.RawURLEncoding.DecodeString(encoded)
	// The decoder skips line breaks and, unless strict, ignores the last bits.
	// Only what Seal would have written is a cursor: one text each.
	if err != nil || base64.RawURLEncoding.EncodeToString(sealed) != encoded {
		return nil, invalid()
	}
	plain, err := c.keys.Open(sealed, associated(b))
	if err != nil || len(plain) < 8 {
		return nil, invalid()
	}
	if expires := int64(binary.BigEndian.Uint64(plain)); time.Now().UnixMilli() >= expires {
		return nil, invalid()
	}
	return plain[8:], nil
}

// invalid is the only error of Open. The message is the code's own, which the
// runtime also gives to a cursor that opens to something it can't read.
func invalid() error { return &connector.Error{Code: connector.CodeCursorInvalid} }

// unbound names the part of a binding that is empty, if any. A caller that
// forgot the tenant would otherwise get cursors that open for all tenants.
func unbound(b connector.CursorBinding) string {
	for _, part := range []struct{ name, value string }{
		{"connector", b.Connector}, {"version", b.Version}, {"operation", b.Operation},
		{"tenant", string(b.Tenant)}, {"principal", string(b.Principal)},
		{"connection", string(b.Connection)}, {"query", b.Query},
	} {
		if part.value == "" {
			return part.name
		}
	}
	if b.PageSize < 1 {
		return "page size"
	}
	return ""
}

// associated is the associated data of a binding. The resources come last and
// all other parts are always there, so two bindings share it only if they are
// the same; the order and repetition of resources mean nothing.
func associated(b connector.CursorBinding) []byte {
	parts := []string{
		"cursors", prefix, b.Connector, b.Version, b.Operation,
		string(b.Tenant), string(b.Principal), string(b.Connection), b.Query,
		strconv.Itoa(b.PageSize), strconv.FormatInt(b.AuthzVersion, 10),
	}
	resources := slices.Clone(b.Resources)
	slices.Sort(resources)
	return keys.Context(append(parts, slices.Compact(resources)...)...)
}
