package kit

import (
	"context"
	"slices"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// tap keeps what the provider answered to reads, so that a later answer can be
// made of it.
type tap struct {
	transport connector.Transport
	mu        sync.Mutex
	reads     []connector.Response
}

func (t *tap) Do(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	answer, err := t.transport.Do(ctx, c, class, r)
	if err == nil && class == connector.ClassRead {
		t.mu.Lock()
		t.reads = append(t.reads, answer)
		t.mu.Unlock()
	}
	return answer, err
}

// recorded are the answers that the provider gave while do ran, fit to be given
// again.
func (t *trial) recorded(do func()) []connector.Response {
	p := t.house.tap
	before := len(p.reads)
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	answers := slices.Clone(p.reads[before:])
	for i, a := range answers {
		a.Header = a.Header.Clone()
		for _, name := range []string{"Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Date", "Etag"} {
			a.Header.Del(name)
		}
		answers[i] = a
	}
	return answers
}
