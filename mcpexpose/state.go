package mcpexpose

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
	"github.com/drawbridge-dev/drawbridge/store"
)

// stateTTL is how long a person has before the call must be made anew. The link
// behind it may live longer; the retried call then simply asks again.
const stateTTL = 5 * time.Minute

// maxState is more than any state of ours; a longer one is none.
const maxState = 8 << 10

// round is one request of a multi-round-trip exchange: what a state is bound to.
type round struct {
	method, name string
	args         []byte
	state        string
	answers      mcp.InputResponseMap
	capabilities func() *mcp.ClientCapabilities // reading them is dear
	version      string
}

func toolRound(req *mcp.CallToolRequest) round {
	return round{"tools/call", req.Params.Name, req.Params.Arguments, req.Params.RequestState, req.Params.InputResponses,
		req.ClientCapabilities, req.ProtocolVersion()}
}

func promptRound(req *mcp.GetPromptRequest) round {
	args, _ := json.Marshal(req.Params.Arguments) // a map of texts
	return round{"prompts/get", req.Params.Name, args, req.Params.RequestState, req.Params.InputResponses,
		req.ClientCapabilities, req.ProtocolVersion()}
}

// claims are what is sealed into a request state.
type claims struct {
	Nonce      string    `json:"n"`
	Issuer     string    `json:"i"`
	Tenant     string    `json:"t"`
	Principal  string    `json:"p"`
	Connection string    `json:"c"`
	Client     string    `json:"l"`
	Method     string    `json:"m"`
	Name       string    `json:"o"`
	Arguments  string    `json:"a"` // digest
	Era        string    `json:"e"`
	Purpose    string    `json:"u"`
	Expires    time.Time `json:"x"`
	Payload    []byte    `json:"d,omitempty"`
}

var stateContext = keys.Context("mcpexpose/request-state/v1")

// bind is the part of the claims that must be the same when a state comes back.
func bind(id edge.Identity, r round) claims {
	return claims{
		Issuer: id.Issuer, Tenant: string(id.Caller.Tenant), Principal: string(id.Caller.Principal), Connection: string(id.Caller.Connection),
		Client: id.ClientID, Method: r.method, Name: r.name, Arguments: digestOf(r.args), Era: r.version,
	}
}

// digestOf is over the canonical form (RFC 8785): a client may write the same
// arguments in another order when it repeats them.
func digestOf(args []byte) string {
	v := jsontext.Value(append([]byte(nil), args...))
	if len(v) == 0 || v.Canonicalize() != nil {
		v = args
	}
	sum := sha256.Sum256(v)
	return hex.EncodeToString(sum[:])
}

func (s *Server) seal(id edge.Identity, r round, purpose string, payload []byte) (string, error) {
	c := bind(id, r)
	c.Nonce, c.Purpose, c.Expires, c.Payload = rand.Text(), purpose, s.now().Add(stateTTL), payload
	raw, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sealed, err := s.Keys.Seal(raw, stateContext)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// errState is the one answer to a state that is altered, foreign, expired or used.
// Which of them it was is in the log.
func errState() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request state is not valid for this request; call again without it"}
}

// redeem opens the state of a request, once for ever. Without one, given is false.
func (s *Server) redeem(ctx context.Context, id edge.Identity, r round) (purpose string, payload []byte, err error) {
	if r.state == "" {
		return "", nil, nil
	}
	c, why := s.open(id, r)
	if why == "" {
		fresh, err := s.first(ctx, c)
		if err != nil {
			return "", nil, err
		}
		if fresh {
			return c.Purpose, c.Payload, nil
		}
		why = "replayed"
	}
	s.Logger.Warn("request state refused", "why", why, "method", r.method, "name", r.name,
		slog.String("tenant", string(id.Caller.Tenant)), slog.String("principal", string(id.Caller.Principal)))
	return "", nil, errState()
}

func (s *Server) open(id edge.Identity, r round) (claims, string) {
	var c claims
	if len(r.state) > maxState {
		return c, "too long"
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(r.state)
	if err != nil {
		return c, "not ours"
	}
	raw, err := s.Keys.Open(sealed, stateContext)
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return c, "not ours"
	}
	want := bind(id, r)
	want.Nonce, want.Purpose, want.Expires, want.Payload = c.Nonce, c.Purpose, c.Expires, c.Payload
	a, err1 := json.Marshal(c)
	b, err2 := json.Marshal(want)
	switch {
	case errors.Join(err1, err2) != nil || string(a) != string(b):
		return c, "foreign"
	case !s.now().Before(c.Expires):
		return c, "expired"
	}
	return c, ""
}

// first writes down that a state is used, and reports whether it was not before. The
// database's clock decides here: a row is forgotten only when no replica, whatever its
// own clock, can take that state any more.
func (s *Server) first(ctx context.Context, c claims) (bool, error) {
	hash := sha256.Sum256([]byte(c.Nonce))
	fresh := false
	err := s.DB.Update(ctx, func(tx *store.Tx) error {
		fresh = false
		now, err := tx.Now(ctx)
		if err != nil || !now.Before(c.Expires) {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM mcp_redeemed WHERE expires_at < ?`, now.UnixMilli()); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO mcp_redeemed (nonce_hash, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, hash[:], c.Expires.UnixMilli())
		fresh = n == 1
		return err
	})
	return fresh, err
}
