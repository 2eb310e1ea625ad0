package notices

import (
	"context"
	"slices"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/webhooks/mirror"
)

// A Notice names what changed. Type is one of mirror's: Updated, Removed, Denied or
// Lost.
type Notice struct {
	Type      string
	Container string // of Updated; of Denied when ID is empty
	ID        string // empty: all of Container, or of the connection if that is empty too
	Seq       int64  // a position to watch on from; see Watch
}

// Now is the position of who wants to hear of what comes, and not of what was.
const Now = -1

// Authorize finds the connection that somebody may see the objects of now, or fails
// as a call of theirs would.
type Authorize func(context.Context) (connector.Connection, error)

// A Watcher reads the changes of one connection. It is for one goroutine at a time.
type Watcher struct {
	log       *Log
	authorize Authorize
	conn      connector.Connection
	after     int64 // the last that was handed out or skipped
	read      []Notice
	wake      <-chan mirror.Change
	stop      func()
}

// Watch begins after a position: Now, or the Seq of a notice of the same connection.
// A position that is too old begins with Lost. Close has to be called.
func (l *Log) Watch(ctx context.Context, authorize Authorize, after int64) (*Watcher, error) {
	c, err := authorize(ctx)
	if err != nil {
		return nil, err
	}
	w := &Watcher{log: l, authorize: authorize, conn: c, after: after}
	// Before the position is read: what comes in between wakes.
	w.wake, w.stop = l.c.Mirror.Watch(string(c.Tenant), string(c.ID), 1)
	if after < 0 {
		if _, w.after, _, err = l.read(ctx, string(c.Tenant), string(c.ID), 0); err != nil {
			w.stop()
			return nil, err
		}
	}
	return w, nil
}

// Connection is the one that is watched.
func (w *Watcher) Connection() connector.ConnectionID { return w.conn.ID }

// Close frees what the watcher holds. Next is not called again.
func (w *Watcher) Close() { w.stop() }

// Next waits for a change. It fails when the context ends, and at once or after
// PollEvery when the connection may not be seen any more; nothing is lost when it is
// called again after another fault.
func (w *Watcher) Next(ctx context.Context) (Notice, error) {
	poll := time.NewTicker(w.log.c.PollEvery)
	defer poll.Stop()
	for {
		n, ok, err := w.next(ctx)
		if ok || err != nil {
			return n, err
		}
		select {
		case <-ctx.Done():
			return Notice{}, ctx.Err()
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// next hands out what there is.
func (w *Watcher) next(ctx context.Context) (n Notice, ok bool, err error) {
	var end int64
	lost := false
	if len(w.read) == 0 {
		if w.read, end, lost, err = w.log.read(ctx, string(w.conn.Tenant), string(w.conn.ID), w.after); err != nil {
			return Notice{}, false, err
		}
	}
	// After the read: what is handed out was known to be allowed since it was found.
	c, err := w.authorize(ctx)
	switch {
	case err != nil:
		return Notice{}, false, err
	case c.ID != w.conn.ID || c.Tenant != w.conn.Tenant:
		return Notice{}, false, connector.Fail(connector.CodeConnectionRequired, "another connection has taken the place of the one that was watched")
	case c.AuthzVersion != w.conn.AuthzVersion:
		// Names from before belong to what was allowed then. To be told of the
		// new authorization is to take everything for changed.
		if _, end, _, err = w.log.read(ctx, string(c.Tenant), string(c.ID), w.after); err != nil {
			return Notice{}, false, err
		}
		w.conn, lost = c, true
	}
	if lost {
		w.read, w.after = nil, end
		return Notice{Type: mirror.Lost, Seq: end}, true, nil
	}
	for len(w.read) > 0 {
		n, w.read = w.read[0], w.read[1:]
		w.after = n.Seq
		if n.Type != mirror.Updated || slices.Contains(w.conn.Resources, n.Container) {
			return n, true, nil
		}
	}
	return Notice{}, false, nil
}
