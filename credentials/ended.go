package credentials

import (
	"context"
	"database/sql"
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Ended says whether a connection is over for good: disconnected, or not there.
// One that has to be made again by a person has not ended. The connection is
// returned as it was left, with its ids alone when it is not there. It is for
// those who keep something for a connection.
func (s *Service) Ended(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, bool, error) {
	absent := connector.Connection{Tenant: tenant, ID: id}
	if !storable(string(id)) {
		return absent, true, nil
	}
	var v View
	err := scanConnection(s.db.QueryRowFor(ctx, scope(tenant), `SELECT `+connectionColumns+` FROM cred_connections
		WHERE tenant_id = ? AND id = ?`, string(tenant), string(id)), tenant, &v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return absent, true, nil
	case err != nil:
		return connector.Connection{}, false, storage(err)
	}
	return v.Connection, v.Status == StatusDisconnecting || v.Status == StatusDisconnected, nil
}
