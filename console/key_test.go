package console

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// keyDesk is a desk whose provider takes keys. Everything that it logs is kept.
func keyDesk(t *testing.T, d storetest.Database) (*desk, *lines) {
	t.Helper()
	log := &lines{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	k := newDeskOf(t, d, func(i *host.Instance) { i.SignIn = host.SignInKey }, func(c *host.Config) { c.Logger = logger }, func(c *Config) {
		old := c.Providers
		c.Logger = logger
		c.Providers = func() []Provider {
			all := old()
			all[0].Key = true
			return all
		}
	})
	return k, log
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// personalToken is a bearer token of an account, as its owner would make one there.
func (k *desk) personalToken(login string) string {
	k.t.Helper()
	client := sandbox.Client{ID: "tokens-of-" + login, Secret: "secret-of-" + login, Account: login}
	if err := k.org.RegisterClient(client); err != nil {
		k.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, k.org.URL()+"/oauth/token",
		strings.NewReader(url.Values{"grant_type": {"client_credentials"}, "scope": {"tickets:read tickets:write profile:read"}}.Encode()))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client.ID, client.Secret)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
		k.t.Fatalf("no token of %s: %v", login, err)
	}
	return out.Token
}

var formToken = regexp.MustCompile(`name="t" value="([^"]+)"`)

// keyForm goes on to the form for a key and returns its token.
func (b *browser) keyForm(form url.Values) string {
	b.k.t.Helper()
	a := b.post("/connect", form)
	shows(b.k.t, a, 200, "Enter a key of Sandbox", "tickets:write", `type="password"`, `autocomplete="off"`, `<label for="key">`)
	found := formToken.FindStringSubmatch(a.body)
	if found == nil {
		b.k.t.Fatalf("the form has no token:\n%s", a.body)
	}
	return found[1]
}

// Guarantee: CRE9 (a key or personal token is entered on a page, by the person who
// began, once)
// Guarantee: OPS2
func TestKeyIsEnteredOnAPageOnly(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		k, log := keyDesk(t, d)
		b := k.as(acmeAlice)
		secret := k.personalToken("alice")
		var said strings.Builder
		keep := func(a answer) answer {
			said.WriteString(a.body + a.url.String() + a.header.Get("Location") + strings.Join(a.header.Values("Set-Cookie"), ""))
			if cache := a.header.Get("Cache-Control"); cache != "no-store" {
				t.Errorf("%s may be kept: %q", a.url, cache)
			}
			return a
		}
		// What an agent is sent to leads here as well.
		link, err := k.console.ConnectLink(t.Context(), acmeAlice, "sandbox", nil)
		if err != nil {
			t.Fatal(err)
		}
		shows(t, keep(b.get(strings.TrimPrefix(link, k.server.URL))), 200, "What the key must allow", "Go on to enter a key", "whose key you enter")
		token := b.keyForm(url.Values{"t": {link[strings.Index(link, "t=")+2:]}})
		done := keep(b.post("/connect/key", url.Values{"t": {token}, "key": {"  " + secret + "\n"}, "projects": {"orders"}}))
		shows(t, done, 200, "alice at Acme is connected", "Projectsorders")
		if !strings.HasSuffix(done.url.Path, "/connected") || done.url.RawQuery != "" {
			t.Errorf("it ended at %s", done.url)
		}
		id := strings.Split(done.url.Path, "/")[2]
		if r := k.create(acmeAlice, draft); r.Pending == nil {
			t.Errorf("the connection can't be used: %v", r.Error)
		}

		// Used up: the same form, with any key.
		shows(t, keep(b.post("/connect/key", url.Values{"t": {token}, "key": {secret}})), 410, "This form no longer works", "not used and not kept")
		// Refused by the provider; another account; what a header can't carry.
		again := url.Values{"connection": {id}}
		shows(t, keep(b.post("/connect/key", url.Values{"t": {b.keyForm(again)}, "key": {"pat_CANARY-that-nobody-made"}})), 401, "The provider does not accept this key")
		bobs := k.personalToken("bob")
		shows(t, keep(b.post("/connect/key", url.Values{"t": {b.keyForm(again)}, "key": {bobs}})), 409, "This is the key of another account", "bob")
		shows(t, keep(b.post("/connect/key", url.Values{"t": {b.keyForm(again)}, "key": {"pat_CANARY\r\nX-Evil: 1"}})), 400, "could not be connected")
		shows(t, keep(b.post("/connect/key", url.Values{"t": {b.keyForm(again)}})), 400, "No key was entered")
		shows(t, keep(b.get("/connect/key?key="+"CANARY&t="+b.keyForm(again))), 404)
		// Replaced by another of the same account.
		newer := k.personalToken("alice")
		shows(t, b.get("/connect?connection="+id), 200, "Enter a key of the same account")
		shows(t, keep(b.post("/connect/key", url.Values{"t": {b.keyForm(again)}, "key": {newer}})), 200, "alice at Acme is connected")
		views, err := k.host.Credentials.List(t.Context(), acmeAlice)
		if err != nil || len(views) != 1 || string(views[0].Connection.ID) != id {
			t.Errorf("connections are %v, %v", views, err)
		}
		keep(b.get("/connections/" + id))

		kept := k.dump(d)
		for _, canary := range []string{secret, bobs, newer, "CANARY"} {
			for where, text := range map[string]string{"an answer": strings.ReplaceAll(said.String(), "/connect/key?key=CANARY&t=", ""), "the log": log.String(), "a row": kept} {
				if strings.Contains(text, canary) {
					t.Errorf("the key is in %s", where)
				}
			}
		}
		if !strings.Contains(log.String(), "connected with a key") || !strings.Contains(kept, id) {
			t.Error("log or rows were not looked at")
		}
	})
}

