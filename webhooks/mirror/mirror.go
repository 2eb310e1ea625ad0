package mirror

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the mirror's tables.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "mirror", FS: files}
}

// A Source reads at the providers with the rights of one connection, as they are
// when it is asked. It must be safe for concurrent use; its errors are judged by
// their connector.Code.
type Source interface {
	// Fetch reads the object of a lane of KindObject.
	Fetch(ctx context.Context, l inbox.Lane) (Object, State, error)
	// List reads one page of the ids that the connection sees.
	List(ctx context.Context, c connector.Connection, q Query) (Page, error)
}

// State is what became of an object.
type State int64

const (
	OK State = iota
	// Gone is deleted, by the provider's own word.
	Gone
	// NoAccess is hidden from the connection, or absent: most providers answer
	// both alike.
	NoAccess
)

// An Object is what a fetch found.
type Object struct {
	ID        string
	Container string // the resource that grants name
	Version   string // opaque; another version is another state
	// Order never shrinks while the object changes. With Coarse two changes in
	// short succession can have the same Order and Version.
	Order     int64
	Coarse    bool
	UpdatedAt time.Time // by the provider's clock
	// Access names the resources of which a connection has to be granted one to
	// read the object. Empty: Container.
	Access []string
	Data   json.RawMessage
	Authz  int64 // the authorization version that it was fetched under
}

// Query is one page of a list.
type Query struct {
	Since  time.Time // what changed at or after it, by the provider's clock, is enough; zero: everything
	Cursor string    // empty on the first page, then Page.Next
}

// Page is one page of a list.
type Page struct {
	Entries []Entry
	Next    string // empty: this was the last page
	// Clock is the provider's own time of this page; zero: it did not say, and
	// then no poll can be made after this list.
	Clock time.Time
	Authz int64 // the authorization version that it was listed under
}

// Entry is an object by its ids alone.
type Entry struct{ ID, Version string }

// A Sealer encrypts data at rest and binds it to its row. *keys.Ring is one.
type Sealer interface {
	Seal(plaintext, context []byte) ([]byte, error)
	Open(ciphertext, context []byte) ([]byte, error)
}

// Kinds of lanes that Apply takes.
const (
	KindObject = "object"
	// KindContainer is for what concerns a whole container, such as a change of
	// its access list. An empty object means all that the connection sees.
	KindContainer = "container"
)

// ObjectLane is the lane of an object.
func ObjectLane(c connector.Connection, id string) inbox.Lane {
	return inbox.Lane{Tenant: string(c.Tenant), Provider: c.Provider, Connection: string(c.ID), Kind: KindObject, Object: id}
}

// ContainerLane is the lane of a container.
func ContainerLane(c connector.Connection, id string) inbox.Lane {
	return inbox.Lane{Tenant: string(c.Tenant), Provider: c.Provider, Connection: string(c.ID), Kind: KindContainer, Object: id}
}

// Config is what a Mirror is made of. Zero durations mean the defaults.
type Config struct {
	DB     *store.DB    // required; opened with Migrations and inbox.Migrations
	Inbox  *inbox.Inbox // required; on the same database
	Sealer Sealer       // required
	Source Source       // required

	// OnChange is called in the transaction of each change, for what has to
	// change with it, such as the versions of caches and authorizations. Its
	// error undoes the transaction, which is tried again later. Nil: nobody.
	OnChange func(context.Context, *store.Tx, Change) error

	PollEvery  time.Duration // zero means 15 minutes
	SweepEvery time.Duration // zero means 24 hours
	// Overlap is how far a poll goes back behind the last one. It must exceed the
	// time that a change takes to show up in the provider's lists. Zero means 5
	// minutes.
	Overlap time.Duration
	// KeepTombstones is how long it is known that an object was here once; never
	// shorter than two sweeps. Zero means 90 days.
	KeepTombstones time.Duration

	Log *slog.Logger // nil: nothing is logged
}

// A Mirror is the objects of one database. It is safe for concurrent use, and
// several processes may have one each on the same database.
type Mirror struct {
	c        Config
	watchers watchers
}

// New makes a mirror.
func New(c Config) (*Mirror, error) {
	switch {
	case c.DB == nil, c.Inbox == nil, c.Sealer == nil, c.Source == nil:
		return nil, errors.New("mirror: config: no database, inbox, sealer or source")
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

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// millis is zero for a time that is not known.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
