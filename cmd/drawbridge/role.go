package main

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/store"
)

// warnOfRole says when the database's second wall between tenants does not stand:
// PostgreSQL applies row-level security to nobody who may bypass it.
func (a *app) warnOfRole(ctx context.Context, db *store.DB) error {
	passes, err := bypassesRows(ctx, db)
	if passes {
		a.logger.Warn("the database role is a superuser or has BYPASSRLS: row-level security between tenants is not in force; docs/serving.md says which role to use")
	}
	return err
}

func bypassesRows(ctx context.Context, db *store.DB) (passes bool, err error) {
	if db.Engine() != store.PostgreSQL {
		return false, nil // one file, one owner
	}
	err = db.QueryRow(ctx, `SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user`).Scan(&passes)
	return passes, err
}
