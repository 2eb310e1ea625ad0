package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/keys"
)

const vaultToken = "hvs.token-of-this-test"

// fakeVault answers as the transit engine of Vault does.
func fakeVault(t *testing.T) *httptest.Server {
	t.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, name, value string) {
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{name: value}})
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]string
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Vault-Token") != vaultToken || r.Header.Get("X-Vault-Namespace") != "team" {
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
			return
		}
		switch r.URL.Path {
		case "/v1/kms/transit/encrypt/bridge":
			plain, _ := base64.StdEncoding.DecodeString(in["plaintext"])
			answer(w, "ciphertext", "vault:v1:"+base64.StdEncoding.EncodeToString(gcm.Seal(nil, nil, plain, nil)))
		case "/v1/kms/transit/decrypt/bridge":
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(in["ciphertext"], "vault:v1:"))
			plain, err := gcm.Open(nil, nil, raw, nil)
			if err != nil {
				http.Error(w, `{"errors":["cipher: message authentication failed"]}`, http.StatusBadRequest)
				return
			}
			answer(w, "plaintext", base64.StdEncoding.EncodeToString(plain))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// Guarantee: CRE4 (keys from a KMS, by the setting: an installation moves there and
// goes on)
func TestKeysMoveToVault(t *testing.T) {
	org, vault := startOrg(t), fakeVault(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(vaultToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(vaultTokenFileVariable, token)
	t.Setenv(vaultNamespaceVariable, "team")
	source := "vault:" + vault.URL + "/kms/transit/bridge"
	// Before the move, a fresh ring would open nothing of what is there.
	if r := c.run("connections", "--keys", source); r.code != 2 || !strings.Contains(r.err, "drawbridge keys move") {
		t.Errorf("the setting alone: exit code %d %s", r.code, r.err)
	}
	plain, wrapped := filepath.Join(c.data, plainKeysFile), filepath.Join(c.data, wrappedKeysFile)
	if r := c.run("keys", "move", source); r.code != 0 {
		t.Fatalf("move: %s", r.err)
	}
	if r := c.run("keys", "move", source); r.code == 0 {
		t.Error("a ring was written over another one")
	}
	if err := os.Remove(plain); err != nil {
		t.Fatal(err)
	}
	t.Setenv(keysVariable, source)
	if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("after the move: %s", r.err)
	}
	text, err := os.ReadFile(wrapped)
	if err != nil || !strings.HasPrefix(string(text), "vault:v1:") {
		t.Errorf("%s = %.20q, %v", wrapped, text, err)
	}
	r := c.run("keys", "add", "--json")
	if r.code != 0 || strings.Count(r.out, `"id"`) != 2 {
		t.Errorf("add: %d %s %s", r.code, r.out, r.err)
	}
	if changed, err := os.ReadFile(wrapped); err != nil || string(changed) == string(text) || !strings.HasPrefix(string(changed), "vault:v1:") {
		t.Errorf("after a change %s = %.20q, %v", wrapped, changed, err)
	}
	if _, err := os.Stat(plain); err == nil {
		t.Error("a plain ring was made beside the wrapped one")
	}
	if err := os.WriteFile(token, []byte("hvs.CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := c.run("connections"); r.code == 0 || strings.Contains(r.err+r.out, "CANARY") {
		t.Errorf("with a token that is refused: %d %s", r.code, r.err)
	}
}

// Guarantee: CRE4 (keys from an environment secret)
func TestKeysFromTheEnvironment(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	t.Setenv(keysVariable, "env:DRAWBRIDGE_KEYRING")
	if r := c.run("connections"); r.code != 2 || !strings.Contains(r.err, "keys generate") {
		t.Errorf("without the secret: %d %s", r.code, r.err)
	}
	secret := c.run("keys", "generate").out
	t.Setenv("DRAWBRIDGE_KEYRING", secret)
	c.connect(org, "alice")
	next := c.run("keys", "add")
	ring, err := keys.Parse(next.out)
	if err != nil || len(ring.Keys()) != 2 || !strings.Contains(next.err, "DRAWBRIDGE_KEYRING") {
		t.Fatalf("the ring after add: %v, %v", ring.Keys(), err)
	}
	t.Setenv("DRAWBRIDGE_KEYRING", next.out)
	if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("with the new text: %s", r.err)
	}
	files, err := filepath.Glob(filepath.Join(c.data, "keys.*"))
	if err != nil || len(files) != 0 {
		t.Errorf("keys are on disk as well: %v, %v", files, err)
	}
	if r := c.run("keys", "move", "file"); r.code != 0 {
		t.Fatalf("move: %s", r.err)
	}
	t.Setenv(keysVariable, "")
	if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("from the file: %s", r.err)
	}
}

func TestKeySettingsThatCanNotBe(t *testing.T) {
	c := newCLI(t, "acme/alice")
	for _, setting := range []string{"keys.json", "env:", "kms:x", "vault:", "vault:vault.example/transit/k", "vault:https://vault.example/k", "vault:https://vault.example",
		"vault:http://vault.example/transit/k", "vault:https://u:p@vault.example/transit/k", "vault:https://vault.example/transit/k?token=CANARY", "vault:https://vault.example/../k"} {
		if r := c.run("keys", "--keys", setting); r.code != 2 || strings.Contains(r.err, "CANARY") {
			t.Errorf("%s: exit code %d %s", setting, r.code, r.err)
		}
	}
	t.Setenv(vaultTokenVariable, "a")
	t.Setenv(vaultTokenFileVariable, "b")
	if r := c.run("keys", "--keys", "vault:https://vault.example/transit/k"); r.code != 2 {
		t.Errorf("two tokens: exit code %d %s", r.code, r.err)
	}
}
