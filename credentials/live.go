package credentials

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Live is a connection by its id, whoever's it is: for background work that acts in
// its owner's name, such as a fetch that an event announced. It fails with
// CONNECTION_REQUIRED when the connection is not there or gives no credential.
func (s *Service) Live(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error) {
	if !storable(string(id)) {
		return connector.Connection{}, notConnected()
	}
	var v View
	err := scanConnection(s.db.QueryRowFor(ctx, scope(tenant), `SELECT `+connectionColumns+` FROM cred_connections
		WHERE tenant_id = ? AND id = ? AND status NOT IN ('disconnecting', 'disconnected')`, string(tenant), string(id)), tenant, &v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return connector.Connection{}, notConnected()
	case err != nil:
		return connector.Connection{}, storage(err)
	case !v.Status.Usable():
		return connector.Connection{}, reconnect(v.Reason)
	}
	return v.Connection, nil
}