// dump is every row of the tables that a key passes, and on SQLite the files as well.
func (k *desk) dump(d storetest.Database) string {
	k.t.Helper()
	var text strings.Builder
	for _, table := range []string{"cred_connections", "cred_tokens", "cred_transactions", "cred_revocations", "cred_audit", "console_link"} {
		rows := k.rows(table)
		if len(rows) == 0 && table != "cred_revocations" {
			k.t.Errorf("%s has no row to look at", table)
		}
		text.WriteString(strings.Join(rows, "\n"))
	}
	files, err := filepath.Glob(strings.TrimPrefix(d.URL, "sqlite:") + "*")
	if d.Engine == store.SQLite && (err != nil || len(files) == 0) {
		k.t.Errorf("the database has the files %v, %v", files, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			k.t.Error(err)
		}
		text.Write(raw)
	}
	return text.String()
}

// Guarantee: CRE9 (whoever did not begin can't finish)
func TestKeyFormBelongsToOneSession(t *testing.T) {
	t.Parallel()
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		t.Parallel()
		k, _ := keyDesk(t, d)
		alice := k.as(acmeAlice)
		token := alice.keyForm(url.Values{"provider": {"sandbox"}})
		secret := k.personalToken("bob")
		for name, other := range map[string]*browser{"another person": k.as(acmeBob), "another tenant": k.as(globexAlice), "another browser": k.as(acmeAlice)} {
			shows(t, other.post("/connect/key", url.Values{"t": {token}, "key": {secret}}), 410, "belongs to another browser")
			if t.Failed() {
				t.Fatal(name)
			}
		}
		stranger := k.browser()
		shows(t, stranger.do(stranger.request(http.MethodPost, "/connect/key", url.Values{"t": {token}, "key": {secret}})), 401, "Nothing was done")
		shows(t, alice.do(alice.request(http.MethodPost, "/connect/key", url.Values{"t": {token}, "key": {secret}})), 403, "This form is out of date")
		k.exec(`UPDATE console_link SET expires_at = 1 WHERE kind = 'key'`)
		shows(t, alice.post("/connect/key", url.Values{"t": {token}, "key": {secret}}), 410, "has expired")
		for _, who := range []connector.Caller{acmeAlice, acmeBob, globexAlice} {
			if views, err := k.host.Credentials.List(t.Context(), who); err != nil || len(views) != 0 {
				t.Errorf("%v has %v, %v", who, views, err)
			}
		}
	})
}

// A provider at which people sign in takes no key, and what the administrator took
// back after the form was shown is not asked for.
func TestKeyFormIsForProvidersOfKeys(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	b := k.as(acmeAlice)
	b.post("/connect", url.Values{"provider": {"sandbox"}}).leave(t)
	s := &session{caller: acmeAlice}
	token, err := k.console.keepLink(t.Context(), link{kind: kindKey, owner: acmeAlice, provider: "sandbox", browser: s.keyBrowser(), life: keyFormTTL})
	if err != nil {
		t.Fatal(err)
	}
	w := newRecorder()
	r := newGet(t)
	r.PostForm = url.Values{"t": {token}, "key": {"x"}}
	k.console.connectKey(w, r, s)
	if w.Code != http.StatusNotFound {
		t.Errorf("a key was taken: %d", w.Code)
	}
	k, _ = keyDesk(t, storetest.SQLite(t))
	offered := k.console.cfg.Providers()
	k.console.cfg.Providers = func() []Provider { return offered }
	b = k.as(acmeAlice)
	token = b.keyForm(url.Values{"provider": {"sandbox"}})
	offered[0].Scopes = offered[0].Scopes[:1]
	shows(t, b.post("/connect/key", url.Values{"t": {token}, "key": {"x"}}), 403, "The administrator does not let this be asked for")
	if _, err := k.host.Credentials.Begin(t.Context(), acmeAlice, credentials.BeginRequest{Provider: "sandbox"}); connector.CodeOf(err) != connector.CodeInvalidInput {
		t.Errorf("a sign-in at a provider of keys: %v", err)
	}
}
