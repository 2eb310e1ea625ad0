package host

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
	"github.com/drawbridge-dev/drawbridge/webhooks/notices"
)

// readTool is whose caller may hear of changes: they could read what changed.
const readTool = "tickets.get"

// Watch tells a caller of changes of the tickets that they may read at a provider,
// whichever process on this database noticed them; after is notices.Now or a
// notice's Seq. Policy, consent and the connection are asked again for each, and a
// watch of a connection that was cut ends. It fails with CONFLICT when changes of
// the connection are not followed (see Follow), because it would never say anything.
func (h *Host) Watch(ctx context.Context, caller connector.Caller, provider string, after int64) (*notices.Watcher, error) {
	authorize := func(ctx context.Context) (connector.Connection, error) { return h.reader(ctx, caller, provider) }
	c, err := authorize(ctx)
	if err != nil {
		return nil, err
	}
	caller.Connection = c.ID // the same one from now on
	v, err := h.Mirror.Coverage(ctx, c)
	if err != nil {
		return nil, err
	}
	if v.State == mirror.None || v.State == mirror.Forgotten {
		return nil, connector.Fail(connector.CodeConflict, "changes of this connection are not followed")
	}
	return h.notices.Watch(ctx, authorize, after)
}

// reader is the connection under which a caller may read tickets now.
func (h *Host) reader(ctx context.Context, caller connector.Caller, provider string) (connector.Connection, error) {
	r, ok := h.runtimes[provider]
	if !ok {
		return connector.Connection{}, connector.Fail(connector.CodeConnectionRequired, "the provider is not set up here")
	}
	tools, err := r.Tools(ctx, caller)
	if err != nil {
		return connector.Connection{}, err
	}
	for _, t := range tools {
		if t.Name == readTool {
			return h.Credentials.Resolve(ctx, caller, provider, t.Scopes)
		}
	}
	return connector.Connection{}, connector.Fail(connector.CodePermissionDenied, "")
}
