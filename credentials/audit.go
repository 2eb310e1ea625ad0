package credentials

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// system is the actor of what happens without a person.
const system = "system"

// event is one row of the audit table: ids, closed codes and versions.
type event struct {
	actor      string
	action     string
	connection connector.ConnectionID
	result     string
	from, to   int64 // token versions
}

// audit writes in the transaction of the change itself, so that there is no
// change without a record and no record without a change.
func audit(ctx context.Context, tx *store.Tx, at time.Time, tenant connector.TenantID, e event) error {
	_, err := tx.Exec(ctx, `INSERT INTO cred_audit (tenant_id, id, at, actor, action, connection_id, result, from_version, to_version)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		string(tenant), rand.Text(), millis(at), e.actor, e.action, string(e.connection), e.result, e.from, e.to)
	return err
}
