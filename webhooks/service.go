package webhooks

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of the endpoints. The inbox has its own.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "webhooks", FS: files}
}

// A Decoder turns a delivery of one provider into the lanes that it concerns.
// The connection is the one that the endpoint belongs to, alive just now; what
// lies outside its Resources is refused with *inbox.Ignored{Reason:
// "out_of_scope"}. It is pure, as inbox.Decoder is.
type Decoder func(connector.Connection, inbox.Delivery) ([]inbox.Mark, error)

// Config is what a Service is made of. Zero numbers mean the defaults.
type Config struct {
	DB    *store.DB    // required; opened with Migrations and inbox.Migrations
	Keys  *keys.Ring   // required
	Inbox *inbox.Inbox // required; on the same database

	// Connection finds the connection of an endpoint, whoever it belongs to,
	// and fails with CONNECTION_REQUIRED or NOT_FOUND when it is not there or
	// not alive. Required.
	Connection func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error)

	// Decoders has a decoder per provider. Deliveries of another provider are
	// kept and ignored. Required.
	Decoders map[string]Decoder

	// Apply looks at one lane; see inbox.WorkerConfig. Required.
	Apply func(context.Context, inbox.Lease) error

	// Senders are the addresses that a provider posts from. A provider that is
	// not in it may post from anywhere, which its signature allows for; one with
	// an empty list from nowhere.
	Senders map[string][]netip.Prefix

	// Proxies are ours, whose X-Forwarded-For is believed about the sender. Empty:
	// the sender is who connects.
	Proxies []netip.Prefix

	Workers int // lanes applied at once; zero means 8

	MaxBody      int64         // bytes; zero means the scheme's own limit, which is the most
	MaxInFlight  int64         // bytes of bodies being received; zero means 128 MiB
	MaxBacklog   int           // deliveries that wait to be decoded; zero means 100,000
	ReadTimeout  time.Duration // for a whole body; zero means 10 seconds
	StoreTimeout time.Duration // zero means 2 seconds

	Log *slog.Logger // nil: nothing is logged
}

// A Service is endpoints, their receiver, and the work behind it. It is safe
// for concurrent use.
type Service struct {
	db         *store.DB
	keys       *keys.Ring
	inbox      *inbox.Inbox
	connection func(context.Context, connector.TenantID, connector.ConnectionID) (connector.Connection, error)
	decoders   map[string]Decoder
	worker     *inbox.Worker
	senders    map[string][]netip.Prefix
	proxies    []netip.Prefix
	receiver   receiver

	maxBody, maxInFlight      int64
	maxBacklog                int
	readTimeout, storeTimeout time.Duration
	log                       *slog.Logger
}

// New makes a service. Nothing runs before Run.
func New(c Config) (*Service, error) {
	switch {
	case c.DB == nil, c.Keys == nil, c.Inbox == nil:
		return nil, errors.New("webhooks: config: no database, keys or inbox")
	case c.Connection == nil, c.Decoders == nil, c.Apply == nil:
		return nil, errors.New("webhooks: config: no connection, decoders or apply")
	case c.MaxBody < 0, c.MaxInFlight < 0, c.MaxBacklog < 0, c.ReadTimeout < 0, c.StoreTimeout < 0:
		return nil, errors.New("webhooks: config: a limit is negative")
	}
	s := &Service{db: c.DB, keys: c.Keys, inbox: c.Inbox, connection: c.Connection, decoders: c.Decoders,
		senders: c.Senders, proxies: c.Proxies,
		maxBody: c.MaxBody, maxInFlight: c.MaxInFlight, maxBacklog: c.MaxBacklog,
		readTimeout: c.ReadTimeout, storeTimeout: c.StoreTimeout, log: c.Log}
	s.receiver.s = s
	if s.maxBody == 0 {
		s.maxBody = 25 << 20
	}
	if s.maxInFlight == 0 {
		s.maxInFlight = 128 << 20
	}
	if s.maxBacklog == 0 {
		s.maxBacklog = 100_000
	}
	if s.readTimeout == 0 {
		s.readTimeout = 10 * time.Second
	}
	if s.storeTimeout == 0 {
		s.storeTimeout = 2 * time.Second
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	s.worker, err = inbox.NewWorker(inbox.WorkerConfig{Inbox: c.Inbox, Decode: s.decode, Apply: c.Apply, Concurrency: c.Workers, Log: s.log})
	return s, err
}

// Handler answers POST requests below PathPrefix.
func (s *Service) Handler() http.Handler { return &s.receiver }

// Run decodes and applies until the context ends, and returns when what it
// began is finished or given back.
func (s *Service) Run(ctx context.Context) { s.worker.Run(ctx) }

// Inbox is where deliveries and lanes are listed, shown, replayed and un-parked.
func (s *Service) Inbox() *inbox.Inbox { return s.inbox }

// Stats is the state of the inbox, and what requests came to in this process
// since it began, by outcome.
type Stats struct {
	inbox.Stats
	Received map[string]int64 `json:"received"`
}

// Stats reads the counts.
func (s *Service) Stats(ctx context.Context) (Stats, error) {
	v, err := s.inbox.Stats(ctx)
	return Stats{Stats: v, Received: s.receiver.counters.copy()}, failed(err)
}

const connectionTimeout = 5 * time.Second

// decode holds a delivery to the connection of its endpoint as it is now. An
// event of a connection that is gone is not an error of its sender, who would
// disable the endpoint in the end: it was accepted, and comes to nothing.
func (s *Service) decode(d inbox.Delivery) ([]inbox.Mark, error) {
	decoder := s.decoders[d.Provider]
	if decoder == nil {
		return nil, &inbox.Ignored{Reason: "unknown_provider"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectionTimeout)
	defer cancel()
	c, err := s.connection(ctx, connector.TenantID(d.Tenant), connector.ConnectionID(d.Connection))
	switch code := connector.CodeOf(err); {
	case code == connector.CodeConnectionRequired, code == connector.CodeNotFound:
		return nil, &inbox.Ignored{Reason: "unknown_connection"}
	case err != nil:
		return nil, inbox.Later(err)
	case string(c.Tenant) != d.Tenant, string(c.ID) != d.Connection, c.Provider != d.Provider:
		return nil, &inbox.Ignored{Reason: "other_connection"}
	}
	return decoder(c, d)
}
