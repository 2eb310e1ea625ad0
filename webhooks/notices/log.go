package notices

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the table of notices.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "notices", FS: files}
}

// Config is what a Log is made of.
type Config struct {
	DB *store.DB // required; opened with Migrations
	// Mirror wakes watchers of what this process changes. Required.
	Mirror *mirror.Mirror
	// PollEvery is how long a change of another process takes to be noticed. Zero: 2
	// seconds.
	PollEvery time.Duration
	// Keep is how far, in changes of its connection, a watcher may be behind. Zero:
	// 4096.
	Keep int64
}

// A Log is safe for concurrent use, and several processes may have one each on the
// same database.
type Log struct{ c Config }

// New makes a log. Record has to be called for every change from then on.
func New(c Config) (*Log, error) {
	switch {
	case c.DB == nil, c.Mirror == nil:
		return nil, errors.New("notices: config: no database or mirror")
	case c.PollEvery < 0, c.Keep < 0:
		return nil, errors.New("notices: config: a number is negative")
	}
	if c.PollEvery == 0 {
		c.PollEvery = 2 * time.Second
	}
	if c.Keep == 0 {
		c.Keep = 4096
	}
	return &Log{c}, nil
}

// Record keeps a change, in its own transaction; it is for mirror.Config.OnChange.
// It drops what is older than anybody may be behind.
func (l *Log) Record(ctx context.Context, tx *store.Tx, c mirror.Change) error {
	oldest := c.Seq - l.c.Keep
	if c.Type == mirror.Removed && c.ID == "" {
		oldest = c.Seq // the connection is over, and so are the names of what it had
	}
	if _, err := tx.Exec(ctx, `DELETE FROM notice WHERE tenant = ? AND connection = ? AND seq <= ?`, c.Tenant, c.Connection, oldest); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO notice (tenant, connection, seq, type, container, object) VALUES (?, ?, ?, ?, ?, ?)`,
		c.Tenant, c.Connection, c.Seq, c.Type, c.Container, c.ID)
	return err
}

// page is how many rows a watcher holds.
const page = 256

// read returns what came after a position and where that ends. Lost says that
// something came that is not kept any more.
func (l *Log) read(ctx context.Context, tenant, connection string, after int64) (found []Notice, end int64, lost bool, err error) {
	err = l.c.DB.ViewFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
		found, lost = nil, false
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM notice WHERE tenant = ? AND connection = ?`, tenant, connection).Scan(&end); err != nil {
			return err
		}
		// A sequence that went back is one of a database that was restored.
		if end == after || end < after || end-after > l.c.Keep {
			lost = end != after
			return nil
		}
		rows, err := tx.Query(ctx, `SELECT seq, type, container, object FROM notice WHERE tenant = ? AND connection = ? AND seq > ? ORDER BY seq LIMIT ?`,
			tenant, connection, after, page)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n Notice
			if err := rows.Scan(&n.Seq, &n.Type, &n.Container, &n.ID); err != nil {
				return err
			}
			found = append(found, n)
		}
		return rows.Err()
	})
	return found, end, lost, err
}
