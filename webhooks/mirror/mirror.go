package mirror

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the mirror's tables. The inbox has its own.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "mirror", FS: files}
}

// The kinds of lanes that Apply takes.
const (
	KindObject    = "object"    // Lane.Object is the object's id
	KindContainer = "container" // Lane.Object is the container; empty: the whole connection
)

// ObjectLane is the lane of one object of a connection.
func ObjectLane(c connector.Connection, id string) inbox.Lane {
	return inbox.Lane{Tenant: string(c.Tenant), Provider: c.Provider, Connection: string(c.ID), Kind: KindObject, Object: id}
}

// ContainerLane is the lane of everything in a container, or in the connection
// when container is empty. Applying it has what is known of it fetched, and the
// connection swept.
func ContainerLane(c connector.Connection, container string) inbox.Lane {
	return inbox.Lane{Tenant: string(c.Tenant), Provider: c.Provider, Connection: string(c.ID), Kind: KindContainer, Object: container}
}

// An Object is what was fetched.
type Object struct {
	ID        string
	Container string // what grants name, such as a project
	Version   string // the provider's, opaque
	// Order grows with the version. Coarse says that two changes in short
	// succession can have the same version and order.
	Order     int64
	Coarse    bool
	UpdatedAt time.Time // by the provider's clock
	// Access names the resources of which a connection has to be granted one to
	// read the object. Empty: Container.
	Access []string
	Data   []byte // sealed at rest
}

// State is what a fetch found. The zero value says nothing and is an error.
type State int

const (
	OK   State = iota + 1 // the object is there
	Gone                  // the provider says that it existed and does no more
	// NoAccess is an object that is absent or hidden, which most providers do
	// not tell apart.
	NoAccess
)

// An Entry is an object in a list.
type Entry struct{ ID, Version string }

// Query asks for one page of a list.
type Query struct {
	Since  time.Time // by the provider's clock; zero: everything
	Cursor string    // the source's own; empty: the first page
}

// A Page is what a list shows at once.
type Page struct {
	Entries []Entry
	Next    string    // empty: this was the last page
	Clock   time.Time // the provider's; zero: unknown, and then polls never get further than the last sweep
}

// A Source reads the provider, with the rights that the connection has at that
// moment. Errors are connector errors. It is safe for concurrent use.
type Source interface {
	// Connection is the connection as it is now, or CONNECTION_REQUIRED.
	Connection(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error)
	// Ended says whether a connection is over for good, disconnected or never there,
	// and returns it with its last authorization version. One that only has to be
	// signed in again has not ended.
	Ended(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, bool, error)
	Fetch(ctx context.Context, c connector.Connection, id string) (Object, State, error)
	// List pages through all objects that the connection sees, of every state.
	List(ctx context.Context, c connector.Connection, q Query) (Page, error)
}

// Config is what a Mirror is made of. Zero durations mean the defaults.
type Config struct {
	DB     *store.DB    // required; opened with Migrations and inbox.Migrations
	Inbox  *inbox.Inbox // required; on the same database
	Source Source       // required
	Sealer inbox.Sealer // required

	PollEvery  time.Duration // 15 minutes
	SweepEvery time.Duration // 24 hours; the longest that a lost event goes unnoticed without polls
	// Overlap is how far behind the provider's clock the checkpoint stays: longer
	// than a change takes there to become visible in lists. 5 minutes.
	Overlap time.Duration
	// KeepTombstones is their least age, and two sweeps besides. 90 days.
	KeepTombstones time.Duration

	// Projection names what Object.Data means, such as a version of the code that
	// makes it. Data of another one is not served, and the next sweep has it
	// fetched again.
	Projection string

	// OnChange runs in the transaction of each change, and may run again when
	// that is repeated. Its error undoes the change. Nil: nothing.
	OnChange func(context.Context, *store.Tx, Change) error
	Log      *slog.Logger // nil: nothing is logged
}

// A Mirror is safe for concurrent use, and several processes may have one each
// on the same database.
type Mirror struct {
	c        Config
	watchers watchers
}

// New makes a mirror.
func New(c Config) (*Mirror, error) {
	switch {
	case c.DB == nil, c.Inbox == nil, c.Source == nil, c.Sealer == nil:
		return nil, errors.New("mirror: config: no database, inbox, source or sealer")
	case c.PollEvery < 0, c.SweepEvery < 0, c.Overlap < 0, c.KeepTombstones < 0:
		return nil, errors.New("mirror: config: a duration is negative")
	}
	for _, d := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&c.PollEvery, 15 * time.Minute}, {&c.SweepEvery, 24 * time.Hour}, {&c.Overlap, 5 * time.Minute}, {&c.KeepTombstones, 90 * 24 * time.Hour}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.OnChange == nil {
		c.OnChange = func(context.Context, *store.Tx, Change) error { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Mirror{c: c}, nil
}

// scope is whose rows a connection's statements may meet.
func scope(c connector.Connection) store.Scope { return store.Tenant(string(c.Tenant)) }

// plain holds for what a TEXT column of both engines takes, and a lane.
func plain(s string) bool {
	return s != "" && len(s) <= 512 && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
