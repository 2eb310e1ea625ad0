package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func wantCode(t *testing.T, err error, want connector.Code) {
	t.Helper()
	if connector.CodeOf(err) != want {
		t.Errorf("err = %v, want %v", err, want)
	}
}

// W05, W06: a secret that can't be what the provider meant, or that anyone can
// guess, is refused when it is saved.
func TestUnsafeSecretsAreRefused(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	for _, c := range []struct{ scheme, secret string }{
		{"standard", "whsec_"}, {"standard", "v1,whsec_"}, {"standard", "whsec_!!!!"}, {"standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"},
		{"standard", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {"standard", "whsec_QUFB"}, {"github", "short"}, {"github", " padded with spaces at both ends "},
	} {
		_, err := h.s.Add(t.Context(), AddRequest{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: c.scheme, Secret: c.secret})
		wantCode(t, err, connector.CodeInvalidInput)
		if err != nil && len(c.secret) > 6 && strings.Contains(err.Error(), strings.TrimSpace(c.secret)) {
			t.Errorf("the error shows the secret: %v", err)
		}
		_, err = h.s.Rotate(t.Context(), "acme", h.add(c.scheme, "").Endpoint.ID, c.secret, 0)
		wantCode(t, err, connector.CodeInvalidInput)
	}
	for _, r := range []AddRequest{
		{Tenant: "acme", Provider: "sandbox", Connection: "c1", Scheme: "none"},
		{Provider: "sandbox", Connection: "c1", Scheme: "github"},
		{Tenant: "acme", Connection: "c1", Scheme: "github"},
		{Tenant: "acme", Provider: "sandbox", Scheme: "github"},
	} {
		_, err := h.s.Add(t.Context(), r)
		wantCode(t, err, connector.CodeInvalidInput)
	}
}

// W29: during a rotation both secrets are accepted, afterwards only the new
// one, and somebody can see that the old one is still used.
func TestRotation(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		old := h.add("standard", "")
		rotated, err := h.s.Rotate(t.Context(), "acme", old.Endpoint.ID, "", time.Hour)
		must(t, err)
		if len(rotated.Endpoint.Secrets) != 2 || rotated.Secret == "" || rotated.Secret == old.Secret {
			t.Fatalf("rotated %+v", rotated.Endpoint)
		}
		body := `"orders/1"`
		h.post(http.StatusAccepted, old.Path, standard(old.Secret, "m1", body, time.Now()), body)
		h.post(http.StatusAccepted, old.Path, standard(rotated.Secret, "m2", body, time.Now()), body)
		if n := h.stats().Received["old_secret_used"]; n != 1 {
			t.Errorf("the old secret was used %d times, want once", n)
		}
		by := map[string]string{}
		for _, r := range h.records() {
			by[r.DeliveryID] = r.Secret
		}
		want := map[string]string{"m1": old.Endpoint.Secrets[0].ID, "m2": rotated.Endpoint.Secrets[1].ID}
		if diff := cmp.Diff(want, by); diff != "" {
			t.Errorf("secrets used (-want +got):\n%s", diff)
		}

		// The overlap ends: an hour passes for the row.
		must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE webhook_secret SET not_after = not_after - ? WHERE not_after > 0`, time.Hour.Milliseconds()+1)
			return err
		}))
		h.s.receiver.known.forget()
		h.post(http.StatusUnauthorized, old.Path, standard(old.Secret, "m3", body, time.Now()), body)
		h.post(http.StatusAccepted, old.Path, standard(rotated.Secret, "m4", body, time.Now()), body)

		// A secret that leaked ends at once.
		now, err := h.s.Rotate(t.Context(), "acme", old.Endpoint.ID, "", -1)
		must(t, err)
		if len(now.Endpoint.Secrets) != 1 {
			t.Errorf("secrets %+v, want one", now.Endpoint.Secrets)
		}
		h.post(http.StatusUnauthorized, old.Path, standard(rotated.Secret, "m5", body, time.Now()), body)
		h.post(http.StatusAccepted, old.Path, standard(now.Secret, "m6", body, time.Now()), body)
	})
}

// At most three secrets count at one time, and a second rotation does not make
// an old secret live longer.
func TestRotationIsBounded(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	id := h.github.Endpoint.ID
	first, err := h.s.Rotate(t.Context(), "acme", id, "", time.Hour)
	must(t, err)
	second, err := h.s.Rotate(t.Context(), "acme", id, "", 10*time.Hour)
	must(t, err)
	if a, b := first.Endpoint.Secrets[0].NotAfter, second.Endpoint.Secrets[0].NotAfter; !a.Equal(*b) {
		t.Errorf("the oldest secret ends at %v, was to end at %v", b, a)
	}
	_, err = h.s.Rotate(t.Context(), "acme", id, "", time.Hour)
	wantCode(t, err, connector.CodeConflict)
	_, err = h.s.Rotate(t.Context(), "acme", id, "", 31*24*time.Hour)
	wantCode(t, err, connector.CodeInvalidInput)
}

// What another process changes counts after a second or two, what this one
// changes at once, whatever is being looked up in that moment.
func TestEndpointsAreLookedUpAgain(t *testing.T) {
	d := storetest.SQLite(t)
	h, other := open(t, d, Config{}), open(t, d, Config{})
	body := `"orders/1"`
	n := 0
	status := func() int {
		n++
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+h.github.Path, strings.NewReader(body))
		must(t, err)
		req.Header = github(fmt.Sprint("d", n), body)
		resp, err := h.client.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(); got != http.StatusAccepted {
		t.Fatalf("status %d", got)
	}
	must(t, other.s.Disable(t.Context(), "acme", h.github.Endpoint.ID))
	for deadline := time.Now().Add(20 * time.Second); status() != http.StatusNotFound; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an endpoint that another process disabled is still accepted")
		}
	}

	hash := tokenHash("late")
	_, _, changes := h.s.receiver.known.get(hash)
	h.s.receiver.known.forget()
	h.s.receiver.known.put(hash, addressee{}, nil, changes)
	if _, ok, _ := h.s.receiver.known.get(hash); ok {
		t.Error("what was looked up before a change is kept")
	}
}

// W06: an endpoint whose secret can't be used accepts nothing, and says that it
// is our fault.
func TestEndpointWithoutSecret(t *testing.T) {
	h := open(t, storetest.SQLite(t), Config{})
	must(t, h.db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM webhook_secret`)
		return err
	}))
	body := `"orders/1"`
	h.post(http.StatusServiceUnavailable, h.github.Path, github("d1", body), body)
	h.wantNothingStored()
}

