package edge

import (
	"context"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Identity is who sent a request, after the edge has verified it.
type Identity struct {
	Caller   connector.Caller
	Issuer   string // of the token; empty: a local person
	ClientID string // empty: unknown
	Scopes   []string
	Expiry   time.Time // of the token; zero: none
}

type identityKey struct{}

// WithIdentity is for whoever has verified one.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityFrom returns the verified identity of a request, or false.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok && id.Caller.Tenant != "" && id.Caller.Principal != ""
}
