package quotas

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

type noToken struct{}

func (noToken) Authorize(context.Context, connector.Connection, int64) (transport.Credential, error) {
	return noToken{}, nil
}
func (noToken) Apply(*http.Request) error { return nil }
func (noToken) Version() int64            { return 1 }

// Guarantee: NET6
// What one replica was told by the provider another one honours unasked (G22).
func TestSecondReplicaDoesNotAskAgain(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		defer s.Close()
		do := func(connection string, write bool) (connector.Response, error) {
			tr, err := transport.New(transport.Config{
				Profiles: transport.Static{"org": transport.Loopback("org", s.URL)}, Credentials: noToken{},
				Cooldowns: replica(t, d.Open(Migrations())),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			conn := connector.Connection{ID: connector.ConnectionID(connection), Tenant: "acme", Profile: "org"}
			if write {
				return tr.Do(t.Context(), conn, connector.ClassWrite, connector.Request{Method: "POST", Path: "/tickets"})
			}
			return tr.Do(t.Context(), conn, connector.ClassRead, connector.Request{Path: "/search"})
		}
		if resp, err := do("conn-1", false); err != nil || resp.Status != 429 {
			t.Fatalf("status %d, %v", resp.Status, err)
		}
		for _, write := range []bool{false, true} {
			resp, err := do("conn-1", write)
			e := connector.AsError(err)
			if e == nil || e.Code != connector.CodeRateLimited || e.RetryAfter < 50*time.Minute || len(resp.Attempts) != 0 {
				t.Errorf("the second replica: %v after %d attempts, want RATE_LIMITED after none", err, len(resp.Attempts))
			}
			if write && e.Effect != connector.DispositionNotApplied {
				t.Errorf("effect %v", e.Effect)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the provider was asked %d times, want once", n)
		}
		if resp, err := do("conn-2", false); err != nil || resp.Status != 429 {
			t.Errorf("another connection: status %d, %v", resp.Status, err)
		}
	})
}
