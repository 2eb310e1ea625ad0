package kit

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// T is the part of testing.T that a run needs, so that the kit can be run on
// connectors that are meant to fail. *testing.T is one.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
	TempDir() string
	Context() context.Context
}

// A Subject is a connector with what the kit must know to use it. A zero Use
// means that the connector has no such operation; its checks are not claimed.
type Subject struct {
	Connector connector.Connector
	// Harness runs the provider. Nil: only checks of the connector's own value
	// are tried, and the others are not claimed.
	Harness Harness

	// List finds the objects that carry a text. Its arguments are without
	// page_size and cursor.
	List Use
	// Read fetches the object with an id.
	Read Use
	// Write makes one object that carries a marker.
	Write Use

	// Undo is what the provider's documentation says about taking the write
	// back. Zero: the declared effect is not checked.
	Undo connector.Effect
	// LockFile is the path of the connector's lock file. Empty: not checked.
	LockFile string
	// Fixed are calls with fixed answers, at least one for each operation, whose
	// outcome is kept in files. Nil: not checked.
	Fixed []Case
	// FixedDir is the folder of those files, which holds nothing else. Empty:
	// testdata/contract.
	FixedDir string
	// NotClaimed says why a check does not apply, by its id. It shows in the
	// report; an unknown id fails the run.
	NotClaimed map[string]string
	// Parts puts other parts into the runtime's configuration: an operator's own
	// ledger, or a broken one that shows that a check can fail. Nil: none.
	Parts func(*connector.Config)
	// Seed fixes the provider's data and the texts that are planted. Zero: a new
	// one, which the report names.
	Seed int64
}

// A Use is one operation and how the kit writes its arguments: for List of a
// text, for Read of an id, for Write of a marker, and always of the container
// (project) that it is about, which is empty if the provider has none.
type Use struct {
	Tool      string
	Arguments func(what, container string) any
}

// A Harness can run one kind of provider.
type Harness interface {
	// Start runs a provider. The context covers the start; dir is an empty
	// folder; the same seed gives the same data.
	Start(ctx context.Context, dir string, seed int64) (Provider, error)
}

// A Person is one of those who have accounts at the provider.
type Person int

const (
	Owner    Person = iota + 1 // may read and write in both containers
	Stranger                   // of another tenant: sees nothing of the owner's
)

// A Provider is running, and keeps its own books. It is used by one check at a
// time.
type Provider interface {
	Facts() Facts
	// Connect makes a connection for the caller to a person's account. The
	// account behind it is read by identify, as everywhere.
	Connect(ctx context.Context, s *credentials.Service, caller connector.Caller, who Person, w Wish) (connector.Connection, error)
	// Seed makes an object of the owner's behind the connector's back.
	Seed(ctx context.Context, o Object) (id string, err error)
	// Count is how many objects carry a marker, by the provider's own books.
	Count(ctx context.Context, marker string) (int, error)
	Close() error
}

// Facts are what a provider is, as an administrator would set it up.
type Facts struct {
	Name, Version string
	// Digest tells one build of the provider from another, such as that of its
	// image. Empty: not known.
	Digest   string
	Evidence Evidence // what a pass proves
	// URL is where its API is: http on a loopback address, or https anywhere, with
	// the path that all requests begin with. Faults are put in front of it.
	URL string
	// Roots are the PEM certificates that an https provider is checked against.
	// Nil: the system's.
	Roots []byte
	// SignIn is how its credentials work. ID, Profile and Scopes are the kit's to
	// fill, and Issuer if it is empty.
	SignIn credentials.Provider
	// Containers are the two that the owner uses, as resources name them. Empty:
	// the provider has none, and grants can't be narrowed.
	Containers [2]string
}

// A Wish is what a connection is to be limited to. Nil means everything.
type Wish struct {
	Provider  string // what credentials call the provider in this run
	Scopes    []string
	Resources []string
	Identify  credentials.Identify
}

// An Object is what a harness plants.
type Object struct {
	Container string
	Title     string
	Body      string
}

// Secretive providers know texts that belong to an object and must not leave:
// private notes, contact data.
type Secretive interface {
	Private(ctx context.Context) ([]string, error)
}

// Lagging providers have an index that can be behind their own data. Lag makes
// it so; false ends it.
type Lagging interface {
	Lag(on bool) error
}

// Changing providers can give an object another title, as a person there would.
type Changing interface {
	Retitle(ctx context.Context, id, title string) error
}

// Evidence is what kind of proof a result is.
type Evidence string

const (
	Unit          Evidence = "unit"          // the connector's own value was looked at
	Sandbox       Evidence = "sandbox"       // a provider made for tests, over HTTP
	RealSystem    Evidence = "real system"   // a provider that others wrote
	Specification Evidence = "specification" // read, not run
)
