package connector

import "context"

// A Connector is a value: facts, plus operations made by [Read], [List] and
// [Write]. It holds no credential, no connection and no approval.
type Connector struct {
	ID              string // also the first part of its operations' names
	Version         string // semantic version of the connector
	Owner           string // who answers for it
	Provider        string
	ProviderVersion string // of the provider's API
	Auth            Auth
	// Excluded names properties that must never leave, at any depth. Because
	// output schemas are closed and enforced, Lint can prove it: a schema that
	// declares one of them does not load.
	Excluded []string
	// Limitations are what the provider can't guarantee. They travel with
	// every definition and every result.
	Limitations []string
	Operations  []Operation
	// Classify maps an answer to an error where the provider says it in its own
	// way (a rate limit in a 403, an error inside a 200). Nil from it, or a nil
	// func, means the default table of classify.go.
	Classify func(Request, Response) *Error
	// Identify reads who and what a fresh token really stands for.
	Identify func(context.Context, *Access) (Identity, error)
}

// Auth is what the connector needs to be connected.
type Auth struct {
	Kind   AuthKind
	Scopes []string // asked for at connect time; operations name which they need
}

// AuthKind is one of the field's credential kinds.
type AuthKind string

const (
	AuthOAuth2Code        AuthKind = "oauth2_authorization_code" // with PKCE S256, always
	AuthClientCredentials AuthKind = "client_credentials"        // the application's own account (RFC 6749 section 4.4)
	AuthStatic            AuthKind = "static"                    // a key or personal token that a person enters
	AuthApp               AuthKind = "app"                       // a signed assertion for one installation, as GitHub Apps have
)

// Spec describes one operation for people, models and policies.
type Spec struct {
	Name        string // connector.operation, lower case
	Title       string
	Doc         string
	Effect      Effect      // zero does not load
	Sensitivity Sensitivity // zero does not load
	Scopes      []string    // what the connection must have been granted
	// Input and Output replace the schemas that are derived from the Go types,
	// to tighten them. They must be closed and name the same properties.
	Input, Output []byte
	Deprecated    string // non-empty: still callable, and this is why not to
}

// Dedupe says how the provider recognises a write that it has seen before.
type Dedupe struct {
	Kind DedupeKind
	Name string // the header's or the field's name
}

// DedupeKind is declared by the connector and proven by the contract tests.
type DedupeKind string

const (
	DedupeNone   DedupeKind = ""       // nothing: only Find can settle
	DedupeHeader DedupeKind = "header" // the operation id in a request header
	DedupeField  DedupeKind = "field"  // the operation id in a unique field
	DedupeMarker DedupeKind = "marker" // the operation id in text, found by listing
)
