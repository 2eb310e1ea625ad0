package credentials

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// outages returns a database URL and what makes that database useless for a
// time: on PostgreSQL every connection is cut and new ones are refused, on
// SQLite another process holds the write lock.
func outages(t *testing.T, d storetest.Database) (string, func(time.Duration)) {
	t.Helper()
	if d.Engine == store.SQLite {
		return d.URL, lockHolder(t, strings.TrimPrefix(d.URL, "sqlite:"))
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := newCutter(t, u.Host)
	u.Host = p.l.Addr().String()
	return u.String(), p.cut
}

func lockHolder(t *testing.T, path string) func(time.Duration) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { all.Wait(); db.Close() })
	return func(d time.Duration) {
		conn, err := db.Conn(context.Background())
		if err == nil {
			_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		}
		if err != nil {
			t.Errorf("take the write lock: %v", err)
			return
		}
		all.Go(func() {
			time.Sleep(d)
			conn.ExecContext(context.Background(), "ROLLBACK")
			conn.Close()
		})
	}
}

// cutter is a TCP proxy that can be away.
type cutter struct {
	l      net.Listener
	target string
	all    sync.WaitGroup

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

func newCutter(t *testing.T, target string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cutter{l: l, target: target, conns: make(map[net.Conn]bool)}
	p.all.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.drop(true)
		p.all.Wait()
	})
	return p
}

func (p *cutter) serve() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		if p.away {
			in.Close()
			out.Close()
		} else {
			p.conns[in], p.conns[out] = true, true
			p.all.Go(func() { p.pipe(in, out) })
			p.all.Go(func() { p.pipe(out, in) })
		}
		p.mu.Unlock()
	}
}

func (p *cutter) pipe(to, from net.Conn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
	p.mu.Lock()
	delete(p.conns, to)
	delete(p.conns, from)
	p.mu.Unlock()
}

func (p *cutter) drop(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	for c := range p.conns {
		if away {
			c.Close()
		}
	}
}

func (p *cutter) cut(d time.Duration) {
	p.drop(true)
	p.all.Go(func() {
		time.Sleep(d)
		p.drop(false)
	})
}
