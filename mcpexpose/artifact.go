package mcpexpose

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

// artifact is where data too large for a result is kept. The handle in its address
// is no permission: whoever reads it is authorized for the tool again.
type artifact struct {
	URI     string    `json:"uri"`
	Bytes   int64     `json:"bytes"`
	Expires time.Time `json:"expires_at"`
}

const artifactPrefix = "drawbridge://artifacts/"

// keep seals data under a handle of 128 random bits, of which only a hash is stored.
func (s *Server) keep(ctx context.Context, id edge.Identity, t shown, data json.RawMessage) (*artifact, error) {
	handle := rand.Text()
	hash := sha256.Sum256([]byte(handle))
	sealed, err := s.Keys.Seal(data, artifactContext(id, t.mount.Name, t.def.Name, hash[:]))
	if err != nil {
		return nil, err
	}
	expires := s.now().Add(s.ArtifactTTL)
	err = s.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM mcp_artifact WHERE expires_at < ?`, s.now().UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO mcp_artifact (handle_hash, tenant, principal, connection, mount, tool, data, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, hash[:], id.Caller.Tenant, id.Caller.Principal, id.Caller.Connection, t.mount.Name, t.def.Name, sealed, expires.UnixMilli())
		return err
	})
	return &artifact{artifactPrefix + handle, int64(len(data)), expires.UTC()}, err
}

func artifactContext(id edge.Identity, mount, tool string, hash []byte) []byte {
	raw, _ := json.Marshal([]any{"mcpexpose/artifact/v1", id.Caller.Tenant, id.Caller.Principal, id.Caller.Connection, mount, tool, hash})
	return raw
}

// artifact reads one back. What is foreign, expired, absent or of a tool that the
// caller may no longer use is not found, all alike.
func (s *Server) artifact(ctx context.Context, uri, handle string) (*mcp.ReadResourceResult, error) {
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return nil, errNoIdentity
	}
	absent := mcp.ResourceNotFoundError(uri)
	hash := sha256.Sum256([]byte(handle))
	var mount, tool string
	var sealed []byte
	err := s.DB.QueryRow(ctx, `SELECT mount, tool, data FROM mcp_artifact
		WHERE handle_hash = ? AND tenant = ? AND principal = ? AND connection = ? AND expires_at >= ?`,
		hash[:], id.Caller.Tenant, id.Caller.Principal, id.Caller.Connection, s.now().UnixMilli()).Scan(&mount, &tool, &sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	allowed, err := s.allowed(ctx, id.Caller, mount, tool)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, absent
	}
	data, err := s.Keys.Open(sealed, artifactContext(id, mount, tool, hash[:]))
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(data)}}}, nil
}

func (s *Server) allowed(ctx context.Context, caller connector.Caller, mount, tool string) (bool, error) {
	tools, err := s.visible(ctx, caller)
	for _, t := range tools {
		if t.mount.Name == mount && t.def.Name == tool {
			return true, err
		}
	}
	return false, err
}
