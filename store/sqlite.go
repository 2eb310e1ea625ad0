package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver named "sqlite"
)

// Options of every connection. FULL makes each commit reach the disk: NORMAL
// can lose the last ones on power loss, for example a rotated refresh token
// whose predecessor is already dead. _dqs=0 turns a mistyped "name" into an
// error as on PostgreSQL, instead of a string literal.
// temp_store(2) keeps large sorts in memory: a process that serves may have no
// folder for temporary files.
const sqliteOptions = "_defensive=1&_dqs=0&_error_rc=1&_busy_timeout=8000&_foreign_keys=1&_synchronous=FULL&_pragma=trusted_schema(0)&_pragma=temp_store(2)"

// Readers look at up to a gigabyte of the file through memory instead of copying
// pages: with a million rows a lookup takes 1.15 times as long as with a thousand,
// without it 1.4 times. A disk that can't deliver a page then ends the process
// instead of failing the read; the writer, whose commits must be told apart from
// failures, reads without it.
const sqliteReaders = sqliteOptions + "&_query_only=1&_pragma=mmap_size(1073741824)"

func openSQLite(ctx context.Context, c Config) (*DB, error) {
	path, err := sqlitePath(c.URL)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	// Created here and not by SQLite, which would use the umask. SQLite gives
	// its log files the mode of the database file.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}

	unlock, err := lockSQLite(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()

	write, err := sql.Open("sqlite", sqliteDSN(path, sqliteOptions+"&_txlock=immediate"))
	if err != nil {
		return nil, err
	}
	// One connection: writers of this process queue in order of arrival in
	// the pool, instead of polling for SQLite's lock.
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)

	var mode string
	if err := write.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	if mode != "wal" {
		return nil, errors.Join(fmt.Errorf("no write-ahead log (journal mode %s): the file must be on a local disk", mode), write.Close())
	}
	if err := migrate(ctx, SQLite, write, c.Migrations); err != nil {
		return nil, errors.Join(err, write.Close())
	}

	read, err := sql.Open("sqlite", sqliteDSN(path, sqliteReaders))
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	readers := c.MaxConns
	if readers == 0 {
		readers = 8
	}
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)

	db := &DB{engine: SQLite, read: read, write: write, group: newGroup()}
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func sqlitePath(raw string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(raw, "sqlite:"), "//")
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return "", errors.New("sqlite url names no file")
	case strings.Contains(path, ":memory:"):
		return "", errors.New("a database in memory is not durable, give a file")
	case path != raw && strings.Contains(path, "?"):
		return "", errors.New("sqlite url takes no options")
	}
	return filepath.Abs(path)
}

// sqliteDSN escapes the path, so that no character of a folder's name can be
// read as an option.
func sqliteDSN(path, options string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	return "file://" + (&url.URL{Path: slashed}).EscapedPath() + "?" + options
}

// lockSQLite lets one process at a time create, convert and migrate the file.
// SQLite's own lock covers a transaction, but turning on the log and the
// migration tool's look at the version happen outside one. A second, always
// empty SQLite file is used as the lock because it is freed when its holder
// dies, on every system Go runs on.
func lockSQLite(ctx context.Context, path string) (unlock func(), err error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	lock, err := sql.Open("sqlite", sqliteDSN(name, "_busy_timeout=600000&_txlock=exclusive"))
	if err != nil {
		return nil, err
	}
	tx, err := lock.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another process that migrates: %w", err), lock.Close())
	}
	return func() {
		tx.Rollback() // frees the lock; nothing was written
		lock.Close()
	}, nil
}
