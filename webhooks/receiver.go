package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/webhooks/inbox"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

// receiver answers providers. Nothing but verifying and inserting happens inside
// a request. Its steps are in the order of what they cost us, and nothing is
// believed before the signature over the very bytes that were read.
type receiver struct {
	s        *Service
	inFlight atomic.Int64 // bytes that may be in memory for requests
	known    known
	backlog  backlog
	counters counters
}

// An outcome is what a request came to. The sender sees the status and nothing
// else; the name is for counters.
type outcome struct {
	status int
	name   string
}

// There is no 429, and no 410: GitHub never repeats after a 4xx, and Standard
// Webhooks senders disable an endpoint that is gone.
var (
	stored        = outcome{http.StatusAccepted, "stored"}
	conflict      = outcome{http.StatusAccepted, "conflict"}
	duplicate     = outcome{http.StatusOK, "duplicate"}
	wrongMethod   = outcome{http.StatusMethodNotAllowed, "method"}
	noEndpoint    = outcome{http.StatusNotFound, "unknown_endpoint"}
	otherSender   = outcome{http.StatusNotFound, "other_sender"} // as if there were nothing
	tooLarge      = outcome{http.StatusRequestEntityTooLarge, "too_large"}
	ambiguous     = outcome{http.StatusBadRequest, string(signature.AmbiguousHeader)}
	encoded       = outcome{http.StatusUnsupportedMediaType, "content_encoding"}
	truncated     = outcome{http.StatusBadRequest, "truncated"}
	slow          = outcome{http.StatusRequestTimeout, "slow"}
	overInFlight  = outcome{http.StatusServiceUnavailable, "bytes_in_flight"}
	overBacklog   = outcome{http.StatusServiceUnavailable, "backlog"}
	storeFailed   = outcome{http.StatusServiceUnavailable, "store"}
	oldSecretUsed = "old_secret_used" // counted beside the outcome
)

const (
	// minReserved is what a request counts for however small its body says it
	// is: it holds a connection and buffers.
	minReserved = 64 << 10

	// retryAfter is what a sender is told to wait when the fault is ours.
	retryAfter = 30 * time.Second

	maxToken = 100 // characters; ours have 43
)

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	o := r.receive(w, req)
	r.counters.add(o.name)
	if o == handshaken {
		return
	}
	h := w.Header()
	switch o.status {
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	if o.status >= 400 {
		h.Set("Connection", "close") // what is left of the body is not read
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", "0")
	w.WriteHeader(o.status)
}

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) outcome {
	if req.Method != http.MethodPost && (req.Method != http.MethodGet || req.URL.RawQuery == "") {
		return wrongMethod
	}
	to, err := r.find(req.Context(), req.URL.Path)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return noEndpoint
	case err != nil:
		r.s.log.ErrorContext(req.Context(), "webhook endpoint was not looked up", "error", err)
		return storeFailed
	case !r.s.allowed(to.Provider, req):
		return otherSender
	}
	if o, asked := r.handshake(w, req, to); asked {
		return o
	}
	if req.Method != http.MethodPost {
		return wrongMethod
	}
	limit := min(r.s.maxBody, to.scheme.MaxBody)
	if req.ContentLength > limit {
		return tooLarge
	}
	for _, name := range append(to.scheme.Headers(), "Content-Type", "Content-Encoding") {
		if len(req.Header.Values(name)) > 1 {
			return ambiguous
		}
	}
	if e := req.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return encoded // what is signed is what was sent; nothing is unpacked
	}
	if r.backlog.full(req.Context(), r.s) {
		return overBacklog
	}
	reserve := req.ContentLength
	if reserve < 0 {
		reserve = limit
	}
	reserve = max(reserve, minReserved)
	defer r.inFlight.Add(-reserve)
	if r.inFlight.Add(reserve) > r.s.maxInFlight {
		return overInFlight
	}
	body, err := r.read(w, req, limit)
	if err != nil {
		return unread(err)
	}
	return r.store(req.Context(), to, req.Header, body)
}

// addressee is an endpoint with its secrets opened.
type addressee struct {
	Endpoint
	scheme  signature.Scheme
	accepts []signature.Secret // newest first; beside them Endpoint.Secrets
}

// find returns the endpoint of a path as it was within the last second. An
// unknown one and a disabled one answer alike, and after the same work.
func (r *receiver) find(ctx context.Context, path string) (addressee, error) {
	token, ok := strings.CutPrefix(path, PathPrefix)
	if !ok || token == "" || len(token) > maxToken {
		return addressee{}, sql.ErrNoRows
	}
	hash := tokenHash(token)
	a, ok, changes := r.known.get(hash)
	if ok {
		return a, nil
	}
	a, err := r.lookUp(ctx, hash)
	r.known.put(hash, a, err, changes)
	return a, err
}

