package store

import (
	"context"
	"database/sql/driver"
	"encoding/hex"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// beginKey is the context's key for the text that begins a transaction: a scope
// travels with BEGIN and costs no round trip of its own. database/sql has no
// other way to hand the driver more than an isolation level.
type beginKey struct{}

func (s Scope) beginWith(ctx context.Context, begin string) context.Context {
	// Hex digits need no quoting, whatever the server's settings are.
	return context.WithValue(ctx, beginKey{}, begin+"; SELECT set_config('drawbridge.scope', convert_from(decode('"+
		hex.EncodeToString([]byte(s.setting))+"', 'hex'), 'UTF8'), true)")
}

// scopedConnector makes the connections of PostgreSQL's pool.
type scopedConnector struct{ driver.Connector }

func (c scopedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return scopedConn{conn.(*stdlib.Conn)}, nil
}

type scopedConn struct{ *stdlib.Conn }

func (c scopedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	begin, ok := ctx.Value(beginKey{}).(string)
	if !ok {
		return c.Conn.BeginTx(ctx, opts)
	}
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	tx, err := c.Conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		c.Conn.Close() // a scope that is no text fails within the transaction
		return nil, err
	}
	return scopedTx{ctx, tx}, nil
}

type scopedTx struct {
	ctx context.Context // database/sql's Commit has none
	tx  pgx.Tx
}

func (t scopedTx) Commit() error   { return t.tx.Commit(t.ctx) }
func (t scopedTx) Rollback() error { return t.tx.Rollback(t.ctx) }
