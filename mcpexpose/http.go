package mcpexpose

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// tokenIdentity is where a request's identity travels through the SDK.
const tokenIdentity = "drawbridge.dev/identity"

type serverKey struct{}

// Handler serves Streamable HTTP in both eras. It stands behind an edge that has
// verified who asks (edge.IdentityFrom) and refuses what has no identity.
func (s *Server) Handler() http.Handler {
	pick := func(r *http.Request) *mcp.Server {
		server, _ := r.Context().Value(serverKey{}).(*mcp.Server)
		return server
	}
	options := func(stateless bool) *mcp.StreamableHTTPOptions {
		return &mcp.StreamableHTTPOptions{
			Stateless: stateless, Logger: s.Logger, SessionTimeout: s.SessionTimeout,
			PropagateRequestCancellation: true, // a write that was dispatched runs on, see connector
			DisableLocalhostProtection:   true, // the edge has a list of hosts
		}
	}
	modern, legacy := mcp.NewStreamableHTTPHandler(pick, options(true)), mcp.NewStreamableHTTPHandler(pick, options(false))
	eras := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Authorization") // ours, see below
		w.Header().Set("X-Accel-Buffering", "no")
		if r.Header.Get("Mcp-Protocol-Version") >= modernEra {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	})
	// The SDK takes the identity that binds a session from this middleware alone, and
	// it wants a token for it. Ours was verified and taken away by the edge.
	shim := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		id, ok := edge.IdentityFrom(ctx)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: userID(id), Scopes: id.Scopes, Expiration: expiry(id), Extra: map[string]any{tokenIdentity: id}}, nil
	}, nil)(eras)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := edge.IdentityFrom(r.Context())
		if !ok {
			http.Error(w, "not authenticated", http.StatusUnauthorized)
			return
		}
		server, err := s.serverFor(r.Context(), id.Caller)
		if err != nil {
			s.Logger.Error("no list of tools", "err", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "what this caller may use could not be found out", http.StatusServiceUnavailable)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), serverKey{}, server))
		r.Header.Set("Authorization", "Bearer verified")
		shim.ServeHTTP(w, r)
	})
}

// userID binds a session of the older era to everything that makes a caller.
func userID(id edge.Identity) string {
	raw, _ := json.Marshal([]any{id.Issuer, id.Caller.Tenant, id.Caller.Principal, id.Caller.Connection, id.ClientID}) // texts
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// expiry is for the SDK, which demands one; the edge has judged it.
func expiry(id edge.Identity) time.Time {
	if id.Expiry.IsZero() {
		return time.Now().Add(time.Hour)
	}
	return id.Expiry.Add(time.Minute)
}
