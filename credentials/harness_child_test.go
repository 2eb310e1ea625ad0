package credentials

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

// childVariable makes the test binary one process of the refresh harness.
const childVariable = "DRAWBRIDGE_HARNESS_CHILD"

// childOrder is the first line that a child reads. Then it says "ready", and
// starts when it reads another line.
type childOrder struct {
	Database    string
	Keys        string
	Server      string
	Issuer      string
	Connections []connector.Connection

	Goroutines  int           // per connection
	Calls       int           // of each goroutine; zero: until For is over
	For         time.Duration //
	Lease       time.Duration
	HTTPTimeout time.Duration
	Guard       time.Duration

	CrashAt int // the process kills itself when this answer to a refresh has come; zero: never
	PauseAt int // and is held up for Pause after this claim
	Pause   time.Duration
}

// childResult is the line that a child ends with.
type childResult struct {
	Calls   int            // that a business request answered with 200
	Codes   map[string]int // of the others
	Unfit   int            // business requests that a token was given for and that were refused
	Crashed bool
}

func harnessChild() int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var o childOrder
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "order:", err)
		return 2
	}
	result, err := o.run(func() error {
		fmt.Println("ready")
		_, err := in.ReadBytes('\n')
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

func (o *childOrder) run(ready func() error) (*childResult, error) {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Config{URL: o.Database, MaxConns: 6})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	ring, err := keys.Parse(o.Keys)
	if err != nil {
		return nil, err
	}
	var guarded *transport.Transport
	var name string
	var answers, claims atomic.Int32
	service, err := New(Config{
		DB: db, Keys: ring, HTTPTimeout: o.HTTPTimeout, Lease: o.Lease, Guard: o.Guard, RetryBase: 100 * time.Millisecond, RetryCap: time.Second,
		Providers: []Provider{harnessProvider(o.Server, o.Issuer)},
		Exchanger: ExchangerFunc(func(ctx context.Context, profile string, x transport.Exchange) (connector.Response, error) {
			resp, err := guarded.Exchange(ctx, profile, x)
			if err == nil && o.CrashAt > 0 && int(answers.Add(1)) >= o.CrashAt {
				held, again, err := holding(ctx, db, name)
				// A second crash over the same token would outlast any grace.
				if err == nil && held > 0 && !again {
					fmt.Println("holding", held)
					dieNow()
				}
			}
			return resp, err
		}),
	})
	if err != nil {
		return nil, err
	}
	defer service.Close()
	name = service.owner
	if o.PauseAt > 0 {
		service.claimed = func() {
			if int(claims.Add(1)) == o.PauseAt {
				time.Sleep(o.Pause)
			}
		}
	}
	profile := transport.Loopback("org", o.Server)
	profile.Limits.Rate, profile.Limits.Burst, profile.Limits.Concurrency, profile.Limits.Queue = 1e6, 1e6, 256, 4096
	guarded, err = transport.New(transport.Config{Profiles: transport.Static{"org": profile}, Credentials: service})
	if err != nil {
		return nil, err
	}
	defer guarded.Close()
	if err := ready(); err != nil {
		return nil, err
	}

	out := &childResult{Codes: make(map[string]int)}
	var mu sync.Mutex
	var all sync.WaitGroup
	until := time.Now().Add(o.For)
	for _, c := range o.Connections {
		for range o.Goroutines {
			all.Go(func() {
				for n := 0; o.Calls == 0 && time.Now().Before(until) || n < o.Calls; n++ {
					patience := time.Minute
					if o.Calls == 0 {
						patience = min(patience, time.Until(until)+500*time.Millisecond)
					}
					ok, code := childCall(ctx, patience, service, guarded, c)
					mu.Lock()
					if ok {
						out.Calls++
					} else {
						out.Codes[code]++
						if code == "unfit" {
							out.Unfit++
						}
					}
					mu.Unlock()
					if o.Calls == 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
	}
	all.Wait()
	return out, nil
}

// childCall is one call as a connector makes it: a credential, then a request.
func childCall(ctx context.Context, patience time.Duration, s *Service, guarded *transport.Transport, c connector.Connection) (bool, string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := s.Authorize(ctx, c, 0); err != nil {
		return false, connector.CodeOf(err).String()
	}
	resp, err := guarded.Do(ctx, c, connector.ClassRead, connector.Request{Path: "/api/v1/me"})
	switch {
	case err != nil && connector.CodeOf(err) == connector.CodeConnectionRequired:
		return false, connector.CodeOf(err).String() // it ended between the two
	case err != nil:
		return false, connector.CodeOf(err).String()
	case resp.Status != http.StatusOK:
		return false, "unfit"
	}
	return true, ""
}

// holding counts the claims of this process, which all die with it, and tells
// whether one of them is a replay already.
func holding(ctx context.Context, db *store.DB, owner string) (held int, replay bool, err error) {
	var unknown int
	err = db.QueryRowFor(ctx, store.AllTenants(), `SELECT count(*), coalesce(max(unknown_count), 0) FROM cred_tokens WHERE phase = 'claimed' AND lease_owner = ?`, owner).Scan(&held, &unknown)
	return held, unknown > 0, err
}

// dieNow ends the process as a power cut would: no deferred call, no flush.
func dieNow() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		p.Kill()
	}
	select {}
}

func harnessProvider(server, issuer string) Provider {
	return Provider{
		ID: "tickets", Profile: "org", Issuer: issuer, IssAdvertised: true,
		AuthorizationURL: server + "/oauth/authorize", TokenURL: server + "/oauth/token", RevocationURL: server + "/oauth/revoke",
		ClientID: "drawbridge-cli", Method: AuthNone,
		Scopes: []string{"tickets:read", "profile:read", "offline_access"},
	}
}
