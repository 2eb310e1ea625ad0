package kit_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

// notesBooks is what a team writes for an organisation of its own.
type notesBooks struct{}

func (notesBooks) Seed(ctx context.Context, api kit.API, o kit.Object) (string, error) {
	var made note
	err := api.Do(ctx, http.MethodPost, "/seed", noteDraft{o.Title + "\n" + o.Body}, &made)
	return made.ID, err
}

func (notesBooks) Count(ctx context.Context, api kit.API, marker string) (n int, _ error) {
	var all []note
	err := api.Do(ctx, http.MethodGet, "/all", nil, &all)
	for _, one := range all {
		if strings.Contains(one.Text, marker) {
			n++
		}
	}
	return n, err
}

// An organisation that is there, over TLS, named by the environment alone. The
// server plays it: the report says real system, because the harness can't tell.
// Guarantee: TST1
func TestOrganisationFromTheEnvironment(t *testing.T) {
	p := &notesProvider{notes: map[string]note{}, owners: map[string]string{}, made: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /seed", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/notes"
		r.Header.Set("Idempotency-Key", rand.Text())
		p.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /all", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = json.NewEncoder(w).Encode(slices.Collect(maps.Values(p.notes))) // a client that has gone
	})
	mux.Handle("/", p)
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.FromEnv("NOTES", notesBooks{}); !errors.Is(err, kit.ErrNoOrganisation) {
		t.Fatalf("without variables: %v", err)
	}
	t.Setenv("NOTES_URL", server.URL)
	if _, err := kit.FromEnv("NOTES", notesBooks{}); err == nil || errors.Is(err, kit.ErrNoOrganisation) || !strings.Contains(err.Error(), "NOTES_TOKEN") {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("NOTES_TOKEN", notesKeys[kit.Owner])
	t.Setenv("NOTES_ROOTS", roots)
	t.Setenv("NOTES_VERSION", "v1")
	h, err := kit.FromEnv("NOTES", notesBooks{})
	if err != nil {
		t.Fatal(err)
	}
	r := kit.Run(t, kit.Subject{
		Connector: notes(), Harness: h,
		Read:  kit.Use{Tool: "notes.get", Arguments: func(id, _ string) any { return map[string]string{"id": id} }},
		Write: kit.Use{Tool: "notes.create", Arguments: func(text, _ string) any { return map[string]string{"text": text} }},
	})
	if r.Evidence != kit.RealSystem || r.Provider != "notes" || r.ProviderVersion != "v1" {
		t.Errorf("%s against %s %s", r.Evidence, r.Provider, r.ProviderVersion)
	}
	for _, o := range r.Checks {
		if o.ID == "B7" && (o.Result != kit.NotClaimed || o.Why == "") || (o.ID == "E5" || o.ID == "W0") && o.Result != kit.Passed {
			t.Errorf("%s is %s (%s)", o.ID, o.Result, o.Why)
		}
	}
}
