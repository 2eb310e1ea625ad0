package kit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// What an author writes.
// Guarantee: TST1
func TestNotesConnector(t *testing.T) {
	t.Parallel()
	r := kit.Run(t, kit.Subject{
		Connector: notes(),
		Harness:   notesHarness{},
		Read:      kit.Use{Tool: "notes.get", Arguments: func(id, _ string) any { return map[string]string{"id": id} }},
		Write:     kit.Use{Tool: "notes.create", Arguments: func(text, _ string) any { return map[string]string{"text": text} }},
	})
	// It has no list and no containers: their checks must not pass by themselves.
	for _, o := range r.Checks {
		switch o.ID {
		case "D0", "D1", "D2", "D3", "D4", "B2", "B8", "D7", "A3", "A4":
			if o.Result != kit.NotClaimed || o.Why == "" {
				t.Errorf("%s is %s (%s), want not claimed", o.ID, o.Result, o.Why)
			}
		case "R0", "W0", "E4", "E5", "E7", "E9", "B7":
			if o.Result != kit.Passed {
				t.Errorf("%s is %s (%s), want passed", o.ID, o.Result, o.Why)
			}
		}
	}
}

type note struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type noteDraft struct {
	Text string `json:"text"`
}

// notes is a connector as drawbridge new writes it, for keys.
func notes() connector.Connector {
	read, write := []string{"notes:read"}, []string{"notes:read", "notes:write"}
	return connector.Connector{
		ID: "notes", Version: "0.1.0", Owner: "tests", Provider: "notes", ProviderVersion: "v1",
		Auth: connector.Auth{Kind: "api_key", Scopes: write},
		Identify: func(ctx context.Context, a *connector.Access) (connector.Identity, error) {
			me, _, err := connector.Get[struct {
				ID string `json:"id"`
			}](ctx, a, connector.Request{Path: "/me"})
			return connector.Identity{Account: connector.Account{Subject: me.ID, Login: me.ID}, Scopes: write}, err
		},
		Operations: []connector.Operation{
			connector.Read(connector.Spec{Name: "notes.get", Title: "Get a note", Doc: "Reads one note.",
				Effect: connector.EffectRead, Sensitivity: connector.SensitivityInternal, Scopes: read},
				func(ctx context.Context, a *connector.Access, in struct {
					ID string `json:"id"`
				}) (note, error) {
					n, _, err := connector.Get[note](ctx, a, connector.Request{Path: "/notes/" + url.PathEscape(in.ID)})
					if err == nil && n.ID != in.ID {
						err = connector.Fail(connector.CodeProviderContract, "another note")
					}
					return n, err
				}),
			connector.Write(connector.Spec{Name: "notes.create", Title: "Create a note", Doc: "Proposes one note.",
				Effect: connector.EffectCompensable, Sensitivity: connector.SensitivityInternal, Scopes: write},
				connector.Steps[noteDraft, note]{
					Plan: func(_ context.Context, _ *connector.Access, in noteDraft) (connector.Request, error) {
						body, err := json.Marshal(in)
						return connector.Request{Method: http.MethodPost, Path: "/notes", ContentType: "application/json", Body: body, Summary: "Create a note"}, err
					},
					Decode: connector.DecodeJSON[note], ID: func(n note) string { return n.ID },
					Find: func(ctx context.Context, a *connector.Access, id connector.OperationID, _ noteDraft) (note, connector.Found, error) {
						made, _, err := connector.Get[struct {
							Note     *note `json:"note"`
							Complete bool  `json:"complete"`
						}](ctx, a, connector.Request{Path: "/operations/" + url.PathEscape(string(id))})
						switch {
						case err != nil:
							return note{}, connector.CannotTell, err
						case made.Note != nil:
							return *made.Note, connector.FoundYes, nil
						case made.Complete:
							return note{}, connector.FoundNo, nil
						}
						return note{}, connector.CannotTell, nil
					},
					Dedupe: connector.Dedupe{Kind: connector.DedupeHeader, Name: "Idempotency-Key"},
				}),
		},
	}
}

// notesHarness is a provider with keys, in this process.
type notesHarness struct{}

func (notesHarness) Start(context.Context, string, int64) (kit.Provider, error) {
	p := &notesProvider{notes: map[string]note{}, owners: map[string]string{}, made: map[string]string{}}
	p.Server = httptest.NewServer(p)
	return p, nil
}

type notesProvider struct {
	*httptest.Server
	mu     sync.Mutex
	notes  map[string]note
	owners map[string]string // note to account
	made   map[string]string // key of a write to note
}

var notesKeys = map[kit.Person]string{kit.Owner: "key-of-ana-0123456789", kit.Stranger: "key-of-ben-0123456789"}

func (p *notesProvider) Facts() kit.Facts {
	return kit.Facts{Name: "notes", Version: "v1", Evidence: kit.Sandbox, URL: p.URL,
		SignIn: credentials.Provider{Kind: credentials.KindStatic}}
}

func (p *notesProvider) Connect(ctx context.Context, s *credentials.Service, c connector.Caller, who kit.Person, w kit.Wish) (connector.Connection, error) {
	return kit.WithKey(ctx, s, c, w, credentials.NewSecret(notesKeys[who]))
}

func (p *notesProvider) Seed(_ context.Context, o kit.Object) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(notesKeys[kit.Owner], o.Title+"\n"+o.Body).ID, nil
}

func (p *notesProvider) add(owner, text string) note {
	n := note{ID: fmt.Sprint("n", len(p.notes)+1), Text: text}
	p.notes[n.ID], p.owners[n.ID] = n, owner
	return n
}

func (p *notesProvider) Count(_ context.Context, marker string) (n int, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.notes {
		if strings.Contains(one.Text, marker) {
			n++
		}
	}
	return n, nil
}

func (p *notesProvider) Close() error {
	p.Server.Close()
	return nil
}

func (p *notesProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // a client that has gone
	}
	who := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	_, last, _ := strings.Cut(r.URL.Path[1:], "/")
	switch {
	case who != notesKeys[kit.Owner] && who != notesKeys[kit.Stranger]:
		answer(http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
	case r.URL.Path == "/me":
		answer(http.StatusOK, map[string]string{"id": who[len("key-of-"):len("key-of-ana")]})
	case r.Method == http.MethodPost && r.URL.Path == "/notes":
		key := r.Header.Get("Idempotency-Key")
		if _, ok := p.made[key]; !ok {
			var d noteDraft
			_ = json.NewDecoder(r.Body).Decode(&d) // an empty note then
			p.made[key] = p.add(who, d.Text).ID
		}
		answer(http.StatusCreated, p.notes[p.made[key]])
	case strings.HasPrefix(r.URL.Path, "/notes/") && p.owners[last] == who:
		answer(http.StatusOK, p.notes[last])
	case strings.HasPrefix(r.URL.Path, "/operations/"):
		found := map[string]any{"complete": true}
		if n, ok := p.notes[p.made[last]]; ok {
			found["note"] = n
		}
		answer(http.StatusOK, found)
	default:
		answer(http.StatusNotFound, map[string]string{"error": "not found"})
	}
}
