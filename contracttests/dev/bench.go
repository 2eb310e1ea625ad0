package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
	"github.com/drawbridge-dev/drawbridge/operations"
)

// A Bench is a connector in the full runtime, one person's connection, and the
// provider behind a proxy. All fields are required, except CredentialHeader.
type Bench struct {
	Connector connector.Connector
	Provider  string // what people call it
	Caller    connector.Caller
	Ledger    *operations.Ledger
	Proxy     *fault.Proxy
	// CredentialHeader carries the credential, if it is not Authorization.
	CredentialHeader string
	// Runtime is the one in force. Fresh puts another one in its place, without the
	// breakers, cool-downs and faults of before; nothing runs while it does.
	Runtime func() *connector.Runtime
	Fresh   func() error
	// Log is all that operators could read so far.
	Log func() string
}

// A Greeting is where the pages are. SignIn is a secret: it lets in whoever opens
// it first, within ten minutes.
type Greeting struct {
	URL    string `json:"url"`
	SignIn string `json:"sign_in"`
}

// Serve listens on a loopback address, such as 127.0.0.1:0, greets, and serves
// until ctx ends. Requests under way are then cut off.
func Serve(ctx context.Context, b Bench, address string, greet func(Greeting)) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("%q is no loopback address with a port, such as 127.0.0.1:0", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := newServer(b, listener.Addr().String())
	calls, stop := context.WithCancel(ctx)
	defer stop()
	web := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return calls },
		ErrorLog:    log.New(io.Discard, "", 0), // it would print bytes of whoever connects
	}
	var serving sync.WaitGroup
	failed := make(chan error, 1)
	serving.Go(func() { failed <- web.Serve(listener) })
	greet(Greeting{s.base, s.base + "/enter?t=" + s.door.link})
	select {
	case err = <-failed:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err = web.Shutdown(grace); err != nil {
			err = errors.Join(err, web.Close())
		}
	}
	serving.Wait()
	stop()
	s.runtime.Lock() // the last call is over
	defer s.runtime.Unlock()
	return err
}

// server is the pages over one bench.
type server struct {
	bench Bench
	base  string // http://127.0.0.1:PORT
	host  string
	door  *door
	pages pageSet

	// runtime is held for reading by calls and for writing while the runtime is
	// replaced.
	runtime sync.RWMutex

	mu     sync.Mutex
	calls  []*call // the last ones, oldest first
	count  int     // calls so far
	faults []*armed
}

func newServer(b Bench, host string) *server {
	s := &server{bench: b, base: "http://" + host, host: host, door: newDoor()}
	s.pages = s.parsePages()
	return s
}
