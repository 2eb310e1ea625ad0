package mcpexpose

//lint:file-ignore SA1019 clients still declare what the protocol has deprecated, and must not be asked for it otherwise

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// modernEra is the first protocol version in which a server asks by its result.
const modernEra = "2026-07-28"

// What a person is asked for.
const (
	purposeConnect = "connect"
	purposeScopes  = "scopes"
	purposeApprove = "approve"
)

// askPerson turns a refusal that a person can lift into a link for that person, if
// the client can open one. It returns nil when the refusal has to do.
func (s *Server) askPerson(ctx context.Context, id edge.Identity, r round, t shown, result connector.Result) (*mcp.CallToolResult, error) {
	if s.Links == nil || result.Error == nil || !opensURLs(r.capabilities()) || declined(r.answers) {
		return nil, nil
	}
	var purpose, message, link string
	var err error
	switch result.Error.Code {
	case connector.CodeConnectionRequired:
		purpose, message = purposeConnect, "Connect your account at "+t.mount.Provider+", so that this tool can act in your name."
		link, err = s.Links.Connect(ctx, id.Caller, t.mount.Provider, nil)
	case connector.CodeScopeRequired:
		purpose, message = purposeScopes, "Allow more at "+t.mount.Provider+": this tool needs permissions that your connection lacks."
		link, err = s.Links.Connect(ctx, id.Caller, t.mount.Provider, result.Error.Scopes)
	case connector.CodeApprovalRequired:
		purpose, message = purposeApprove, "Read what would be written, and approve or deny it."
		link, err = s.Links.Approval(ctx, id.Caller, result.Error.Approval)
	default:
		return nil, nil
	}
	if err != nil {
		// The refusal is still true and says what is needed.
		s.Logger.Error("no link for a person", "purpose", purpose, "err", err)
		return nil, nil
	}
	ask := &mcp.ElicitParams{Mode: "url", Message: message, URL: link}
	if r.version < modernEra {
		ask.ElicitationID = rand.Text()
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{ask})
	}
	state, err := s.seal(id, r, purpose, nil)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{purpose: ask}, RequestState: state}, nil
}

func opensURLs(c *mcp.ClientCapabilities) bool {
	return c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// declined tells whether the person said no. Their yes proves nothing and is not
// looked at: the call is run again and finds out.
func declined(answers mcp.InputResponseMap) bool {
	for _, a := range answers {
		if e, ok := a.(*mcp.ElicitResult); ok && e.Action != "accept" {
			return true
		}
	}
	return false
}

// Asker lets native features ask their client for input under our rules.
type Asker struct{ s *Server }

// Tool asks for inputs in the course of a tool call. The payload is what the feature
// wants to have back; it travels sealed. A client that has not declared what an input
// needs gets the protocol's error for that.
func (a Asker) Tool(ctx context.Context, req *mcp.CallToolRequest, payload []byte, inputs mcp.InputRequestMap) (*mcp.CallToolResult, error) {
	state, err := a.ask(ctx, toolRound(req), payload, inputs)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{InputRequests: inputs, RequestState: state}, nil
}

// ToolState returns the payload that a call brings back, and whether there is one.
func (a Asker) ToolState(ctx context.Context, req *mcp.CallToolRequest) (payload []byte, ok bool, err error) {
	return a.state(ctx, toolRound(req))
}

// Prompt is Tool for prompts.
func (a Asker) Prompt(ctx context.Context, req *mcp.GetPromptRequest, payload []byte, inputs mcp.InputRequestMap) (*mcp.GetPromptResult, error) {
	state, err := a.ask(ctx, promptRound(req), payload, inputs)
	if err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{InputRequests: inputs, RequestState: state}, nil
}

// PromptState is ToolState for prompts.
func (a Asker) PromptState(ctx context.Context, req *mcp.GetPromptRequest) (payload []byte, ok bool, err error) {
	return a.state(ctx, promptRound(req))
}

func (a Asker) ask(ctx context.Context, r round, payload []byte, inputs mcp.InputRequestMap) (string, error) {
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return "", errNoIdentity
	}
	if err := capable(r.capabilities(), inputs); err != nil {
		return "", err
	}
	if r.version < modernEra { // the SDK asks such a client itself and keeps no state
		return "", nil
	}
	return a.s.seal(id, r, "native", payload)
}

func (a Asker) state(ctx context.Context, r round) ([]byte, bool, error) {
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return nil, false, errNoIdentity
	}
	_, payload, err := a.s.redeem(ctx, id, r)
	return payload, r.state != "" && err == nil, err
}

// capable refuses to ask a client for what it has not declared; the SDK would.
func capable(c *mcp.ClientCapabilities, inputs mcp.InputRequestMap) error {
	if c == nil {
		c = &mcp.ClientCapabilities{}
	}
	var missing mcp.ClientCapabilities
	lacks := false
	for _, input := range inputs {
		switch p := input.(type) {
		case *mcp.ElicitParams:
			if e := c.Elicitation; p.Mode == "url" && (e == nil || e.URL == nil) {
				missing.Elicitation, lacks = &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}, true
			} else if p.Mode != "url" && (e == nil || e.Form == nil && e.URL != nil) {
				missing.Elicitation, lacks = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}, true
			}
		case *mcp.CreateMessageParams:
			if c.Sampling == nil {
				missing.Sampling, lacks = &mcp.SamplingCapabilities{}, true
			}
		case *mcp.ListRootsParams:
			if c.RootsV2 == nil {
				missing.RootsV2, lacks = &mcp.RootCapabilities{}, true
			}
		}
	}
	if !lacks {
		return nil
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: &missing})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client has not declared a capability that this needs", Data: data}
}
