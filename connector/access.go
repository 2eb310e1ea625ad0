package connector

import (
	"context"
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
	// Profile, DedupeHeader and OperationID are set by the framework for writes:
	// which endpoint profile the approval covers, and the key that the provider
	// recognises. What Plan puts there is overwritten.
	Profile      string
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
	// Cacheable lets the transport keep the answer of a GET and ask the next
	// time only whether it still holds. The provider is asked every time. With
	// Unchanged set it has no effect.
	Cacheable bool
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
	// Quota is what this answer says about the provider's limits; nil: nothing.
	Quota []Quota
	// FromCache: Body is a copy that was kept from an earlier answer. Revalidated:
	// the provider confirmed it in this call. A transport that keeps bodies sets
	// both or neither, because it serves nothing unasked.
	FromCache   bool
	Revalidated bool
}

// A Quota is the state of one of the provider's limits. What remains is no
// promise: others may share the limit, and a provider may refuse earlier.
type Quota struct {
	// Dimension is the provider's name of the limit (a resource, a policy, a
	// bucket). Empty: it has only one, or did not say which.
	Dimension string    `json:"dimension"`
	Limit     *int64    `json:"limit,omitempty"`     // nil: unknown
	Remaining *int64    `json:"remaining,omitempty"` // nil: unknown
	ResetAt   time.Time `json:"reset_at,omitzero"`   // by our clock; zero: unknown
	// RetryAfter is how long the provider asked to stay away; zero: it did not.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
	Source     QuotaSource   `json:"source"`
	ObservedAt time.Time     `json:"observed_at"`
	// Authoritative: the provider said so itself. False: a guess of ours.
	Authoritative bool `json:"authoritative"`
}

// QuotaSource is where a [Quota] was read.
type QuotaSource string

const (
	QuotaFromHeader  QuotaSource = "header"
	QuotaFromBody    QuotaSource = "body"
	QuotaFromDefault QuotaSource = "default" // nowhere: our own assumption
)

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
	quota    []Quota // the newest of each dimension
	request  string
	fetched  time.Time
	source   string
	versions map[string]string
	missing  []Missing
	copies   *CopyState // nil: nothing is known to be stored
	pinned   bool       // provenance stays as it is
	cut      bool
}

// Connection returns a copy of the connection that this call runs under.
func (a *Access) Connection() Connection {
	c := a.conn
	c.Scopes, c.Resources, c.Notes = slices.Clone(c.Scopes), slices.Clone(c.Resources), slices.Clone(c.Notes)
	return c
}

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

// Truncated records that something was cut to fit; the data says what.
func (a *Access) Truncated() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = true
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

// Get reads one JSON document into T. Duplicate names, invalid UTF-8 and
// trailing data are PROVIDER_CONTRACT. Names match exactly: one in another case
// is another name, and unknown names are passed over.
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
		// The decoder's text quotes the body, and even the place of a fault can
		// be made of the provider's words.
		return out, Fail(CodeProviderContract, "the document is not what the provider's contract says")
	}
	return out, nil
}

func (a *Access) note(r Request, resp Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts = append(a.attempts, resp.Attempts...)
	for _, q := range resp.Quota {
		a.quota = slices.DeleteFunc(a.quota, func(old Quota) bool { return old.Dimension == q.Dimension })
		a.quota = append(a.quota, q)
	}
	if resp.Status == 0 || a.pinned {
		return
	}
	a.request, a.fetched, a.source = resp.RequestID, resp.FetchedAt, r.Path
}

// pin keeps the provenance at the answer to a write, whatever is read after it.
func (a *Access) pin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pinned = true
}

// judge asks the connector's own classification first. Where that does not say
// what a write did, the status does; a refusal in a 2xx proves nothing.
func (a *Access) judge(r Request, resp Response, class Class) *Error {
	byStatus := classify(resp, class)
	if a.classify == nil {
		return byStatus
	}
	e := a.classify(r, resp)
	if e == nil {
		return byStatus
	}
	own := *e // the connector may hand out a shared value
	if class == ClassWrite && own.Effect == DispositionNone {
		own.Effect = DispositionUnknown
		if byStatus != nil {
			own.Effect = byStatus.Effect
		}
	}
	return &own
}
