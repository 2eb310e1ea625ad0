package subscriptions

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the table of subscriptions.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "subscriptions", FS: files}
}

// A Hook is a subscription as its provider has it.
type Hook struct {
	ID         string
	Address    string
	SigningKey string    // in the answer that made it, if the provider makes it
	ExpiresAt  time.Time // zero: never
}

// A Draft is what is asked of the provider.
type Draft struct {
	Project    string `json:"project,omitempty"`
	Address    string `json:"address"`
	SigningKey string `json:"signing_key,omitempty"` // ours; empty: the provider makes one
}

// Ways are what a provider's subscriptions are like.
type Ways struct {
	Scheme        string // how it signs; a name of webhooks/signature
	MakesKey      bool
	PerProject    bool
	Renews        bool
	ListsFailures bool
}

// Failures is a page of deliveries that a provider gave up.
type Failures struct {
	Deliveries []Failed
	After      string // the position behind them
	More       bool
}

// Failed is one of them.
type Failed struct {
	ID, EventType string
	Payload       []byte
}

// Providers asks providers as a connection's own principal. Errors are connector
// errors. The writes go through approval and ledger; the same intent is the same
// write for ever. It is safe for concurrent use.
type Providers interface {
	// Ways answers false for a provider that can't be asked to subscribe.
	Ways(provider string) (Ways, bool)
	// Connection is the connection as it is now, or CONNECTION_REQUIRED.
	Connection(ctx context.Context, tenant connector.TenantID, id connector.ConnectionID) (connector.Connection, error)
	Hooks(ctx context.Context, c connector.Connection, project string) ([]Hook, error)
	Make(ctx context.Context, c connector.Connection, intent string, d Draft) (Hook, connector.Result)
	Renew(ctx context.Context, c connector.Connection, intent, project string, h Hook) (Hook, connector.Result)
	Failures(ctx context.Context, c connector.Connection, project, hook, after string) (Failures, error)
}

// Config is what a Service is made of. Zero durations mean the defaults.
type Config struct {
	DB        *store.DB         // required; opened with Migrations, and those of webhooks and its inbox
	Keys      *keys.Ring        // required
	Webhooks  *webhooks.Service // required; on the same database
	Providers Providers         // required

	CheckEvery time.Duration // how often the keeper looks at a subscription; 15 minutes
	// SilentAfter is when an endpoint that has received events is said to be
	// silent. 7 days.
	SilentAfter time.Duration

	Log *slog.Logger // nil: nothing is logged
}

// A Service is safe for concurrent use.
type Service struct {
	c    Config
	skew time.Duration // tests move the clock with it
}

// New makes a service. Nothing runs by itself.
func New(c Config) (*Service, error) {
	switch {
	case c.DB == nil, c.Keys == nil, c.Webhooks == nil, c.Providers == nil:
		return nil, errors.New("subscriptions: config: no database, keys, webhooks or providers")
	case c.CheckEvery < 0, c.SilentAfter < 0:
		return nil, errors.New("subscriptions: config: a duration is negative")
	}
	if c.CheckEvery == 0 {
		c.CheckEvery = 15 * time.Minute
	}
	if c.SilentAfter == 0 {
		c.SilentAfter = 7 * 24 * time.Hour
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{c: c}, nil
}

// The states of a subscription.
const (
	Asked  = "asked"  // proposed, and not known to be made
	Active = "active" // made; see Troubles for how it is
	Ended  = "ended"  // its endpoint is disabled; what the provider has is for a person to delete
)

// A Subscription is an endpoint that we had a provider post to.
type Subscription struct {
	Endpoint   string                 `json:"endpoint"`
	Tenant     connector.TenantID     `json:"tenant"`
	Provider   string                 `json:"provider"`
	Connection connector.ConnectionID `json:"connection"` // whose events they are
	Subscriber connector.ConnectionID `json:"subscriber"` // which asks for them; often the same
	Project    string                 `json:"project,omitempty"`
	Origin     string                 `json:"origin"`
	Replaces   string                 `json:"replaces,omitempty"` // the endpoint that ends when this one is active
	State      string                 `json:"state"`
	Hook       string                 `json:"hook,omitempty"` // the provider's id
	MadeAt     *time.Time             `json:"made_at,omitempty"`
	ExpiresAt  *time.Time             `json:"expires_at,omitempty"`
	CheckedAt  *time.Time             `json:"checked_at,omitempty"`  // when it was last compared with the provider's list
	ReceivedAt *time.Time             `json:"received_at,omitempty"` // when the keeper last saw that an event had come
	// Renewal is the approval that a renewal waits for, or why it failed.
	Renewal string `json:"renewal,omitempty"`
	// Fault is why the last look at it came to nothing, as a code.
	Fault string `json:"fault,omitempty"`
	// Troubles are reasons why events may be lost; see Service.Troubles.
	Troubles []string `json:"troubles,omitempty"`
}

// failed gives an error of the store its code; one of ours has it.
func failed(err error) error {
	var coded *connector.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &connector.Error{Code: connector.CodeUnavailable, Message: "subscriptions are not available right now", Err: err}
}
