package mcpexpose

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// A Runbook is a text for whoever has to act: what a code means and what to do.
type Runbook struct {
	Name    string // lower case, in the address
	Version string
	Title   string
	Text    string // Markdown
	// Tools are operations by name; it is shown to whoever sees one of them. Empty:
	// to whoever sees any tool.
	Tools []string
}

// A Prompt is a template that a person picks.
type Prompt struct {
	Name, Title, Doc string
	Arguments        []Argument
	Text             string // {{name}} stands for an argument
	Tools            []string
}

// An Argument is a text that a person gives for a prompt.
type Argument struct {
	Name, Doc string
	Required  bool
}

// Where resources are found.
const (
	runbooksPrefix   = "drawbridge://runbooks/"
	guaranteesPrefix = "drawbridge://guarantees/"
	schemasPrefix    = "drawbridge://schemas/"
)

// addResources registers what belongs to the tools of a set. Every read is
// authorized again, because a set may be older than a change of policy.
func (s *Server) addResources(server *mcp.Server, tools []shown) {
	for _, r := range s.Runbooks {
		if !concerns(r.Tools, tools) {
			continue
		}
		uri := runbooksPrefix + r.Name
		server.AddResource(&mcp.Resource{URI: uri, Name: r.Name, Title: r.Title, MIMEType: "text/markdown", Description: "version " + r.Version},
			s.reads(r.Tools, func() (string, string, error) { return "text/markdown", r.Text, nil }))
	}
	for _, t := range tools {
		only := []string{t.def.Name}
		server.AddResource(&mcp.Resource{URI: guaranteesPrefix + t.name(), Name: t.name() + " guarantees", MIMEType: "application/json",
			Title: "What " + t.name() + " promises", Description: "Effect, approval, scopes, and what the provider can't guarantee."},
			s.reads(only, func() (string, string, error) { return "application/json", guarantees(t.def), nil }))
		server.AddResource(&mcp.Resource{URI: schemasPrefix + t.name(), Name: t.name() + " schema", MIMEType: "application/schema+json",
			Title: "What " + t.name() + " takes"},
			s.reads(only, func() (string, string, error) { return "application/schema+json", string(t.def.InputSchema), nil }))
	}
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: artifactPrefix + "{handle}", Name: "artifact", MIMEType: "application/json",
		Title: "Data of a result that was too large to be inlined"},
		func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return s.artifact(ctx, req.Params.URI, strings.TrimPrefix(req.Params.URI, artifactPrefix))
		})
}

// reads makes a handler that answers whoever may use one of the tools now.
func (s *Server) reads(tools []string, content func() (mime, text string, err error)) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id, ok := edge.IdentityFrom(ctx)
		if !ok {
			return nil, errNoIdentity
		}
		now, err := s.visible(ctx, id.Caller)
		if err != nil {
			return nil, err
		}
		if !concerns(tools, now) {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		mime, text, err := content()
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: mime, Text: text}}}, nil
	}
}

// concerns tells whether a set has one of the operations, or any if none is named.
func concerns(names []string, tools []shown) bool {
	for _, t := range tools {
		if len(names) == 0 {
			return true
		}
		for _, n := range names {
			if n == t.def.Name {
				return true
			}
		}
	}
	return false
}

func guarantees(d connector.Definition) string {
	raw, _ := json.MarshalIndent(map[string]any{ // texts and lists of them
		"connector": d.Connector, "version": d.Version, "provider": d.Provider, "effect": d.Effect.String(), "sensitivity": d.Sensitivity.String(),
		"approval": d.Approval, "scopes": d.Scopes, "limitations": d.Limitations, "deprecated": d.Deprecated,
	}, "", "  ")
	return string(raw)
}

func (s *Server) addPrompts(server *mcp.Server, tools []shown) {
	for _, p := range s.Prompts {
		if !concerns(p.Tools, tools) {
			continue
		}
		var arguments []*mcp.PromptArgument
		for _, a := range p.Arguments {
			arguments = append(arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Doc, Required: a.Required})
		}
		server.AddPrompt(&mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Doc, Arguments: arguments},
			func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				id, ok := edge.IdentityFrom(ctx)
				if !ok {
					return nil, errNoIdentity
				}
				now, err := s.visible(ctx, id.Caller)
				if err != nil {
					return nil, err
				}
				if !concerns(p.Tools, now) {
					return nil, unknownPrompt(p.Name)
				}
				var values []string
				for _, a := range p.Arguments {
					value, given := req.Params.Arguments[a.Name]
					if a.Required && !given {
						return nil, missingArgument(a.Name)
					}
					values = append(values, "{{"+a.Name+"}}", value)
				}
				// In one pass: a value is text, whatever it looks like.
				text := strings.NewReplacer(values...).Replace(p.Text)
				return &mcp.GetPromptResult{Description: p.Doc, Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
			})
	}
}
