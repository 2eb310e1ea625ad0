package mcpexpose

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

// artifact is where data too large for a result is kept. The handle in its address
// is no permission: whoever reads it is authorized for the tool again, and has to
// have the connection that the data came through as it was then.
type artifact struct {
	URI     string    `json:"uri"`
	Bytes   int64     `json:"bytes"`
	Expires time.Time `json:"expires_at"`
}

const artifactPrefix = "drawbridge://artifacts/"

// maxArtifacts is how many one principal may have at a time.
const maxArtifacts = 32

// errNotKept is large data that is refused and not a fault.
var errNotKept = errors.New("large data is not kept")

// keep seals data under a handle of 128 random bits, of which only a hash is stored.
func (s *Server) keep(ctx context.Context, id edge.Identity, t shown, data json.RawMessage) (*artifact, error) {
	if s.Connections == nil {
		return nil, errNotKept
	}
	conn, err := s.Connections.Resolve(ctx, id.Caller, t.mount.Provider, t.def.Scopes)
	if err != nil {
		return nil, err
	}
	handle := rand.Text()
	hash := sha256.Sum256([]byte(handle))
	sealed, err := s.Keys.Seal(data, artifactContext(id.Caller, conn, t, hash[:]))
	if err != nil {
		return nil, err
	}
	now := s.now()
	expires := now.Add(s.ArtifactTTL)
	// What has expired goes, whoever's it was.
	err = s.DB.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM mcp_artifact WHERE expires_at < ?`, now.UnixMilli()); err != nil {
			return err
		}
		var kept int // two calls at once may go one over
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM mcp_artifact WHERE tenant = ? AND principal = ?`,
			id.Caller.Tenant, id.Caller.Principal).Scan(&kept); err != nil {
			return err
		}
		if kept >= maxArtifacts {
			return errNotKept
		}
		_, err := tx.Exec(ctx, `INSERT INTO mcp_artifact (handle_hash, tenant, principal, connection, mount, tool, data, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, hash[:], id.Caller.Tenant, id.Caller.Principal, conn.ID, t.mount.Name, t.def.Name, sealed, expires.UnixMilli())
		return err
	})
	return &artifact{artifactPrefix + handle, int64(len(data)), expires.UTC()}, err
}

func artifactContext(c connector.Caller, conn connector.Connection, t shown, hash []byte) []byte {
	return keys.Context("mcpexpose/artifact/v2", string(c.Tenant), string(c.Principal), string(conn.ID), strconv.FormatInt(conn.AuthzVersion, 10), t.name(), string(hash))
}

// artifact reads one back. What is foreign, expired, absent, of a tool that the caller
// may no longer use or of a connection that has changed is not found, all alike.
func (s *Server) artifact(ctx context.Context, uri, handle string) (*mcp.ReadResourceResult, error) {
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return nil, errNoIdentity
	}
	absent := mcp.ResourceNotFoundError(uri)
	if s.Connections == nil {
		return nil, absent
	}
	hash := sha256.Sum256([]byte(handle))
	var mount, tool string
	var sealed []byte
	err := s.DB.QueryRowFor(ctx, store.Tenant(string(id.Caller.Tenant)), `SELECT mount, tool, data FROM mcp_artifact WHERE handle_hash = ? AND tenant = ? AND principal = ? AND expires_at >= ?`,
		hash[:], id.Caller.Tenant, id.Caller.Principal, s.now().UnixMilli()).Scan(&mount, &tool, &sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	t, ok, err := s.see(ctx, id.Caller, mount+"."+tool)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, absent
	}
	conn, err := s.Connections.Resolve(ctx, id.Caller, t.mount.Provider, t.def.Scopes)
	if code := connector.CodeOf(err); code == connector.CodeConnectionRequired || code == connector.CodeScopeRequired {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	data, err := s.Keys.Open(sealed, artifactContext(id.Caller, conn, t, hash[:]))
	if errors.Is(err, keys.ErrIntegrity) {
		return nil, absent
	}
	if err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(data)}}}, nil
}

// tooLarge is a result without its data. A write that was applied stays applied and
// keeps its receipt.
func (s *Server) tooLarge(r connector.Result) connector.Result {
	n := len(r.Data)
	r.Data, r.NextCursor = nil, nil
	if r.Effect.Disposition == connector.DispositionApplied {
		r.Status, r.Coverage.Complete = connector.StatusPartial, false
		r.Coverage.Missing = append(r.Coverage.Missing, connector.Missing{What: "data", Reason: "unread_field"})
		return r
	}
	report := connector.Fail(connector.CodeTooLarge, "the result has %d bytes, over the limit of %d; ask for less", n, s.InlineBytes).Report()
	r.Status, r.Error, r.Summary = connector.StatusError, &report, report.Message
	r.Coverage = connector.Coverage{}
	return r
}
