package mcpexpose

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/mcpexpose/edge"
)

// A Watcher tells one caller of changes. It is used by one goroutine.
type Watcher interface {
	// Next waits for the id of an object that changed; empty: any may have. It has
	// authorized the caller since the change. An error ends the subscription.
	Next(context.Context) (id string, err error)
	Close()
}

// How much one caller may have open. A client of the SDK opens a stream for each
// resource in the newer era.
const (
	maxStreams = 32
	maxWatched = 256 // resources of one stream
)

// What the SDK calls the messages that we look at.
const (
	methodListen      = "subscriptions/listen"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	notifyListening   = "notifications/subscriptions/acknowledged"
	notifyUpdated     = "notifications/resources/updated"
)

// A stream is the subscriptions of one session of the older era, or of one request
// that listens in the newer.
type stream struct {
	s       *Server
	server  *mcp.Server
	session *mcp.ServerSession
	listens bool // the newer era
	id      edge.Identity
	ctx     context.Context // ends with the stream, and with the token that opened it
	cancel  context.CancelFunc
	ready   chan struct{}  // closed when the client may be told
	working sync.WaitGroup // of followed mounts

	mu     sync.Mutex
	mounts map[string]*followed
}

// followed is a mount of which resources are subscribed to.
type followed struct {
	ctx    context.Context
	cancel context.CancelFunc
	uris   map[string]string // by id; never empty
}

// streams are those that are open in this process.
type streams struct {
	mu     sync.Mutex
	closed bool
	open   map[*stream]bool
	older  map[*mcp.ServerSession]*stream
}

// EndSubscriptions ends all subscriptions and begins no more: a server that stops
// would wait for them.
func (s *Server) EndSubscriptions() {
	s.streams.mu.Lock()
	s.streams.closed = true
	all := slices.Collect(maps.Keys(s.streams.open))
	s.streams.mu.Unlock()
	for _, st := range all {
		st.cancel()
	}
}

// begin opens a stream, within the bound of its caller.
func (s *Server) begin(server *mcp.Server, session *mcp.ServerSession, id edge.Identity, listens bool) (*stream, error) {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	if st := s.streams.older[session]; !listens && st != nil && st.ctx.Err() == nil {
		return st, nil
	}
	n := 0
	for st := range s.streams.open {
		if userID(st.id) == userID(id) {
			n++
		}
	}
	if s.streams.closed || n >= maxStreams {
		return nil, coded(connector.CodeOverloaded, "too many subscriptions are open")
	}
	st := &stream{s: s, server: server, session: session, listens: listens, id: id, ready: make(chan struct{}), mounts: map[string]*followed{}}
	// Not the context of a request: those of the older era end before.
	if id.Expiry.IsZero() {
		st.ctx, st.cancel = context.WithCancel(context.Background())
	} else {
		st.ctx, st.cancel = context.WithDeadline(context.Background(), id.Expiry)
	}
	s.streams.open[st] = true
	if !listens {
		s.streams.older[session] = st
		close(st.ready)
		go func() {
			_ = session.Wait()
			st.cancel()
		}()
		context.AfterFunc(st.ctx, st.end)
	}
	return st, nil
}

// end waits until nothing is told any more.
func (st *stream) end() {
	st.mu.Lock() // after this no mount is added
	st.cancel()
	st.mu.Unlock()
	st.working.Wait()
	st.s.streams.mu.Lock()
	defer st.s.streams.mu.Unlock()
	delete(st.s.streams.open, st)
	if st.s.streams.older[st.session] == st {
		delete(st.s.streams.older, st.session)
	}
}

// subscribe adds a resource: one that can be read now, and changes of which are
// heard of.
func (st *stream) subscribe(ctx context.Context, uri string) error {
	m, object, ok := st.s.objectAt(uri)
	if !ok || m.Objects.Watch == nil {
		return mcp.ResourceNotFoundError(uri)
	}
	st.mu.Lock()
	n := 0
	for _, f := range st.mounts {
		n += len(f.uris)
	}
	st.mu.Unlock()
	if n >= maxWatched {
		return coded(connector.CodeOverloaded, "too many resources are subscribed to")
	}
	// Before the read, so that no change after it is missed.
	w, err := m.Objects.Watch(ctx, st.id.Caller)
	if err != nil {
		return failed(uri, connector.AsError(err).Report())
	}
	if _, err = st.s.readObject(ctx, st.id, uri); err != nil {
		w.Close()
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if f := st.mounts[m.Name]; f != nil || st.ctx.Err() != nil {
		w.Close()
		if f != nil {
			f.uris[object] = uri
		}
		return st.ctx.Err()
	}
	f := &followed{uris: map[string]string{object: uri}}
	f.ctx, f.cancel = context.WithCancel(st.ctx)
	st.mounts[m.Name] = f
	st.working.Go(func() { st.follow(m.Name, f, w) })
	return nil
}

// unsubscribe takes a resource out again.
func (st *stream) unsubscribe(uri string) {
	m, object, _ := st.s.objectAt(uri)
	st.mu.Lock()
	defer st.mu.Unlock()
	f := st.mounts[m.Name]
	if f == nil {
		return
	}
	if delete(f.uris, object); len(f.uris) == 0 {
		delete(st.mounts, m.Name)
		f.cancel()
	}
}

// follow tells of changes until the caller may not hear of them any more.
func (st *stream) follow(mount string, f *followed, w Watcher) {
	defer w.Close()
	defer f.cancel()
	select {
	case <-st.ready:
	case <-f.ctx.Done():
	}
	for {
		id, err := w.Next(f.ctx)
		if err != nil {
			break
		}
		st.tell(f, id)
	}
	st.mu.Lock()
	cut := st.mounts[mount] == f // nobody unsubscribed
	if cut {
		delete(st.mounts, mount)
	}
	st.mu.Unlock()
	switch {
	case !cut:
	case st.listens:
		st.cancel() // the answer to the request says that it is over
	default:
		st.tell(f, "") // the older era has no word for it; whoever reads again is told why
	}
}

// metaFor is a member of a notification's _meta between tell and route: whom it is for.
const metaFor = "drawbridge.dev/for"

// tell says that a resource changed, or that any may have. It waits for this client
// alone.
func (st *stream) tell(f *followed, id string) {
	st.mu.Lock()
	var uris []string
	for of, uri := range f.uris {
		if id == "" || of == id {
			uris = append(uris, uri)
		}
	}
	st.mu.Unlock()
	for _, uri := range uris {
		_ = st.server.ResourceUpdated(st.ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri, Meta: mcp.Meta{metaFor: st.session}})
	}
}

