package inbox

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the inbox's tables.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "inbox", FS: files}
}

// A Sealer encrypts bodies at rest and binds them to their row. *keys.Ring is
// one.
type Sealer interface {
	Seal(plaintext, context []byte) ([]byte, error)
	Open(ciphertext, context []byte) ([]byte, error)
}

// Config is what an Inbox is made of. Zero numbers mean the defaults.
type Config struct {
	DB     *store.DB // required; opened with Migrations
	Sealer Sealer    // required

	// PerConnection is how many lanes of one connection are leased at once, by
	// all processes together: the budget of fetches from its provider. Zero
	// means 4.
	PerConnection int

	// Lease is how long a lane belongs to a process that claimed it and went
	// silent, so it is also how long a crash delays what was being applied. A
	// worker renews its leases at a third of it. Zero means 30 seconds.
	Lease time.Duration

	// KeepBodies is how long a body stays after its delivery was received, so
	// that it can be replayed; that of a quarantined one stays as long as its
	// record. Zero means 72 hours.
	KeepBodies time.Duration

	// KeepRecords is how long a delivery id is known and a repeat of it is
	// noticed. It must exceed the time in which senders repeat. Zero means 30
	// days.
	KeepRecords time.Duration

	// Reason gives a failure of Apply a short code for operators, such as an
	// error code's name. Nil means that every failure is "failed".
	Reason func(error) string
}

// An Inbox is the deliveries and lanes of one database. It is safe for
// concurrent use, and several processes may have one each on the same database.
type Inbox struct {
	db            *store.DB
	sealer        Sealer
	perConnection int
	keepBodies    time.Duration
	keepRecords   time.Duration
	reason        func(error) string
	lease         time.Duration

	arrivals chan struct{} // a delivery of this process waits to be decoded
	dirty    chan struct{} // this process made a lane dirty
	batch    batcher
	skew     time.Duration // tests move the clock with it
}

// New makes an inbox.
func New(c Config) (*Inbox, error) {
	switch {
	case c.DB == nil:
		return nil, errors.New("inbox: config: no database")
	case c.Sealer == nil:
		return nil, errors.New("inbox: config: no sealer")
	case c.PerConnection < 0, c.Lease < 0, c.KeepBodies < 0, c.KeepRecords < 0:
		return nil, errors.New("inbox: config: a number is negative")
	}
	b := &Inbox{db: c.DB, sealer: c.Sealer, perConnection: c.PerConnection, keepBodies: c.KeepBodies,
		keepRecords: c.KeepRecords, reason: c.Reason, lease: c.Lease, arrivals: make(chan struct{}, 1), dirty: make(chan struct{}, 1)}
	if b.reason == nil {
		b.reason = func(error) string { return "failed" }
	}
	if b.perConnection == 0 {
		b.perConnection = 4
	}
	if b.lease == 0 {
		b.lease = 30 * time.Second
	}
	if b.keepBodies == 0 {
		b.keepBodies = 72 * time.Hour
	}
	if b.keepRecords == 0 {
		b.keepRecords = 30 * 24 * time.Hour
	}
	return b, nil
}

func (b *Inbox) now(ctx context.Context, tx *store.Tx) (time.Time, error) {
	now, err := tx.Now(ctx)
	return now.Add(b.skew), err
}

// poke wakes who waits on a channel of capacity one, now or at its next wait.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// clip makes a reason that a column takes. Reasons are ours and short; a cause
// of somebody else's making is never stored.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	return s[:min(len(s), 100)]
}
