package credentials

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations are the tables of this package.
func Migrations() store.Migrations {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "credentials", FS: sub}
}

// Config says what a Service works with.
type Config struct {
	DB        *store.DB  // required, migrated
	Keys      *keys.Ring // required
	Exchanger Exchanger  // required
	Providers []Provider
	// OnChange runs in the transaction that bumps a connection's authorization
	// version, for services that must let go of something in the same instant
	// (approvals). Nil: nothing. Its error rolls the change back.
	OnChange func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error
	// Logger gets ids, codes and counts. Nil discards.
	Logger *slog.Logger

	// HTTPTimeout is for one whole exchange with a token endpoint, Lease how
	// long one process may hold the right to refresh, Guard the distance kept
	// between the two; HTTPTimeout + Guard must be less than Lease. Zero means
	// 10 s, 30 s and 5 s.
	HTTPTimeout, Lease, Guard time.Duration
	// RetryBase and RetryCap bound the wait after a failed exchange.
	// Zero means 1 s and 5 min.
	RetryBase, RetryCap time.Duration
	// TransactionTTL is how long a person has at the provider. Zero means 10 min.
	TransactionTTL time.Duration
	// CleanupDelay is when a grant that was received but not stored (a crash in
	// between) is given back. Zero means 15 min.
	CleanupDelay time.Duration
	// Keep is how long what is over is kept before Prune lets it go. Zero means
	// 90 days; less than a day is refused.
	Keep time.Duration
}

func (c *Config) complete() error {
	switch {
	case c.DB == nil:
		return errors.New("credentials: no database")
	case c.Keys == nil:
		return errors.New("credentials: no key ring")
	case c.Exchanger == nil:
		return errors.New("credentials: no exchanger")
	}
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&c.HTTPTimeout, 10 * time.Second}, {&c.Lease, 30 * time.Second}, {&c.Guard, 5 * time.Second},
		{&c.RetryBase, time.Second}, {&c.RetryCap, 5 * time.Minute},
		{&c.TransactionTTL, 10 * time.Minute}, {&c.CleanupDelay, 15 * time.Minute},
		{&c.Keep, 90 * 24 * time.Hour},
	} {
		if *d.value < 0 {
			return errors.New("credentials: negative duration")
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	// Shorter, it would cut into limits that count what was, and into what a
	// person comes back to see.
	if c.Keep < 24*time.Hour {
		return errors.New("credentials: what is over must be kept for a day at least")
	}
	// A holder that can still be waiting for the provider when its lease ends
	// would let a second one send the same refresh token: measured, every
	// grant dies of it.
	if c.HTTPTimeout+c.Guard >= c.Lease {
		return errors.New("credentials: the lease must be longer than HTTP timeout and guard together")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Service keeps connections. It is safe for concurrent use, and any number of
// them, in any number of processes, may share a database.
type Service struct {
	cfg       Config
	db        *store.DB
	log       *slog.Logger
	providers map[string]*Provider
	owner     string // names this Service in leases

	flights  singleflight.Group
	meta     discovered
	clock    clock
	circuits circuits
	claimed  func() // nil, or where a test holds a process up between claim and send

	base context.Context // ends with Close
	stop context.CancelFunc

	mu          sync.Mutex
	closed      bool
	running     sync.WaitGroup // flights; Add only under mu and before closed
	unsealed    map[recordKey]unsealed
	uses        map[recordKey]use
	provisional map[connector.ConnectionID]provisional
}

// New checks the configuration. Close the Service when it is no longer needed.
func New(c Config) (*Service, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := &Service{
		cfg: c, db: c.DB, log: c.Logger, owner: rand.Text(),
		providers:   make(map[string]*Provider),
		unsealed:    make(map[recordKey]unsealed),
		uses:        make(map[recordKey]use),
		provisional: make(map[connector.ConnectionID]provisional),
	}
	s.clock.db = c.DB
	s.circuits = circuits{bad: make(map[clientKey]*circuit), base: s.backoff}
	s.meta.found = make(map[string]found)
	for _, p := range c.Providers {
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		if s.providers[p.ID] != nil {
			return nil, fmt.Errorf("credentials: two providers with id %s", p.ID)
		}
		s.providers[p.ID] = &p
	}
	s.base, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// closePatience is for what is nice to have on disk when a Service ends.
const closePatience = 2 * time.Second

// Close ends what has not been sent yet and waits for the rest: an exchange
// that is under way comes to its end (HTTPTimeout at most), and its answer is
// stored, or tried once more to be stored. Close the transport after it.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := s.NoteUses(ctx); err != nil {
		s.log.Warn("last uses of connections were not written", "err", err)
	}
	s.mu.Lock()
	s.unsealed = nil // keep adds nothing after closed
	s.mu.Unlock()
}

// enter registers work that Close waits for. It answers false after Close.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// clock tells the database's time without asking it each time: replicas must
// agree on when a token expires, whatever their own clocks say.
type clock struct {
	db *store.DB

	mu    sync.Mutex
	asked time.Time // with its monotonic part
	told  time.Time
}

const clockTrust = time.Minute

func (c *clock) now(ctx context.Context) (time.Time, error) {
	if c.db.Engine() == store.SQLite {
		return time.Now().UTC(), nil // the same clock, and nothing to ask
	}
	c.mu.Lock()
	asked, told := c.asked, c.told
	c.mu.Unlock()
	if since := time.Since(asked); !asked.IsZero() && since < clockTrust {
		return told.Add(since), nil
	}
	before := time.Now()
	at, err := c.db.Now(ctx)
	if err != nil {
		return time.Time{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked, c.told = before, at
	return at.Add(time.Since(before)), nil
}

// scope is the second wall around a tenant's rows; see store.Scope.
func scope(tenant connector.TenantID) store.Scope { return store.Tenant(string(tenant)) }

func millis(t time.Time) int64 { return t.UnixMilli() }

// fromMillis is the zero time for 0, which the tables use for "none".
func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
