package connector

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
)

// A Request is relative to the connection's endpoint profile: there is no way
// to name another host. For a write it is the one request that will be sent.
type Request struct {
	Method      string // reads: GET when empty
	Path        string // below the profile's base path; starts with a slash
	Query       url.Values
	ContentType string
	Body        []byte
	// DedupeHeader and OperationID are set by the framework for writes whose
	// provider recognises a key in a header.
	DedupeHeader string
	OperationID  OperationID
	// ResourceVersion is the provider's version that the write was drawn up
	// against; it is part of what is approved.
	ResourceVersion string
	// Summary is one sentence for the person who approves. Notes say what the
	// provider will do by itself.
	Summary string
	Notes   []string
	// Unchanged is an entity tag; the provider answers 304 if it still holds.
	Unchanged string
}

// A Response is a complete answer that passed the guarded transport's checks.
type Response struct {
	Status    int
	Header    http.Header
	Body      []byte // decoded, within the size limit
	RequestID string
	FetchedAt time.Time
	// RetryAfter is how long the provider asked to wait; zero: it didn't say.
	RetryAfter time.Duration
	Attempts   []Attempt
}

// Access is what one call may touch. It has no token, no HTTP client and no
// write verb. It is for the goroutines of that call only.
type Access struct {
	conn      Connection
	op        OperationID
	since     time.Time
	transport Transport
	classify  func(Request, Response) *Error

	mu       sync.Mutex
	attempts []Attempt
	request  string
	fetched  time.Time
	source   string
	versions map[string]string
	missing  []Missing
}

// Connection returns the connection that this call runs under.
func (a *Access) Connection() Connection { return a.conn }

// Operation is the id of the write that is being planned or settled; empty in
// reads. Markers and idempotency keys are made of it.
func (a *Access) Operation() OperationID { return a.op }

// Dispatched is when the write that is being settled left; zero otherwise. A
// look-up may skip what the provider made well before it.
func (a *Access) Dispatched() time.Time { return a.since }

// Allowed reports whether the connection may touch a resource.
func (a *Access) Allowed(resource string) bool { return slices.Contains(a.conn.Resources, resource) }

// Narrow checks the resources a caller asked for against the grant. None asked
// for means all of the grant. One outside it is NOT_FOUND, as if it did not
// exist, and nothing is asked of the provider.
func (a *Access) Narrow(asked []string) ([]string, error) {
	if len(asked) == 0 {
		return slices.Clone(a.conn.Resources), nil
	}
	for _, r := range asked {
		if !a.Allowed(r) {
			return nil, Fail(CodeNotFound, "absent, or outside what this connection may touch")
		}
	}
	return slices.Clone(asked), nil
}

// Missing records a gap in what the call will return.
func (a *Access) Missing(m Missing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing = append(a.missing, m)
}

// Version records the provider's version of an object in the provenance.
func (a *Access) Version(object, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.versions == nil {
		a.versions = map[string]string{}
	}
	a.versions[object] = version
}

// Get performs one guarded read. An answer that isn't a success is an *Error.
func (a *Access) Get(ctx context.Context, r Request) (Response, error) {
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return Response{}, Fail(CodeInternal, "a read must be GET or HEAD")
	}
	resp, err := a.transport.Do(ctx, a.conn, ClassRead, r)
	a.note(r, resp)
	if err != nil {
		return resp, err
	}
	if e := a.judge(r, resp, ClassRead); e != nil {
		return resp, e
	}
	return resp, nil
}

// Get reads one JSON document into T. Duplicate names, names in another case,
// invalid UTF-8 and trailing data are PROVIDER_CONTRACT; unknown names are not.
func Get[T any](ctx context.Context, a *Access, r Request) (T, Response, error) {
	var out T
	resp, err := a.Get(ctx, r)
	if err != nil {
		return out, resp, err
	}
	out, err = DecodeJSON[T](resp)
	return out, resp, err
}

// DecodeJSON reads a provider's document with the strictness of [Get].
func DecodeJSON[T any](r Response) (T, error) {
	var out T
	if len(r.Body) == 0 {
		return out, Fail(CodeProviderContract, "an empty body came where a document was due")
	}
	if err := jsonv2.Unmarshal(r.Body, &out); err != nil {
		// The decoder's text can quote the body; only its place is kept.
		place := "the document"
		var semantic *jsonv2.SemanticError
		if errors.As(err, &semantic) {
			place = "the document at " + string(semantic.JSONPointer)
		}
		return out, Fail(CodeProviderContract, "%s is not what the provider's contract says", place)
	}
	return out, nil
}

func (a *Access) note(r Request, resp Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts = append(a.attempts, resp.Attempts...)
	if resp.Status == 0 {
		return
	}
	a.request, a.fetched, a.source = resp.RequestID, resp.FetchedAt, r.Path
}

func (a *Access) judge(r Request, resp Response, class Class) *Error {
	if a.classify != nil {
		if e := a.classify(r, resp); e != nil {
			return e
		}
	}
	return classify(resp, class)
}
