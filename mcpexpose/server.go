package mcpexpose

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of redeemed request states and of artifacts.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "mcpexpose", FS: files}
}

// A Runtime is what stands behind the tools. *connector.Runtime is one.
type Runtime interface {
	Tools(context.Context, connector.Caller) ([]connector.Definition, error)
	Execute(context.Context, connector.Caller, connector.Call) connector.Result
}

// A Mount is one runtime under a name. Its tools are called NAME.OPERATION.
type Mount struct {
	Name     string
	Provider string // what connect links name; empty: Name
	Runtime  Runtime
	Objects  *Objects // nil: it shows none
}

// Links are the pages that a person is sent to. Neither link may hold anything
// that works for somebody else.
type Links interface {
	Connect(ctx context.Context, caller connector.Caller, provider string, scopes []string) (url string, err error)
	Approval(ctx context.Context, caller connector.Caller, approval connector.ApprovalID) (url string, err error)
}

// A Sealer encrypts request states and artifacts and binds them to their use.
// *keys.Ring is one.
type Sealer interface {
	Seal(plaintext, context []byte) ([]byte, error)
	Open(ciphertext, context []byte) ([]byte, error)
}

// Config is what a Server is made of. Zero numbers mean the defaults.
type Config struct {
	Mounts  []Mount   // at least one
	DB      *store.DB // required; opened with Migrations
	Keys    Sealer    // required
	Links   Links     // nil: what needs a person is a coded refusal
	Version string    // of the product, for clients; empty: "dev"
	Logger  *slog.Logger

	// Runbooks and Prompts are shown to whoever sees a tool that they are about.
	Runbooks []Runbook
	Prompts  []Prompt

	// Native adds features written against the SDK to every server. They pass the
	// same recovery and get request state from Asker. For tests of the protocol; nil:
	// there are none.
	Native *Native

	// InlineBytes is the largest data that a result carries; what is larger is
	// kept as an artifact for ArtifactTTL. Zero: 256 KiB and 15 minutes.
	InlineBytes int
	ArtifactTTL time.Duration
	// Connections authorize each read of an artifact again. Nil: nothing is kept, and
	// larger data is TOO_LARGE.
	Connections connector.Connections
	// PersonWait is how long a repeated call waits for a person to finish on a page
	// that they agreed to open. Zero: 20 seconds.
	PersonWait time.Duration
	// Servers is how many sets of tools are kept ready. Zero: 256.
	Servers int
	// SessionTimeout ends idle sessions of the older era. Zero: 15 minutes.
	SessionTimeout time.Duration
}

// Native is features of the SDK's own.
type Native struct {
	Options func(*mcp.ServerOptions) // nil: as they are
	Add     func(*mcp.Server, Asker)
}

// Server serves all mounts. It is safe for concurrent use.
type Server struct {
	Config
	sets    *sets
	streams streams
	now     func() time.Time // tests move it
}

// reserved are kinds of resources that mounts don't have.
var reserved = map[string]bool{"runbooks": true, "guarantees": true, "schemas": true, "artifacts": true}

var mountPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// New checks the configuration.
func New(c Config) (*Server, error) {
	if c.DB == nil || c.Keys == nil || len(c.Mounts) == 0 {
		return nil, errors.New("mcpexpose: Mounts, DB and Keys are required")
	}
	seen := map[string]bool{}
	for i := range c.Mounts {
		m := &c.Mounts[i]
		if !mountPattern.MatchString(m.Name) || m.Runtime == nil || seen[m.Name] {
			return nil, fmt.Errorf("mcpexpose: mount %q needs a runtime and a name of its own that matches %s", m.Name, mountPattern)
		}
		if o := m.Objects; o != nil && (!mountPattern.MatchString(o.Kind) || reserved[o.Kind] || o.Tool == "" || o.Argument == "") {
			return nil, fmt.Errorf("mcpexpose: the objects of mount %q need a kind of their own that matches %s, a tool and its argument", m.Name, mountPattern)
		}
		seen[m.Name] = true
		if m.Provider == "" {
			m.Provider = m.Name
		}
	}
	if c.InlineBytes < 0 || c.ArtifactTTL < 0 || c.PersonWait < 0 || c.Servers < 0 || c.SessionTimeout < 0 {
		return nil, errors.New("mcpexpose: a number is negative")
	}
	fill(&c.InlineBytes, 256<<10)
	fill(&c.ArtifactTTL, 15*time.Minute)
	fill(&c.PersonWait, 20*time.Second)
	fill(&c.Servers, 256)
	fill(&c.SessionTimeout, 15*time.Minute)
	fill(&c.Version, "dev")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Config: c, sets: newSets(c.Servers), now: time.Now,
		streams: streams{open: map[*stream]bool{}, older: map[*mcp.ServerSession]*stream{}}}, nil
}

func fill[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
