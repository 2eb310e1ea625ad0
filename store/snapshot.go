package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// Snapshot writes the whole SQLite database, as of one moment, into a new file that
// only the owner can read, beside running transactions. The file is on disk when it
// returns nil, and is removed otherwise. PostgreSQL has its own tools for that, and
// fails with errors.ErrUnsupported.
func (db *DB) Snapshot(ctx context.Context, path string) (err error) {
	if db.engine != SQLite {
		return fmt.Errorf("store: a snapshot of %s: %w", db.engine, errors.ErrUnsupported)
	}
	var file string
	if err := db.read.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file); err != nil {
		return fmt.Errorf("store: snapshot: %w", clean(err))
	}
	// Made here, since SQLite would use the umask.
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, copied.Close()); err != nil {
			os.Remove(path)
		}
	}()
	// A connection of its own: readers may not even write elsewhere, and the writer
	// has others waiting for it.
	source, err := sql.Open("sqlite", sqliteDSN(file, sqliteOptions+"&mode=ro"))
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := source.ExecContext(ctx, `VACUUM INTO ?`, path); err != nil {
		return fmt.Errorf("store: snapshot: %w", clean(err))
	}
	return copied.Sync()
}
