package mirror

import "sync"

// What happened to an object.
const (
	Updated = "updated" // there is a new state to read
	Removed = "removed" // a tombstone took its place
	Denied  = "denied"  // hidden until it was fetched again
	Lost    = "lost"    // changes were dropped for this watcher: take all for changed
)

// A Change names an object and nothing of its content.
type Change struct {
	Type       string
	Tenant     string
	Provider   string
	Connection string
	Container  string // of Updated, and of Denied when ID is empty; empty then: all of the connection
	ID         string
	Seq        int64 // of the connection; grows with each change
}

type watchers struct {
	mu  sync.Mutex
	all map[*watcher]bool
}

type watcher struct {
	tenant, connection string
	changes            chan Change
	most               int
	lost               bool
}

// Watch tells of the changes that this process makes to a connection's objects,
// after their commit. It holds up to most of them (zero: 64), and then one Lost
// in place of those that followed: no watcher delays an apply. Stop closes the
// channel.
func (m *Mirror) Watch(tenant, connection string, most int) (changes <-chan Change, stop func()) {
	if most <= 0 {
		most = 64
	}
	w := &watcher{tenant: tenant, connection: connection, changes: make(chan Change, most+1), most: most}
	m.watchers.mu.Lock()
	defer m.watchers.mu.Unlock()
	if m.watchers.all == nil {
		m.watchers.all = map[*watcher]bool{}
	}
	m.watchers.all[w] = true
	return w.changes, func() {
		m.watchers.mu.Lock()
		defer m.watchers.mu.Unlock()
		if m.watchers.all[w] {
			delete(m.watchers.all, w)
			close(w.changes)
		}
	}
}

func (ws *watchers) tell(c Change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if w.tenant != c.Tenant || w.connection != c.Connection {
			continue
		}
		// The last place is for Lost alone, so there is always room for it.
		switch {
		case len(w.changes) < w.most:
			w.lost = false
			w.changes <- c
		case !w.lost && len(w.changes) == w.most:
			w.lost = true
			w.changes <- Change{Type: Lost, Tenant: c.Tenant, Provider: c.Provider, Connection: c.Connection}
		}
	}
}
