package mcpexpose

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// shown is one tool that a caller may see.
type shown struct {
	mount Mount
	def   connector.Definition
}

func (t shown) name() string { return t.mount.Name + "." + t.def.Name }

// visible lists what a caller may see, in the order of mounts and names. A gate
// that can't be asked is an error and no list.
func (s *Server) visible(ctx context.Context, caller connector.Caller) ([]shown, error) {
	var all []shown
	for _, m := range s.Mounts {
		defs, err := m.Runtime.Tools(ctx, caller)
		if err != nil {
			return nil, err
		}
		for _, d := range defs {
			all = append(all, shown{m, d})
		}
	}
	return all, nil
}

// serverFor is the SDK's server for the tools that a caller may see now.
func (s *Server) serverFor(ctx context.Context, caller connector.Caller) (*mcp.Server, error) {
	tools, err := s.visible(ctx, caller)
	if err != nil {
		return nil, err
	}
	return s.sets.get(fingerprint(tools), func() (*mcp.Server, error) { return s.build(tools) })
}

// fingerprint names a set of tools by everything that listing them shows. Every
// name stands between marks that no name can hold.
func fingerprint(tools []shown) string {
	h := sha256.New()
	for _, t := range tools {
		for _, part := range []string{t.name(), t.def.Connector, t.def.Version, t.def.Deprecated, strings.Join(t.def.Limitations, "\x01")} {
			h.Write([]byte(part))
			h.Write([]byte{0})
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sets keeps the servers that were used last. A server that is dropped serves the
// requests that hold it to their end.
type sets struct {
	mu    sync.Mutex
	limit int
	byKey map[string]*list.Element
	order *list.List // of set, the most recently used in front
}

type set struct {
	key    string
	server *mcp.Server
}

func newSets(limit int) *sets {
	return &sets{limit: limit, byKey: map[string]*list.Element{}, order: list.New()}
}

func (c *sets) get(key string, build func() (*mcp.Server, error)) (*mcp.Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.order.MoveToFront(e)
		return e.Value.(set).server, nil
	}
	server, err := build()
	if err != nil {
		return nil, err
	}
	c.byKey[key] = c.order.PushFront(set{key, server})
	for c.order.Len() > c.limit {
		last := c.order.Back()
		delete(c.byKey, c.order.Remove(last).(set).key)
	}
	return server, nil
}

// Effect says what a tool may do, if this caller may see it now. It is for the edge's
// scope challenges, which must not tell a hidden tool from one that isn't there.
func (s *Server) Effect(ctx context.Context, caller connector.Caller, tool string) (connector.Effect, bool) {
	t, ok, _ := s.see(ctx, caller, tool) // after an error the list behind the edge fails as well, and says so
	return t.def.Effect, ok
}

// see finds a tool among those that a caller may see now.
func (s *Server) see(ctx context.Context, caller connector.Caller, tool string) (shown, bool, error) {
	tools, err := s.visible(ctx, caller)
	for _, t := range tools {
		if t.name() == tool {
			return t, true, err
		}
	}
	return shown{}, false, err
}
