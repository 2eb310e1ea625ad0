package contracttests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// SandboxOrg is the ticket organisation of this module, in this process: a real
// server on a port of this machine, with levers for everything.
func SandboxOrg() Harness { return sandboxHarness{} }

type sandboxHarness struct{}

func (sandboxHarness) Start(ctx context.Context) (Org, error) {
	s, err := sandbox.Start(ctx, sandbox.Config{Seed: 1, Tickets: 1})
	if err != nil {
		return nil, err
	}
	return &sandboxOrg{Server: s}, nil
}

type sandboxOrg struct {
	*sandbox.Server
	behaviour sandbox.Behaviour
}

func (o *sandboxOrg) Facts() Facts {
	url := o.URL()
	return Facts{
		System: "sandbox", Version: program(), Evidence: Sandbox, URL: url,
		OAuth: &credentials.Provider{Issuer: url, AuthorizationURL: url + "/oauth/authorize", TokenURL: url + "/oauth/token",
			RevocationURL: url + "/oauth/revoke", IssAdvertised: true, ClientID: "drawbridge-cli", Method: credentials.AuthNone},
		People: []Person{o.person("alice", "acme"), o.person("carol", "globex")},
		Hidden: "SEC-1", Absent: "SEC-999999",
	}
}

func (o *sandboxOrg) person(login, tenant string) Person {
	users := o.Users()
	password := users[slices.IndexFunc(users, func(u sandbox.User) bool { return u.Login == login })].Password
	return Person{Tenant: tenant, Name: login, Login: func(ctx context.Context, authorize string) (*url.URL, error) {
		return sandbox.Login(ctx, &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, authorize, login, password, true)
	}}
}

func (o *sandboxOrg) Seed(_ context.Context, word string, n int) error {
	project, title := "orders", "Seeded "+word
	for range n {
		if _, err := o.AddTicket(sandbox.Seed{Project: &project, Title: &title}); err != nil {
			return err
		}
	}
	return nil
}

func (o *sandboxOrg) Made(_ context.Context, mark string) (ids []string, err error) {
	for _, t := range o.Tickets() {
		if strings.Contains(t.Title, mark) || strings.Contains(t.Body, mark) {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}

func (o *sandboxOrg) change(edit func(*sandbox.Switches)) error {
	edit(&o.behaviour.Switches)
	return o.SetBehaviour(o.behaviour)
}

func (o *sandboxOrg) Faults() Faults {
	return Faults{
		Expire: func(context.Context) error { o.ExpireAccessTokens(); return nil },
		Revoke: func(_ context.Context, p Person) error {
			if o.RevokeUser(p.Name) == 0 {
				return errors.New("the person has granted nothing")
			}
			return nil
		},
		Lag: func(_ context.Context, d time.Duration) error {
			return o.change(func(s *sandbox.Switches) { s.IndexLagMS = int(d.Milliseconds()) })
		},
		Position: func(_ context.Context, text string) error {
			return o.change(func(s *sandbox.Switches) { s.ConstantCursor = text })
		},
		Drop: func(_ context.Context, on bool) error {
			return o.change(func(s *sandbox.Switches) {
				if s.DropFields = nil; on {
					s.DropFields = []string{"evidence"}
				}
			})
		},
		Dropped: func(arguments map[string]any) { arguments["evidence"] = []string{"WEB-1"} },
		Secrets: func() []string {
			private := o.private()
			return slices.DeleteFunc(o.Canaries(), func(s string) bool { return slices.Contains(private, s) })
		},
		Private: o.private,
	}
}

// private are the texts that the API shows and a connector must not.
func (o *sandboxOrg) private() (all []string) {
	for _, t := range o.Tickets() {
		all = append(all, t.PrivateNotes, t.RequesterEmail, t.RequesterPhone)
	}
	for _, u := range o.Users() {
		all = append(all, u.Email, u.Phone)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// program names the code that ran: what holds the embedded sandbox.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	f, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return "embedded in program sha256:" + hex.EncodeToString(h.Sum(nil))[:16]
})