func (r *receiver) lookUp(ctx context.Context, hash []byte) (addressee, error) {
	ctx, cancel := context.WithTimeout(ctx, r.s.storeTimeout)
	defer cancel()
	var a addressee
	// The address is all that is known; whose it is comes out of the row.
	err := r.s.db.ViewFor(ctx, store.AllTenants(), func(tx *store.Tx) (err error) {
		a = addressee{}
		if a.Endpoint, err = scanEndpoint(tx.QueryRow(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoint
			WHERE token_hash = ? AND disabled_at = 0`, hash)); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT id, secret, not_before, not_after FROM webhook_secret
			WHERE endpoint = ?1 AND not_before <= ?2 AND (not_after = 0 OR not_after > ?2) ORDER BY not_before DESC, id`, a.ID, now.UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			v, sealed, err := scanSecret(rows)
			if err != nil {
				return err
			}
			text, err := r.s.keys.Open(sealed, secretContext(a.ID, v.ID))
			if err != nil {
				return err
			}
			a.Secrets = append(a.Secrets, v)
			// Its time was judged above, by the clock that it was written with.
			a.accepts = append(a.accepts, signature.Secret{Text: string(text)})
		}
		return rows.Err()
	})
	if err != nil {
		return addressee{}, err
	}
	var ok bool
	if a.scheme, ok = signature.Lookup(a.Scheme); !ok {
		return addressee{}, errors.New("endpoint with a scheme that this version does not know")
	}
	return a, nil
}

// read takes the whole body or none of it: a prefix is never verified.
func (r *receiver) read(w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	deadline := http.NewResponseController(w)
	if err := deadline.SetReadDeadline(time.Now().Add(r.s.readTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
	if err == nil {
		// The next request on this connection has a deadline of its own.
		_ = deadline.SetReadDeadline(time.Time{})
	}
	return body, err
}

func unread(err error) outcome {
	var large *http.MaxBytesError
	var network net.Error
	switch {
	case errors.As(err, &large):
		return tooLarge
	case errors.As(err, &network) && network.Timeout():
		return slow
	}
	return truncated
}

func (r *receiver) store(ctx context.Context, to addressee, h http.Header, body []byte) outcome {
	now := time.Now()
	v, err := signature.Verify(to.scheme, to.accepts, h, body, now)
	if err != nil {
		reason := err.(signature.Reason) // Verify has no other errors
		if reason == signature.NoUsableSecret {
			r.s.log.ErrorContext(ctx, "webhook endpoint has no usable secret", "endpoint", to.ID)
		}
		return outcome{reason.HTTPStatus(), string(reason)}
	}
	by := to.Secrets[v.SecretIndex]
	if by.NotAfter != nil {
		r.counters.add(oldSecretUsed)
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.storeTimeout)
	defer cancel()
	verdict, err := r.s.inbox.Ingest(ctx, inbox.Delivery{
		Tenant: string(to.Tenant), Endpoint: to.ID, ID: v.DeliveryID, IDSigned: v.IDSigned, Provider: to.Provider,
		Connection: string(to.Connection), EventType: v.EventType, Body: v.Payload, ReceivedAt: now, Secret: by.ID,
	})
	switch {
	case err != nil:
		r.s.log.ErrorContext(ctx, "webhook delivery was not stored", "endpoint", to.ID, "error", err)
		return storeFailed
	case verdict == inbox.Duplicate:
		return duplicate
	case verdict == inbox.Conflict:
		r.s.log.WarnContext(ctx, "webhook delivery has the id of another one", "endpoint", to.ID)
		return conflict
	}
	return stored
}

// backlog is a recent look at how many deliveries wait.
type backlog struct {
	mu     sync.Mutex
	looked time.Time
	isFull bool
}

const backlogAge = time.Second

// full answers from the last second. When the store can't be asked, storing
// will tell.
func (b *backlog) full(ctx context.Context, s *Service) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.looked) < backlogAge {
		return b.isFull
	}
	b.looked = time.Now() // the others go on with the answer before
	b.mu.Unlock()
	n, err := s.inbox.Backlog(ctx, s.maxBacklog)
	b.mu.Lock()
	b.isFull = err == nil && n >= s.maxBacklog
	return b.isFull
}

// counters counts what requests came to in this process.
type counters struct {
	mu sync.Mutex
	n  map[string]int64 // made at the first
}

func (c *counters) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int64{}
	}
	c.n[name]++
}

func (c *counters) copy() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}
