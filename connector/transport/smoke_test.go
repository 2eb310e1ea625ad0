package transport

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

func TestSmoke(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") == "Bearer "+canary+"-1" {
			w.WriteHeader(401)
			return
		}
		w.Write([]byte(`{"a":1}`))
	}))
	defer s.Close()
	tr := newTransport(t, Loopback("org", s.URL))
	r, err := tr.Do(t.Context(), alice, connector.ClassRead, read("/x"))
	t.Logf("%+v %v", r, err)
	r, err = tr.Do(t.Context(), alice, connector.ClassWrite, write("/x", "{}"))
	t.Logf("%+v %v", r, err)
	r, err = tr.Exchange(t.Context(), "org", Exchange{URL: s.URL + "/token", Form: map[string][]string{"a": {"b"}}})
	t.Logf("%+v %v", r, err)
}