// Another tenant's endpoint is like none.
func TestEndpointsBelongToATenant(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		id := h.github.Endpoint.ID
		_, err := h.s.Show(t.Context(), "globex", id)
		wantCode(t, err, connector.CodeNotFound)
		_, err = h.s.Rotate(t.Context(), "globex", id, "", 0)
		wantCode(t, err, connector.CodeNotFound)
		wantCode(t, h.s.Disable(t.Context(), "globex", id), connector.CodeNotFound)
		all, err := h.s.Endpoints(t.Context(), "globex")
		must(t, err)
		if len(all) != 0 {
			t.Errorf("globex sees %v", all)
		}
		all, err = h.s.Endpoints(t.Context(), "acme")
		must(t, err)
		if diff := cmp.Diff([]Endpoint{h.github.Endpoint}, all); diff != "" {
			t.Errorf("endpoints (-want +got):\n%s", diff)
		}
		must(t, h.s.Disable(t.Context(), "acme", id))
		must(t, h.s.Disable(t.Context(), "acme", id))
		_, err = h.s.Rotate(t.Context(), "acme", id, "", 0)
		wantCode(t, err, connector.CodeNotFound)
		gone, err := h.s.Show(t.Context(), "acme", id)
		must(t, err)
		if gone.DisabledAt == nil || len(gone.Secrets) != 0 {
			t.Errorf("disabled %+v", gone)
		}
	})
}

// Neither the address nor a secret can be read back, from the database or from
// what operators are shown.
func TestSecretsAreNotStoredInTheClear(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		rotated, err := h.s.Rotate(t.Context(), "acme", h.github.Endpoint.ID, "", 0)
		must(t, err)
		token := strings.TrimPrefix(h.github.Path, PathPrefix)
		var stored bytes.Buffer
		for _, query := range []string{`SELECT id, scheme, token_hash FROM webhook_endpoint`, `SELECT endpoint, id, secret FROM webhook_secret`} {
			must(t, h.db.EachFor(t.Context(), store.AllTenants(), func(row store.Scanner) error {
				var a, b string
				var c []byte
				err := row.Scan(&a, &b, &c)
				stored.WriteString(a + b)
				stored.Write(c)
				return err
			}, query))
		}
		all, err := h.s.Endpoints(t.Context(), "acme")
		must(t, err)
		shown, err := json.Marshal(all)
		must(t, err)
		for _, secret := range []string{githubSecret, rotated.Secret, token} {
			if bytes.Contains(stored.Bytes(), []byte(secret)) || bytes.Contains(shown, []byte(secret)) {
				t.Errorf("%q is there in the clear", secret)
			}
		}
	})
}
