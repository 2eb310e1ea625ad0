package transport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// BenchmarkRead compares the whole stack with a bare http.Client that reads
// the same page. Run with -benchmem.
func BenchmarkRead(b *testing.B) {
	page := `{"items":[` + strings.Repeat(`{"id":"9007199254740993","title":"printer on fire"},`, 35) + `{}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, page)
	}))
	defer s.Close()
	b.Run("http.Client", func(b *testing.B) {
		t := &http.Transport{DisableCompression: true}
		defer t.CloseIdleConnections()
		client := &http.Client{Transport: t}
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL+"/t", nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+canary)
			req.Header.Set("Accept", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || len(body) != len(page) {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
	})
	b.Run("Transport", func(b *testing.B) {
		tr := newTransport(b, quick(Loopback("org", s.URL)))
		r := read("/t")
		b.ReportAllocs()
		for b.Loop() {
			if resp, err := tr.Do(b.Context(), alice, connector.ClassRead, r); err != nil || len(resp.Body) != len(page) {
				b.Fatal(err)
			}
		}
	})
}
