package connector

import "time"

// The identifiers are distinct types so that the compiler catches swapped
// arguments. All of them are opaque: no code may read meaning from their text.
type (
	TenantID     string
	PrincipalID  string
	ConnectionID string
	OperationID  string
	ApprovalID   string
)

// A Caller is who a call runs for. It is built by the host from its own
// authentication, never from anything a model wrote.
type Caller struct {
	Tenant    TenantID
	Principal PrincipalID
	// Connection selects one of the principal's connections. Empty: the only
	// one that the connector's provider has; several are an error.
	Connection ConnectionID
	// Run names the workflow or conversation in audit records. Optional.
	Run string
}

// An Account is who the provider says we are. It is read from the provider
// after the token exchange; what a user typed is not believed.
type Account struct {
	Issuer       string `json:"issuer"`  // the authorization server
	Subject      string `json:"subject"` // stable id at the provider
	Login        string `json:"login"`   // what people call it
	Organisation string `json:"organisation"`
}

// A Connection is what a call may use: a reference plus the facts that decide
// what is allowed. It holds no credential and can't be used to call anything.
type Connection struct {
	ID        ConnectionID
	Tenant    TenantID
	Principal PrincipalID
	Provider  string
	Profile   string // endpoint profile of this provider instance
	Account   Account
	Scopes    []string // really granted
	Resources []string // the only containers (projects) that calls may touch
	// AuthzVersion grows with every change of account, scopes, resources or
	// status. Cursors, approvals and caches of another version are dead.
	AuthzVersion int64
	// Notes are what a person should know, such as scopes that the provider
	// widened without saying so.
	Notes []string
}

// Identity is what a connector read about the account behind a fresh token.
type Identity struct {
	Account   Account
	Scopes    []string // effective scopes; nil: the provider doesn't say
	Resources []Resource
	Notes     []string
}

// A Resource is a container that a connection can be limited to.
type Resource struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// An Attempt is one request that reached the wire, or tried to.
type Attempt struct {
	N            int           `json:"n"`
	Started      time.Time     `json:"started"`
	WroteRequest bool          `json:"wrote_request"` // bytes left this process
	Status       int           `json:"status"`        // 0: no answer
	Waited       time.Duration `json:"waited"`        // before this attempt
	Stop         string        `json:"stop,omitempty"`
}
