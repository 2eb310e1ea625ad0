package mcpexpose

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// guard stands around every method of the SDK's server. The identity is the one of
// this request: the context of a session in the older era is that of its first
// request. A panic or a missing result would end the process, and an error that is
// not the protocol's own would show its text to the client.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.Logger.Error("panic", "method", method, "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
				result, err = nil, internal()
			}
		}()
		if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
			id, ok := extra.TokenInfo.Extra[tokenIdentity].(edge.Identity)
			if !ok {
				return nil, internal()
			}
			ctx = edge.WithIdentity(ctx, id)
		}
		result, err = next(ctx, method, req)
		if err == nil {
			if missing(result) && wantsResult(method) {
				s.Logger.Error("a handler returned nothing", "method", method)
				return nil, internal()
			}
			err = s.withdraw(ctx, result)
		}
		if err == nil {
			return result, nil
		}
		var known *jsonrpc.Error
		if errors.As(err, &known) {
			return nil, known
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.Logger.Error("request failed", "method", method, "err", err)
		return nil, internal()
	}
}

func internal() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "an unexpected fault; the operator's log has it"}
}

func missing(r mcp.Result) bool {
	if r == nil {
		return true
	}
	v := reflect.ValueOf(r)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// wantsResult: notifications have none.
func wantsResult(method string) bool {
	return !strings.HasPrefix(method, "notifications/")
}

func unknownPrompt(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt %q", name)}
}

func missingArgument(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the argument %q is missing", name)}
}
