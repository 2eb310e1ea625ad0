package quotas

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of this package.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "quotas", FS: files}
}

const (
	freshFor   = time.Second            // how long an answer of the database is believed
	patience   = 250 * time.Millisecond // for one read
	clockEvery = time.Minute            // how often clocks are compared
	grain      = 250 * time.Millisecond // ends are rounded up to it
	longest    = 48 * time.Hour         // no end is further away than this
	maxKey     = 1024
	maxKnown   = 4096 // keys in memory
)

// Config is what Cooldowns is made of.
type Config struct {
	DB *store.DB // required; opened with Migrations
}

// Cooldowns are shared by all processes on one database. It is safe for
// concurrent use.
type Cooldowns struct {
	db *store.DB

	mu    sync.Mutex // guards all below
	known map[string]entry
	skew  time.Duration // the database's clock minus ours
	asked time.Time     // when skew was measured
}

var _ transport.Cooldowns = (*Cooldowns)(nil)

// An entry is what this process knows of one key, by its own clock.
type entry struct {
	until  time.Time
	read   time.Time // when the database was last asked
	stored bool      // until is in the database
}

// New checks the configuration. It doesn't touch the database.
func New(c Config) (*Cooldowns, error) {
	if c.DB == nil {
		return nil, errors.New("quotas: no database")
	}
	return &Cooldowns{db: c.DB, known: map[string]entry{}}, nil
}

// Until is the end of a cooldown, or a time in the past. An error means that
// the database was asked in vain and nothing is known to run; it comes once a
// second at most for each key.
func (c *Cooldowns) Until(ctx context.Context, key string) (time.Time, error) {
	now := time.Now()
	c.mu.Lock()
	e := c.known[key]
	c.mu.Unlock()
	if now.Sub(e.read).Abs() <= freshFor {
		return e.until, nil
	}
	ends, err := c.load(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.known[key] // someone may have extended it meanwhile
	if ctx.Err() == nil {
		e.read = time.Now()
	}
	if err == nil && ends.After(e.until) {
		e.until, e.stored = ends, true
	}
	c.keep(key, e)
	if err != nil && !e.until.After(now) {
		return time.Time{}, err
	}
	return e.until, nil
}

// Extend makes a cooldown last until a time, or longer if it already does. It
// is durable, and seen by others within a second, when it returns nil. Ends in
// the past are ignored; those more than two days away are cut.
func (c *Cooldowns) Extend(ctx context.Context, key string, until time.Time) error {
	tenant, name, err := split(key)
	if err != nil {
		return err
	}
	now := time.Now()
	if !until.After(now) {
		return nil
	}
	if last := now.Add(longest); until.After(last) {
		until = last
	}
	if rounded := until.Truncate(grain); rounded.Before(until) {
		until = rounded.Add(grain)
	}
	c.mu.Lock()
	e := c.known[key]
	if e.stored && !until.After(e.until) {
		c.mu.Unlock()
		return nil // many refusals at once are one row
	}
	if until.After(e.until) {
		e.until, e.stored = until, false
	}
	c.keep(key, e)
	c.mu.Unlock()

	err = c.db.UpdateFor(ctx, store.Tenant(tenant), func(tx *store.Tx) error {
		there, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		ends := there.Add(time.Until(until)).UnixMilli() + 1
		if _, err := tx.Exec(ctx, `DELETE FROM quota_cooldown WHERE tenant = ? AND ends_at <= ?`, tenant, there.UnixMilli()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO quota_cooldown (tenant, name, ends_at) VALUES (?, ?, ?)
			ON CONFLICT (tenant, name) DO UPDATE SET ends_at = excluded.ends_at
			WHERE quota_cooldown.tenant = excluded.tenant AND quota_cooldown.ends_at < excluded.ends_at`, tenant, name, ends)
		return err
	})
	if err != nil {
		return fmt.Errorf("quotas: keep a cooldown: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[key]; e.until.Equal(until) {
		e.stored = true
		c.known[key] = e
	}
	return nil
}

// Sweep removes expired rows of all tenants and says how many. Nothing is wrong
// between two sweeps.
func (c *Cooldowns) Sweep(ctx context.Context) (int64, error) {
	var removed int64
	err := c.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		removed, err = tx.Exec(ctx, `DELETE FROM quota_cooldown WHERE ends_at <= ?`, now.UnixMilli())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("quotas: sweep: %w", err)
	}
	return removed, nil
}

// load asks the database. No row is the zero time.
func (c *Cooldowns) load(ctx context.Context, key string) (time.Time, error) {
	tenant, name, err := split(key)
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var ends int64
	err = c.db.QueryRowFor(ctx, store.Tenant(tenant), `SELECT ends_at FROM quota_cooldown WHERE tenant = ? AND name = ?`, tenant, name).Scan(&ends)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("quotas: read a cooldown: %w", err)
	}
	skew, err := c.difference(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(ends).Add(-skew), nil
}

// difference is how far the database's clock is ahead of ours.
func (c *Cooldowns) difference(ctx context.Context) (time.Duration, error) {
	c.mu.Lock()
	skew, asked := c.skew, c.asked
	c.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < clockEvery {
		return skew, nil
	}
	err := c.db.View(ctx, func(tx *store.Tx) error {
		there, err := tx.Now(ctx)
		skew = time.Until(there)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("quotas: compare clocks: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew, c.asked = skew, time.Now()
	return skew, nil
}

// keep bounds what is remembered. What is forgotten is read again. The caller
// holds mu.
func (c *Cooldowns) keep(key string, e entry) {
	if _, ok := c.known[key]; !ok && len(c.known) >= maxKnown {
		now := time.Now()
		for k, old := range c.known {
			if !old.until.After(now) {
				delete(c.known, k)
			}
		}
		for k := range c.known {
			if len(c.known) < maxKnown {
				break
			}
			delete(c.known, k)
		}
	}
	c.known[key] = e
}

// split takes the tenant off a key, so that it can stand in every WHERE.
func split(key string) (tenant, name string, err error) {
	tenant, name, ok := strings.Cut(key, "/")
	if !ok || tenant == "" || name == "" || len(key) > maxKey || !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 {
		return "", "", errors.New("quotas: a key is tenant, connection and dimension, joined by slashes")
	}
	return tenant, name, nil
}
