package webhooks

import (
	"sync"
	"time"
)

// known keeps what was looked up for a second: at full load that is nearly all
// of the work of a request beside its commit. Another process may go on for a
// second or two with an endpoint that was disabled or a secret that was taken out
// of use; the one that did it does not.
type known struct {
	mu      sync.Mutex
	made    map[string]knownEndpoint // by the token's hash; made at the first
	changes int                      // that this process made
}

type knownEndpoint struct {
	addressee
	until time.Time
}

const (
	knownFor = time.Second
	maxKnown = 1000
)

func (k *known) get(hash []byte) (a addressee, ok bool, changes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.made[string(hash)]
	now := time.Now()
	if ok && now.Before(e.until) {
		return e.addressee, true, k.changes
	}
	if ok && now.Before(e.until.Add(knownFor)) {
		// Whoever comes first looks it up; the others go on in the meantime.
		e.until = e.until.Add(knownFor)
		k.made[string(hash)] = e
	}
	return addressee{}, false, k.changes
}

// put keeps what was looked up, unless this process has changed an endpoint
// since then.
func (k *known) put(hash []byte, a addressee, err error, changes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if changes != k.changes {
		return
	}
	if err != nil {
		delete(k.made, string(hash))
		return
	}
	if k.made == nil || len(k.made) >= maxKnown {
		k.made = map[string]knownEndpoint{}
	}
	k.made[string(hash)] = knownEndpoint{a, time.Now().Add(knownFor)}
}

// forget is for who has just changed an endpoint.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made = nil
	k.changes++
}
