package kit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// SandboxOrg runs the sandbox ticket organisation in this process: a real HTTP
// server with OAuth, made for tests. It serves any connector that speaks its API.
func SandboxOrg() Harness { return sandboxOrg{} }

type sandboxOrg struct{}

func (sandboxOrg) Start(_ context.Context, _ string, seed int64) (Provider, error) {
	// Started apart from the caller's context, because Close ends it.
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: seed})
	return orgProvider{org}, err
}

type orgProvider struct{ *sandbox.Server }

var orgLogins = map[Person]string{Owner: "bob", Stranger: "carol"}

func (o orgProvider) Facts() Facts {
	url := o.URL()
	return Facts{Name: "sandbox organisation", Version: "v1", Digest: programDigest(), Evidence: Sandbox, URL: url, Containers: [2]string{"web", "orders"},
		SignIn: credentials.Provider{Issuer: url, AuthorizationURL: url + "/oauth/authorize", TokenURL: url + "/oauth/token",
			RevocationURL: url + "/oauth/revoke", IssAdvertised: true, ClientID: "drawbridge-cli", Method: credentials.AuthNone}}
}

// programDigest is of this program, which the sandbox is a part of.
var programDigest = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return fmt.Sprintf("part of the program sha256:%x", h.Sum(nil))
})

func (o orgProvider) Connect(ctx context.Context, s *credentials.Service, caller connector.Caller, who Person, w Wish) (connector.Connection, error) {
	users := o.Users()
	i := slices.IndexFunc(users, func(u sandbox.User) bool { return u.Login == orgLogins[who] })
	if i < 0 {
		return connector.Connection{}, errors.New("the sandbox has no such person")
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return SignIn(ctx, s, caller, w, func(ctx context.Context, authorizeURL string) (*url.URL, error) {
		return sandbox.Login(ctx, client, authorizeURL, users[i].Login, users[i].Password, true)
	})
}

func (o orgProvider) Seed(_ context.Context, ob Object) (string, error) {
	made, err := o.AddTicket(sandbox.Seed{Project: &ob.Container, Title: &ob.Title, Body: &ob.Body})
	return made.ID, err
}

func (o orgProvider) Count(_ context.Context, marker string) (n int, _ error) {
	for _, t := range o.Tickets() {
		if strings.Contains(t.Title, marker) {
			n++
		}
	}
	return n, nil
}

func (o orgProvider) Private(context.Context) (texts []string, _ error) {
	for _, t := range o.Tickets() {
		texts = append(texts, t.PrivateNotes, t.RequesterEmail, t.RequesterPhone)
	}
	return texts, nil
}

func (o orgProvider) Retitle(_ context.Context, id, title string) error {
	_, err := o.ChangeTicket(id, sandbox.Seed{Title: &title})
	return err
}

// lag is longer than any settle time that a look-up by an index could bridge in
// a test.
const lag = time.Minute

func (o orgProvider) Lag(on bool) error {
	var s sandbox.Switches
	if on {
		s.IndexLagMS = int(lag.Milliseconds())
	}
	return o.SetBehaviour(sandbox.Behaviour{Switches: s})
}
