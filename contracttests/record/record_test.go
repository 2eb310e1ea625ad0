package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	access  = "acc-3f9Zq_81kd/+x=="
	refresh = "ref-77aa<&>\"quoted\""
	client  = "client-secret-55"
)

// desk is a provider that hands its secrets out in many places.
func desk(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "sid=cookie-value-9876; HttpOnly")
		w.Header().Set("Link", "<http://"+r.Host+"/notes?page_token="+url.QueryEscape(access)+">; rel=\"next\"")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case "/early":
		// Before the token was named anywhere.
		answer(200, map[string]any{"debug": "cookie " + refresh, "state": "open", "code": 7})
	case "/token":
		answer(200, map[string]any{"a_first": access, "access_token": access, "refresh_token": refresh, "expires_in": 600})
	case "/notes":
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			var in struct {
				Ref string `json:"external_ref"`
			}
			_ = json.Unmarshal(body, &in)
			answer(201, map[string]any{"id": "n1", "external_ref": in.Ref})
			return
		}
		answer(200, map[string]any{"title": "printer", "echo": r.Header.Get("Authorization"), "requester_email": "a@example.org",
			"nested": map[string]any{"session": map[string]any{"id": 12345, "who": "me", "on": true}},
			"packed": base64.StdEncoding.EncodeToString([]byte("x" + client + "y")), "private": "diary", "n": json.Number("9007199254740993")})
	default:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(404)
		_, _ = io.WriteString(w, "<p>no "+access+"</p>")
	}
}

type answer struct {
	Status int
	Type   string
	Body   string
}

func ask(t *testing.T, base, method, path, contentType, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), strings.TrimSpace(string(raw))}
}

// session is what a connector does with a provider, with a token and an
// operation id of its own.
func session(t *testing.T, base, token, op string) (all []answer) {
	t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {"code-" + token}, "client_secret": {client}}.Encode()
	auth := "Bearer " + token
	return append(all,
		ask(t, base, "GET", "/early", "", "", "Authorization", auth),
		ask(t, base, "POST", "/token", "application/x-www-form-urlencoded", form),
		ask(t, base, "GET", "/notes?b=2&a=1", "", "", "Authorization", auth),
		ask(t, base, "POST", "/notes", "application/json", `{"text":"hi","external_ref":"`+op+`"}`, "Authorization", auth),
		ask(t, base, "GET", "/missing?state="+token, "", "", "Authorization", auth))
}

func record(t *testing.T, c Config) (*Recorder, []answer) {
	t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(desk))
	defer provider.Close()
	c.To = provider.URL
	r, err := NewRecorder(c)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(r)
	defer proxy.Close()
	return r, session(t, proxy.URL, access, "op_aaaaaaaa1")
}

// The person at the client gets the true answers, and the file nothing secret,
// whatever the encoding, and also where it came before it was named.
// Guarantee: NET10
func TestNothingSecretIsRecorded(t *testing.T) {
	r, seen := record(t, Config{Names: []string{"Private"}, Canaries: []string{access, refresh, client, "a@example.org", "cookie-value-9876", "diary"}})
	if !strings.Contains(seen[1].Body, "acc-3f9Zq") {
		t.Fatalf("the client got %s", seen[1].Body)
	}
	var file bytes.Buffer
	if err := r.Write(&file); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{access, refresh, client, "a@example.org", "cookie-value-9876", "diary", "12345"} {
		for _, form := range encodings(secret) {
			if strings.Contains(file.String(), form) {
				t.Errorf("the recording holds %.6s... as %.8s...\n%s", secret, form, &file)
			}
		}
	}
	for _, kept := range []string{`"title": "printer"`, `"n": 9007199254740993`, `"state": "open"`, `"code": 7`, `"expires_in": 600`} {
		if !strings.Contains(file.String(), kept) {
			t.Errorf("the recording lacks %s\n%s", kept, &file)
		}
	}
	if r.Len() != 5 {
		t.Errorf("%d exchanges", r.Len())
	}
}

