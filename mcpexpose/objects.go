package mcpexpose

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// Objects are what a mount shows as resources, at drawbridge://KIND/MOUNT/ID: each is
// what one operation answers when it is called with the id.
type Objects struct {
	Kind     string // in the address, such as "tickets"
	Tool     string // an operation that reads
	Argument string // of it, which takes the id
	// Watch tells a caller of changes of what they may read, from now on, or fails as
	// a call would. Nil: nobody can subscribe.
	Watch func(context.Context, connector.Caller) (Watcher, error)
}

func (m Mount) objectsPrefix() string { return "drawbridge://" + m.Objects.Kind + "/" + m.Name + "/" }

// objectAt finds the object at an address. Only one spelling of an id is an address.
func (s *Server) objectAt(uri string) (m Mount, id string, ok bool) {
	for _, m := range s.Mounts {
		if m.Objects == nil {
			continue
		}
		if raw, ours := strings.CutPrefix(uri, m.objectsPrefix()); ours {
			id, err := url.PathUnescape(raw)
			return m, id, err == nil && id != "" && escape(id) == raw
		}
	}
	return Mount{}, "", false
}

// escape writes an id as the template's expansion does (RFC 6570 section 3.2.2).
func escape(id string) string { return strings.ReplaceAll(url.QueryEscape(id), "+", "%20") }

// addObjects registers the addresses of what the tools of a set read.
func (s *Server) addObjects(server *mcp.Server, tools []shown) {
	for _, t := range tools {
		if o := t.mount.Objects; o != nil && o.Tool == t.def.Name {
			server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: t.mount.objectsPrefix() + "{id}", Name: t.mount.Name + " " + o.Kind,
				MIMEType: "application/json", Title: "One of the " + o.Kind + " of " + t.mount.Name, Description: "What " + t.name() + " answers for the id."},
				func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					id, ok := edge.IdentityFrom(ctx)
					if !ok {
						return nil, errNoIdentity
					}
					return s.readObject(ctx, id, req.Params.URI)
				})
		}
	}
}

// readObject calls the mount's operation, with all that a call passes through. What
// is absent, hidden or of an operation that is not for this caller is not found, all
// alike.
func (s *Server) readObject(ctx context.Context, id edge.Identity, uri string) (*mcp.ReadResourceResult, error) {
	m, object, ok := s.objectAt(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	arguments, err := json.Marshal(map[string]string{m.Objects.Argument: object})
	if err != nil {
		return nil, err
	}
	r := s.execute(ctx, id, shown{mount: m}, connector.Call{Tool: m.Objects.Tool, Arguments: arguments}, "")
	if r.Error != nil {
		return nil, failed(uri, *r.Error)
	}
	if len(r.Data) > s.InlineBytes {
		return nil, failed(uri, *s.tooLarge(r).Error)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "application/json", Text: spell(string(r.Data))}}}, nil
}

// spell writes every character of a JSON document that hides or is obeyed as JSON's
// own escape, which leaves it the same document.
func spell(document string) string {
	if strings.IndexFunc(document, hides) < 0 {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if !hides(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}

// failed is a result's error as the protocol's own: a resource has no other.
func failed(uri string, e connector.ErrorReport) error {
	switch e.Code {
	case connector.CodeNotFound, connector.CodeGone, connector.CodeInvalidInput, connector.CodeUnknownTool, connector.CodePermissionDenied, connector.CodeConsentRequired:
		return mcp.ResourceNotFoundError(uri)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Code.String() + ": " + e.Message, Data: raw}
}

// coded is a refusal of our own.
func coded(code connector.Code, text string) error {
	return failed("", connector.Fail(code, "%s", text).Report())
}
