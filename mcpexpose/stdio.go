package mcpexpose

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// ServeStdio serves one client over two streams, in the name of one caller, until
// the input ends or the context does. Nothing but protocol is written to out. There
// is no authorization on this transport: whoever holds the streams is the caller,
// by the host's word.
func (s *Server) ServeStdio(ctx context.Context, caller connector.Caller, in io.ReadCloser, out io.WriteCloser) error {
	tools, err := s.visible(ctx, caller)
	if err != nil {
		return err
	}
	server, err := s.build(tools)
	if err != nil {
		return err
	}
	id := edge.Identity{Caller: caller}
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(edge.WithIdentity(ctx, id), method, req)
		}
	})
	err = server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}