// Guarantee: NET10
func TestACanaryStopsTheFile(t *testing.T) {
	for _, canary := range []string{"printer", "9007199254740993"} {
		r, _ := record(t, Config{Canaries: []string{canary}})
		var file bytes.Buffer
		if err := r.Write(&file); !errors.Is(err, ErrCanary) || file.Len() > 0 || strings.Contains(err.Error(), canary) {
			t.Errorf("error %v, %d bytes written", err, file.Len())
		}
	}
}

// Another token and another operation id find the same answers, in order.
func TestPlayback(t *testing.T) {
	r, _ := record(t, Config{})
	var file bytes.Buffer
	if err := r.Write(&file); err != nil {
		t.Fatal(err)
	}
	rec, err := Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlayer(rec, nil)
	server := httptest.NewServer(p)
	defer server.Close()
	got := session(t, server.URL, "quite-another-token", "op_bbbbbbbb2")
	if len(p.Missed()) > 0 {
		t.Fatalf("missed %v", p.Missed())
	}
	want := []int{200, 200, 200, 201, 404}
	for i, a := range got {
		if a.Status != want[i] {
			t.Errorf("answer %d is %+v", i, a)
		}
	}
	if diff := cmp.Diff(answer{201, "application/json", `{"external_ref":"op_bbbbbbbb2","id":"n1"}`}, got[3]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(answer{404, "text/html", "<p>no [scrubbed]</p>"}, got[4]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := ask(t, server.URL, "GET", "/notes?a=1&b=3", "", ""); a.Status != http.StatusNotImplemented || len(p.Missed()) != 1 {
		t.Errorf("a request that was not recorded is answered with %+v, missed %v", a, p.Missed())
	}
}

func TestAnswersComeInOrder(t *testing.T) {
	exchange := func(body string) Exchange {
		return Exchange{Request{Method: "GET", Path: "/n"}, Answer{Status: 200, Body: json.RawMessage(body)}}
	}
	server := httptest.NewServer(NewPlayer(Recording{Format, []Exchange{exchange("1"), exchange("2")}}, nil))
	defer server.Close()
	var got []string
	for range 3 {
		got = append(got, ask(t, server.URL, "GET", "/n", "", "").Body)
	}
	if diff := cmp.Diff([]string{"1", "2", "2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	for _, to := range []string{"", "example.org", "ftp://example.org", "https://example.org/api", "https://u:p@example.org", "https://example.org?x=1"} {
		if _, err := NewRecorder(Config{To: to}); err == nil {
			t.Errorf("%q is a provider", to)
		}
	}
	for _, raw := range []string{``, `{"recording":2,"exchanges":[]}`, `{"recording":1,"exchange":[]}`} {
		if _, err := Read(strings.NewReader(raw)); err == nil {
			t.Errorf("%q is a recording", raw)
		}
	}
}

// Whatever stands around a secret, its base64 is found.
func TestEncodingsFindBase64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zA-Z0-9/+=_-]{12,40}`).Draw(t, "secret")
		around := rapid.String()
		text := base64.StdEncoding.EncodeToString([]byte(around.Draw(t, "before") + secret + around.Draw(t, "after")))
		for _, form := range encodings(secret) {
			if strings.Contains(text, form) {
				return
			}
		}
		t.Fatalf("%q is not found in %q", secret, text)
	})
}

// Any body may come from a provider; what is kept is JSON, and scrubbing it
// again changes nothing.
func FuzzBody(f *testing.F) {
	f.Add("application/json", []byte(`{"token":"abcdefghij","x":["abcdefghij",1e999]}`))
	f.Add("application/x-www-form-urlencoded", []byte("code=1&x=%zz"))
	f.Add("text/html; charset=utf-8", []byte("<p>\xff</p>"))
	f.Fuzz(func(t *testing.T, contentType string, raw []byte) {
		s := newScrubber(nil)
		kept, _ := s.body(contentType, raw)
		if len(kept) > 0 && !json.Valid(kept) {
			t.Fatalf("kept %s", kept)
		}
		if again := s.again(kept); !bytes.Equal(again, kept) {
			t.Fatalf("%s became %s", kept, again)
		}
	})
}
