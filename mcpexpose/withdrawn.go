package mcpexpose

import (
	"context"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// withdraw takes out of a list what its caller may not see any more. A session of the
// older era and a client on stdio keep the server that they began with, and so the
// tools that they had then. What they were granted since is in their next session.
func (s *Server) withdraw(ctx context.Context, result mcp.Result) error {
	switch result.(type) {
	case *mcp.ListToolsResult, *mcp.ListResourcesResult, *mcp.ListResourceTemplatesResult, *mcp.ListPromptsResult:
	default:
		return nil
	}
	id, ok := edge.IdentityFrom(ctx)
	if !ok {
		return errNoIdentity
	}
	now, err := s.visible(ctx, id.Caller)
	if err != nil {
		return err
	}
	sees := func(tool string) bool {
		return slices.ContainsFunc(now, func(t shown) bool { return t.name() == tool })
	}
	switch list := result.(type) {
	case *mcp.ListToolsResult:
		list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool {
			mount, _, _ := strings.Cut(t.Name, ".")
			ours := slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Name == mount })
			return ours && !sees(t.Name)
		})
	case *mcp.ListResourcesResult:
		list.Resources = slices.DeleteFunc(list.Resources, func(r *mcp.Resource) bool {
			for _, prefix := range []string{guaranteesPrefix, schemasPrefix} {
				if tool, ok := strings.CutPrefix(r.URI, prefix); ok {
					return !sees(tool)
				}
			}
			return slices.ContainsFunc(s.Runbooks, func(b Runbook) bool {
				return r.URI == runbooksPrefix+b.Name && !concerns(b.Tools, now)
			})
		})
	case *mcp.ListResourceTemplatesResult:
		list.ResourceTemplates = slices.DeleteFunc(list.ResourceTemplates, func(r *mcp.ResourceTemplate) bool {
			return slices.ContainsFunc(s.Mounts, func(m Mount) bool {
				return m.Objects != nil && r.URITemplate == m.objectsPrefix()+"{id}" && !sees(m.Name+"."+m.Objects.Tool)
			})
		})
	case *mcp.ListPromptsResult:
		list.Prompts = slices.DeleteFunc(list.Prompts, func(p *mcp.Prompt) bool {
			return slices.ContainsFunc(s.Prompts, func(ours Prompt) bool { return ours.Name == p.Name && !concerns(ours.Tools, now) })
		})
	}
	return nil
}
