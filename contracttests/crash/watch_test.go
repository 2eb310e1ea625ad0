package crash

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"sync"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// watch names the moments between the steps of a write.
type watch struct {
	at func(point string)

	mu       sync.Mutex
	finished int
}

func (w *watch) reached(point string) {
	if w.at != nil {
		w.at(point)
	}
}

type watchedLedger struct {
	connector.Operations
	*watch
}

func (l *watchedLedger) Propose(ctx context.Context, p connector.Proposal) (connector.OperationRecord, error) {
	l.reached("propose:before")
	rec, err := l.Operations.Propose(ctx, p)
	l.reached("propose:after")
	return rec, err
}

func (l *watchedLedger) Dispatch(ctx context.Context, tenant connector.TenantID, id connector.OperationID, authz int64) (connector.Claim, error) {
	c, err := l.Operations.Dispatch(ctx, tenant, id, authz)
	l.reached("dispatch:after")
	return c, err
}

func (l *watchedLedger) Finish(ctx context.Context, c connector.Claim, o connector.Outcome) (connector.OperationRecord, error) {
	rec, err := l.Operations.Finish(ctx, c, o)
	l.mu.Lock()
	l.finished++
	n := l.finished
	l.mu.Unlock()
	l.reached(fmt.Sprintf("finish%d:after", n))
	return rec, err
}

type watchedTransport struct {
	connector.Transport
	*watch
}

func (t *watchedTransport) Do(ctx context.Context, c connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	resp, err := t.Transport.Do(ctx, c, class, r)
	if class == connector.ClassWrite {
		t.reached("write:after")
	} else {
		t.reached("read:after")
	}
	return resp, err
}

func loopback(raw string) ([]transport.PrivateException, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return []transport.PrivateException{{Host: u.Hostname(), Prefix: netip.PrefixFrom(addr, addr.BitLen()), Port: uint16(port)}}, err
}
