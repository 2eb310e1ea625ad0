package mcpexpose

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// Members of a request's _meta that a host, never a model, sets: a name that makes
// a write happen once for ever, and one that groups calls.
const (
	MetaIntent = "drawbridge.dev/intent"
	MetaStep   = "drawbridge.dev/step"
)

// MetaNeutralized is a member of a result's _meta: how many characters of its text
// were replaced because they can't be seen or would be obeyed.
const MetaNeutralized = "drawbridge.dev/neutralized"

var errNoIdentity = errors.New("a request without a verified identity")

// call runs one tool. What a list once showed is of no account: the Runtime
// authorizes the call as it is now.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest, t shown) (*mcp.CallToolResult, error) {
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return nil, errNoIdentity
	}
	r := toolRound(req)
	purpose, _, err := s.redeem(ctx, id, r)
	if err != nil {
		return nil, err
	}
	if !accepted(r.answers, purpose) {
		purpose = ""
	}
	arguments := req.Params.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	result := s.execute(ctx, id, t, connector.Call{
		Tool: t.def.Name, Arguments: arguments,
		Intent: metaText(req.Params.Meta, MetaIntent), Step: metaText(req.Params.Meta, MetaStep),
	}, purpose)
	result.Tool = t.name()
	if result.Error != nil && result.Error.Code == connector.CodeUnknownTool {
		return nil, unknownTool(t.name())
	}
	if asked, err := s.askPerson(ctx, id, r, t, result); asked != nil || err != nil {
		return asked, err
	}
	return s.answer(ctx, id, t, result)
}

// unknownTool is what the SDK says of a name that nobody has registered.
func unknownTool(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: `unknown tool "` + name + `"`}
}

func metaText(m mcp.Meta, name string) string {
	text, _ := m[name].(string)
	return text
}

// answer renders a result. Every code is an answer that a model can act on, so all
// are tool results with their code; JSON-RPC errors are for faults of the protocol.
func (s *Server) answer(ctx context.Context, id edge.Identity, t shown, result connector.Result) (*mcp.CallToolResult, error) {
	out := struct {
		connector.Result
		Artifact *artifact `json:"artifact,omitempty"`
	}{Result: result}
	if len(result.Data) > s.InlineBytes {
		a, err := s.keep(ctx, id, t, result.Data)
		if err == nil {
			out.Data, out.Artifact = nil, a
			out.Summary += "; the data is too large to be inlined and is kept as a resource for a while"
		} else {
			if !errors.Is(err, errNotKept) {
				s.Logger.Error("no artifact", "tool", t.name(), "err", err)
			}
			out.Result = s.tooLarge(result)
		}
	}
	// The SDK writes out as it is; what it could not write would be its fault to tell.
	if len(out.Data) > 0 && !json.Valid(out.Data) {
		return nil, errors.New("the data of a result is not JSON")
	}
	text, neutralized := render(out.Result)
	failed := out.Status == connector.StatusError || out.Status == connector.StatusUnknown
	r := &mcp.CallToolResult{StructuredContent: out, IsError: failed, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	if out.Artifact != nil {
		r.Content = append(r.Content, &mcp.ResourceLink{URI: out.Artifact.URI, Name: "result", MIMEType: "application/json", Size: &out.Artifact.Bytes})
	}
	if neutralized > 0 {
		r.Meta = mcp.Meta{MetaNeutralized: neutralized}
	}
	return r, nil
}
