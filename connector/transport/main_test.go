package transport

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is the token of every test; it must turn up nowhere but on the wire.
const canary = "canary-7f3d-token"

// tokens hands out versions from 1; a rejected version gets the next.
type tokens struct{}

type token int64

func (v token) Version() int64 { return int64(v) }

func (v token) Apply(r *http.Request) error {
	r.Header.Set("Authorization", fmt.Sprintf("Bearer %s-%d", canary, v))
	return nil
}

func (t *tokens) Authorize(_ context.Context, _ connector.Connection, rejected int64) (Credential, error) {
	return token(rejected + 1), nil
}

var alice = connector.Connection{ID: "conn-1", Tenant: "acme", Principal: "alice", Profile: "org"}

// quick keeps waits out of tests that are not about them.
func quick(p Profile) Profile {
	p.Limits.Rate, p.Limits.Burst = 1e6, 1e6
	p.Limits.Read, p.Limits.Write = 5*time.Second, 5*time.Second
	return p
}

// newTransport serves one profile named org.
func newTransport(t testing.TB, p Profile) *Transport {
	t.Helper()
	tr, err := New(Config{Profiles: Static{"org": p}, Credentials: &tokens{}})
	if err != nil {
		t.Fatal(err)
	}
	tr.firstWait = 2 * time.Millisecond
	t.Cleanup(tr.Close)
	return tr
}

func read(path string) connector.Request { return connector.Request{Path: path} }

func write(path, body string) connector.Request {
	return connector.Request{Method: http.MethodPost, Path: path, Body: []byte(body)}
}
