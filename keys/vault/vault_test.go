package vault_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/keys/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "hvs.the-token-of-the-test"

// transit is the part of Vault's transit engine that is used, with its answers:
// versions in the ciphertext, errors in a list, 503 while sealed.
type transit struct {
	*httptest.Server
	mu       sync.Mutex
	versions []cipher.AEAD
	sealed   bool
	redirect string
	asked    int
}

func newTransit(t *testing.T) *transit {
	s := &transit{}
	s.turn()
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *transit) turn() {
	key := make([]byte, 32)
	rand.Read(key)
	block, _ := aes.NewCipher(key)
	gcm, _ := cipher.NewGCM(block)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, gcm)
}

func (s *transit) set(f func()) { s.mu.Lock(); defer s.mu.Unlock(); f() }

func (s *transit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
	fail := func(status int, text string) { answer(status, map[string]any{"errors": []string{text}}) }
	var in map[string]string
	if s.redirect != "" {
		http.Redirect(w, r, s.redirect+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	switch {
	case s.sealed:
		fail(503, "Vault is sealed")
	case r.Header.Get("X-Vault-Token") != token || r.Header.Get("X-Vault-Namespace") != "team":
		fail(403, "permission denied")
	case r.Method != http.MethodPost && r.Method != http.MethodPut:
		fail(405, "")
	case json.NewDecoder(r.Body).Decode(&in) != nil:
		fail(400, "failed to parse JSON input")
	case r.URL.Path == "/v1/kms/transit/encrypt/drawbridge":
		plain, err := base64.StdEncoding.DecodeString(in["plaintext"])
		if err != nil {
			fail(400, "failed to base64-decode plaintext")
			return
		}
		version := len(s.versions)
		gcm := s.versions[version-1]
		nonce := make([]byte, gcm.NonceSize())
		rand.Read(nonce)
		text := fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(gcm.Seal(nonce, nonce, plain, nil)))
		answer(200, map[string]any{"request_id": "1", "data": map[string]any{"ciphertext": text, "key_version": version}})
	case r.URL.Path == "/v1/kms/transit/decrypt/drawbridge":
		var version int
		var rest string
		if _, err := fmt.Sscanf(in["ciphertext"], "vault:v%d:%s", &version, &rest); err != nil || version < 1 || version > len(s.versions) {
			fail(400, "invalid ciphertext: no prefix")
			return
		}
		raw, err := base64.StdEncoding.DecodeString(rest)
		gcm := s.versions[version-1]
		if err != nil || len(raw) < gcm.NonceSize() {
			fail(400, "invalid ciphertext: could not decode base64")
			return
		}
		plain, err := gcm.Open(nil, raw[:gcm.NonceSize()], raw[gcm.NonceSize():], nil)
		if err != nil {
			fail(400, "cipher: message authentication failed")
			return
		}
		answer(200, map[string]any{"data": map[string]any{"plaintext": base64.StdEncoding.EncodeToString(plain)}})
	default:
		fail(404, "no handler for route")
	}
}

func (s *transit) kms(t *testing.T, change ...func(*vault.Config)) *vault.Transit {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	c := vault.Config{Address: s.URL, Mount: "kms/transit", Key: "drawbridge", Namespace: "team", Transport: tr,
		Token: func(context.Context) (string, error) { return token, nil }}
	for _, f := range change {
		f(&c)
	}
	k, err := vault.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Guarantee: CRE4 (keys from a KMS): the ring's file holds nothing plain, several
// processes share and turn over its keys, and the KMS may turn over its own.
func TestRingWrappedByVault(t *testing.T) {
	s := newTransit(t)
	path := filepath.Join(t.TempDir(), "keys.wrapped")
	one, err := keys.OpenWrapped(path, s.kms(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, []byte("vault:v1:")) || bytes.Contains(text, []byte("primaryKeyId")) {
		t.Errorf("file = %.30q, %v", text, err)
	}
	if _, err := keys.OpenFile(path); err == nil {
		t.Error("a wrapped file opens without the KMS")
	}
	two, err := keys.OpenWrapped(path, s.kms(t))
	if err != nil {
		t.Fatal(err)
	}
	context := keys.Context("a place")
	sealed, err := one.Seal([]byte("hello"), context)
	if err != nil {
		t.Fatal(err)
	}
	s.turn() // at the KMS
	next, err := one.Add()
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Promote(next); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); !bytes.HasPrefix(text, []byte("vault:v2:")) {
		t.Errorf("after a change the file = %.12q", text)
	}
	fresh, err := one.Seal([]byte("again"), context)
	if err != nil {
		t.Fatal(err)
	}
	for want, value := range map[string][]byte{"hello": sealed, "again": fresh} {
		if got, err := two.Open(value, context); string(got) != want || err != nil {
			t.Errorf("the other process opens %q, %v", got, err)
		}
	}
	// Away: what is known works on, what must be asked is unavailable, not damaged.
	s.set(func() { s.sealed = true })
	if got, err := two.Open(fresh, context); string(got) != "again" || err != nil {
		t.Errorf("while the KMS is away: %q, %v", got, err)
	}
	if err := one.Reload(); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("reload: %v", err)
	}
	if _, err := one.Add(); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("add: %v", err)
	}
	if _, err := keys.OpenWrapped(path, s.kms(t)); err == nil {
		t.Error("opened without the KMS")
	}
	s.set(func() { s.sealed = false })
	// A plain file is not taken for a wrapped one.
	plain := filepath.Join(t.TempDir(), "keys.json")
	if _, err := keys.OpenFile(plain); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.OpenWrapped(plain, s.kms(t)); err == nil {
		t.Error("a plain file was accepted")
	}
	asked := s.asked
	for range 100 {
		if _, err := one.Seal([]byte("x"), context); err != nil {
			t.Fatal(err)
		}
	}
	if s.asked != asked {
		t.Errorf("sealing asked the KMS %d times", s.asked-asked)
	}
}

