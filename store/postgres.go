package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func openPostgres(ctx context.Context, c Config) (*DB, error) {
	config, err := pgx.ParseConfig(c.URL)
	if err != nil {
		// The parser's error quotes the URL, so it goes no further.
		return nil, errors.New("malformed postgresql url")
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "drawbridge"
	}
	pool := sql.OpenDB(scopedConnector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(requireDurableCommits))})
	conns := c.MaxConns
	if conns == 0 {
		conns = 10
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)

	db := &DB{engine: PostgreSQL, read: pool, write: pool}
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if len(c.Migrations) > 0 {
		if err := migratePostgres(ctx, db, *config, c.Migrations); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// requireDurableCommits overrules a server or role that acknowledges commits
// before they are on disk, and leaves stronger settings alone.
func requireDurableCommits(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")
	return err
}

// migratePostgres holds a lock of this schema while it migrates. The lock
// belongs to a transaction, not a session, so it also works through a pooler
// that hands out a server connection per transaction.
func migratePostgres(ctx context.Context, db *DB, config pgx.ConnConfig, sets []Migrations) error {
	// The migrations need a connection beside the one that holds the lock,
	// whatever the caller's limit is.
	own := stdlib.OpenDB(config, stdlib.OptionAfterConnect(requireDurableCommits))
	defer own.Close()
	lock, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer lock.Rollback() // frees the lock; nothing was written
	if _, err := lock.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('drawbridge migrations of ' || coalesce(current_schema(), ''), 0))"); err != nil {
		return fmt.Errorf("wait for another process that migrates: %w", err)
	}
	return migrate(ctx, PostgreSQL, own, sets)
}