// route sends a notification to the session that it is for. The SDK would send it to
// everybody who subscribed to the same address, of whatever tenant: they share a
// server when they see the same tools.
func route(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case notifyListening:
			r, err := next(ctx, method, req)
			if st, ok := ctx.Value(listenKey{}).(*stream); ok && err == nil {
				close(st.ready)
			}
			return r, err
		case notifyUpdated:
			p, ok := req.GetParams().(*mcp.ResourceUpdatedNotificationParams)
			if !ok || p.Meta[metaFor] == nil {
				return next(ctx, method, req)
			}
			if p.Meta[metaFor] != req.GetSession() {
				return nil, nil
			}
			own := *p // others share it
			own.Meta = maps.Clone(p.Meta)
			delete(own.Meta, metaFor)
			return next(ctx, method, &mcp.ServerRequest[*mcp.ResourceUpdatedNotificationParams]{Session: req.GetSession().(*mcp.ServerSession), Params: &own})
		}
		return next(ctx, method, req)
	}
}

// listenKey holds the stream of a listening request, which waits for the
// acknowledgement to be sent first.
type listenKey struct{}

// subscriptions serves the subscriptions of both eras. Resources that are not ours
// are the SDK's to answer for.
func (s *Server) subscriptions(server *mcp.Server) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			session, _ := req.GetSession().(*mcp.ServerSession)
			id, ok := edge.IdentityFrom(ctx)
			switch p := req.GetParams().(type) {
			case *mcp.SubscribeParams:
				if _, _, ours := s.objectAt(p.URI); ours && ok {
					return s.subscribe(ctx, server, session, id, p, next, req)
				}
			case *mcp.UnsubscribeParams:
				s.streams.mu.Lock()
				st := s.streams.older[session]
				s.streams.mu.Unlock()
				if st != nil {
					st.unsubscribe(p.URI)
				}
			case *mcp.SubscriptionsListenParams:
				if p.Notifications != nil && len(p.Notifications.ResourceSubscriptions) > 0 && ok {
					return s.listen(ctx, server, session, id, p, next, req)
				}
			}
			return next(ctx, method, req)
		}
	}
}

// subscribe is resources/subscribe of the older era.
func (s *Server) subscribe(ctx context.Context, server *mcp.Server, session *mcp.ServerSession, id edge.Identity, p *mcp.SubscribeParams,
	next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	st, err := s.begin(server, session, id, false)
	if err != nil {
		return nil, err
	}
	r, err := next(ctx, methodSubscribe, req) // tell goes by the SDK's own list
	if err != nil {
		return nil, err
	}
	if err := st.subscribe(ctx, p.URI); err != nil {
		_, undo := next(ctx, methodUnsubscribe, &mcp.UnsubscribeRequest{Session: session, Params: &mcp.UnsubscribeParams{URI: p.URI}})
		return nil, errors.Join(err, undo)
	}
	return r, nil
}

// listen is subscriptions/listen of the newer era. What can't be subscribed to is left
// out of the acknowledgement. The request is answered when the subscription is over.
func (s *Server) listen(ctx context.Context, server *mcp.Server, session *mcp.ServerSession, id edge.Identity, p *mcp.SubscriptionsListenParams,
	next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	st, err := s.begin(server, session, id, true)
	if err != nil {
		return nil, err
	}
	defer st.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(st.ctx, cancel)()
	wanted := *p.Notifications
	wanted.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(wanted.ResourceSubscriptions), func(uri string) bool {
		if _, _, ours := s.objectAt(uri); !ours {
			return s.Native == nil
		}
		return st.subscribe(ctx, uri) != nil
	})
	p.Notifications = &wanted
	return next(context.WithValue(ctx, listenKey{}, st), methodListen, req)
}