func TestRefusalsTellNothing(t *testing.T) {
	s, other := newTransit(t), newTransit(t)
	ctx := t.Context()
	good := s.kms(t)
	wrapped, err := good.Wrap(ctx, []byte("the plain keys"))
	if err != nil {
		t.Fatal(err)
	}
	answers := func(body string) *vault.Transit {
		fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) }))
		t.Cleanup(fake.Close)
		return s.kms(t, func(c *vault.Config) { c.Address = fake.URL })
	}
	for name, ask := range map[string]func() error{
		"wrong token": func() error {
			_, err := s.kms(t, func(c *vault.Config) { c.Token = func(context.Context) (string, error) { return "wrong", nil } }).Unwrap(ctx, wrapped)
			return err
		},
		"no token to be had": func() error {
			_, err := s.kms(t, func(c *vault.Config) {
				c.Token = func(context.Context) (string, error) { return "", errors.New("no file") }
			}).Wrap(ctx, []byte("x"))
			return err
		},
		"another key": func() error {
			_, err := s.kms(t, func(c *vault.Config) { c.Key = "other" }).Unwrap(ctx, wrapped)
			return err
		},
		"another server's text": func() error { _, err := other.kms(t).Unwrap(ctx, wrapped); return err },
		"changed text": func() error {
			_, err := good.Unwrap(ctx, append(bytes.Clone(wrapped[:len(wrapped)-8]), "AAAAAAA="...))
			return err
		},
		"not wrapped": func() error { _, err := good.Unwrap(ctx, []byte(`{"primaryKeyId":1}`)); return err },
		"no JSON":     func() error { _, err := answers("<html>").Unwrap(ctx, wrapped); return err },
		"no data":     func() error { _, err := answers("{}").Unwrap(ctx, wrapped); return err },
		"no text":     func() error { _, err := answers(`{"data":{}}`).Unwrap(ctx, wrapped); return err },
		"no base64": func() error {
			_, err := answers(`{"data":{"plaintext":"the plain keys"}}`).Unwrap(ctx, wrapped)
			return err
		},
		"no cipher": func() error { _, err := answers(`{"data":{"ciphertext":"plain"}}`).Wrap(ctx, []byte("x")); return err },
		"too long":  func() error { _, err := answers(strings.Repeat(" ", 5<<20)).Unwrap(ctx, wrapped); return err },
		"redirect": func() error {
			s.set(func() { s.redirect = other.URL })
			defer s.set(func() { s.redirect = "" })
			before := other.asked
			_, err := good.Unwrap(ctx, wrapped)
			if other.asked != before {
				t.Error("token and text were sent to where a redirect led")
			}
			return err
		},
		"nobody there": func() error {
			_, err := s.kms(t, func(c *vault.Config) { c.Address = "http://127.0.0.1:1" }).Wrap(ctx, []byte("x"))
			return err
		},
	} {
		err := ask()
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, secret := range []string{token, "the plain keys", string(wrapped[10:30])} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error tells a secret: %v", name, err)
			}
		}
	}
	for name, c := range map[string]vault.Config{
		"plain http":       {Address: "http://vault.example", Key: "k"},
		"a name for local": {Address: "http://localhost:8200", Key: "k"},
		"no host":          {Address: "https://", Key: "k"},
		"user":             {Address: "https://u:p@vault.example", Key: "k"},
		"no key":           {Address: "https://vault.example"},
		"key with a path":  {Address: "https://vault.example", Key: "../sys/seal"},
		"mount leads out":  {Address: "https://vault.example", Key: "k", Mount: "transit/../sys"},
	} {
		if _, err := vault.New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := keys.OpenWrapped(filepath.Join(t.TempDir(), "k"), nil); err == nil {
		t.Error("no KMS is accepted")
	}
}
